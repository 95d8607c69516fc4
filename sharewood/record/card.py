"""A model card, generated from the records of a ledger: what a model was trained on, by whom, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mpc.errors import DataError
from sharewood.page.document import CellTable, Headline, Page, Section
from sharewood.page.units import number
from sharewood.record.verify import Verified
from sharewood.report.figures import MEASURES


def model_card(found: Verified, model: str | None = None) -> dict[str, Any]:
    """Return the card of a model, by default the one trained last, as a JSON object. Raises DataError.

    `training` is the statement of its training, and `uses` are those of all later runs with it.
    """
    trained = [each for each in found.records if each["job"] == "train"]
    chosen = [each for each in trained if model in (None, each["results"]["model"])]
    if not chosen:
        raise DataError(f"{found.ledger.path}: there is no record of the training of {model or 'a model'}")
    training = chosen[-1]
    name = training["results"]["model"]
    uses = [e for e in found.records if e is not training and e["results"].get("model") == name]
    return {"model": name, "ledger": str(found.ledger.path.name), "training": training, "uses": uses}


def card_page(card: dict[str, Any]) -> str:
    """Return the HTML of a model card."""
    training, results = card["training"], card["training"]["results"]
    parties = training["parties"]
    rows = [own["rows"] for own in parties.values()]
    vertical = training["configuration"].get("partition") == "vertical"
    count = f"{rows[0]:,}" if vertical else " and ".join(f"{n:,}" for n in rows)
    headlines = [
        Headline("trained", _day(training), " and ".join(parties)),
        Headline("rows", count, "the same at both parties" if vertical else f"of {' and '.join(parties)}"),
        Headline("features", f"{results['features']:,}", f"{results['rounds']:,} rounds of trees"),
        *(
            Headline(MEASURES.get(metric, metric), number(value), "on held-out rows")
            for metric, value in results["metrics"].items()
            if value is not None
        ),
    ]
    page = Page(
        title=f"Model card of {card['model']}",
        subtitle="From records that both parties have signed. Nothing here was revealed that the runs did not reveal.",
        about=f"Number {training['number']} of {card['ledger']}, run {training['run']}.",
        headlines=headlines,
        sections=[
            _who(parties),
            _revealed([training, *card["uses"]]),
            _runs(card["uses"]),
            Section("Configuration", [f"SHA-256: {training['configuration_digest']}."], table=_pairs(training)),
        ],
    )
    return page.html()


def summaries(found: Verified) -> list[list[str]]:
    """Return number, day, job, signers and model or label of every record."""
    return [[str(e["number"]), _time(e), e["job"], " and ".join(e["parties"]), _about(e)] for e in found.records]


def _who(parties: dict[str, Any]) -> Section:
    rows = [
        [
            name,
            own["release"],
            own["certificate"],
            "; ".join(f"{role}: {digest}" for role, digest in own["tables"].items()),
        ]
        for name, own in parties.items()
    ]
    sentence = "Digests of tables are keyed: the key stays at the owner, who can prove its table with it."
    return Section("Who", [sentence], table=CellTable(["party", "release", "certificate", "tables"], rows, 4))


def _revealed(records: Sequence[dict[str, Any]]) -> Section:
    rows = [
        [each["job"], name, "; ".join(own["learned"]) or "nothing"]
        for each in records
        for name, own in each["parties"].items()
    ]
    unique = [list(row) for row in dict.fromkeys(map(tuple, rows))]
    return Section("What was revealed, and to whom", table=CellTable(["run", "party", "learned"], unique, 3))


def _runs(uses: Sequence[dict[str, Any]]) -> Section:
    rows = [
        [
            str(each["number"]),
            _time(each),
            each["job"],
            "; ".join(_count(name, own) for name, own in each["parties"].items()),
        ]
        for each in uses
    ]
    return Section("Runs with this model", table=CellTable(["number", "time", "run", "rows"], rows, 4))


def _count(name: str, own: dict[str, Any]) -> str:
    answered = [f"{rows:,} for {client}" for client, rows in own["answered"].items()]
    return f"{name}: {', '.join(answered) if answered else own['rows'] if own['rows'] is not None else '-'}"


def _pairs(entry: dict[str, Any]) -> CellTable:
    return CellTable(["parameter", "value"], [[key, json.dumps(v)] for key, v in entry["configuration"].items()], 2)


def _about(entry: dict[str, Any]) -> str:
    results = entry["results"]
    return str(results.get("model") or results.get("exploration") or "")


def _time(entry: dict[str, Any]) -> str:
    return str(next(iter(entry["parties"].values()))["time"])[:16].replace("T", " ")


def _day(entry: dict[str, Any]) -> str:
    return _time(entry)[:10]
