"""What a party reports of its run between hosts: which run it was, which model came of it, what it cost."""

from __future__ import annotations

import logging
import resource
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mpc.errors import DataError
from mpc.files import remove, write_bytes
from mpc.meter import Stage
from mpc.party import Party
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.storage import write_json
from sharewood import __version__

log = logging.getLogger("sharewood")


def about(pairing: str, **files: Path | None) -> dict[str, Any]:
    """When and with which version this is, the random id of the model, and the names of the files."""
    named = {role: path.name for role, path in files.items() if path}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"date": now, "version": __version__, "id": pairing, "files": named}


def rounds_of_trees(estimator: SecureXGBClassifier | SecureXGBRegressor, resumed_after: int | None) -> dict[str, Any]:
    """Rounds asked for, grown, and kept in the model, with their metric; and those that a resumed run began with.

    Early stopping keeps the rounds with the best metric, and drops those that it took to see that.
    """
    assert estimator.model is not None, "the estimator has been fitted"
    asked, kept = estimator.config.n_estimators, estimator.model.rounds
    grown = estimator.curve[-1][0] if estimator.curve else asked
    metric = dict(estimator.curve).get(kept)
    return {"asked": asked, "grown": grown, "kept": kept, "metric": metric, "resumed_after": resumed_after or 0}


def costs(party: Party, name: str, grown: int | None = None) -> dict[str, Any]:
    """Seconds, rounds, wire bytes in both directions by stage and part of a tree; peak memory; what was revealed.

    As party `name` measured it; with the online stage for each of `grown` rounds of trees, where that is said.
    """

    def counted(spent: dict[str, Stage]) -> dict[str, dict[str, Any]]:
        return {
            name: {
                "seconds": stage.seconds,
                "rounds": stage.rounds,
                "bytes": stage.bytes_sent + stage.bytes_received,
                "bytes_dealt": stage.bytes_dealt,
            }
            for name, stage in spent.items()
        }

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    learned = {"revealed": party.revealed, "memory_peak_bytes": {name: peak}}
    stages = counted(party.stages)
    if "offline" in stages:
        offline = stages["offline"]
        offline |= {"bytes_dealer": offline["bytes_dealt"], "bytes_parties": offline["bytes"]}
    if grown:
        online = stages["online"]
        online |= {f"{key}_per_tree": online[key] / grown for key in ("seconds", "rounds", "bytes")}
    return {**stages, "parts": counted(party.parts), **learned}


def page_beside(result: Path) -> Path:
    """Where the report on a run lies that wrote `result`."""
    return result.with_name(f"{result.stem}.report.html")


def write_reports(result: Path | None, page: str | None, report: dict[str, Any], json: Path | None) -> None:
    """Write the page beside `result`, and the figures to `json`, where there are any; `written` in them are the files.

    The result is there already, so a page that cannot be written is a warning, and that of an earlier run goes. Raises
    DataError for `json`.
    """
    written = f"; {result} is written" if result else ""
    report["written"] = [str(result)] if result else []
    if result and page:
        try:
            remove(page_beside(result))
            write_bytes(page_beside(result), page.encode())
            report["written"].append(str(page_beside(result)))
        except DataError as error:
            log.warning("%s%s", error, written)
    if json:
        try:
            write_json(json, report)
        except DataError as error:
            raise DataError(f"{error}{written}") from None
