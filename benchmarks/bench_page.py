"""docs/benchmarks.md and its figures, from a run of `make bench`; `--page` writes them again from what it has kept.

It keeps the last run. What the page has beside the peers is from figures/papers.json and figures/spu.json, which
`benchmarks.papers` and `benchmarks.beside_spu` write.
"""

from __future__ import annotations

import argparse
import json
import os
import ssl
from pathlib import Path
from typing import Any

from benchmarks import beside_spu, papers
from benchmarks.__main__ import OUT, RIVALS
from benchmarks.complexity import table
from benchmarks.plot_bench import draw_all, values
from benchmarks.program import DOCS, parse

KEPT = DOCS / "figures" / "benchmarks.json"
FACTS = ("suite", "name", "size", "system", "rounds", "online_bytes", "offline_bytes", "offline_seconds")
OURS = {"TLS": "sharewood", "no TLS": "sharewood, no TLS"}
Systems = dict[str, dict[str, Any]]
# Seconds per tree as published, by setting of `benchmarks.papers` and network; 6 and 8 threads for each party.
PUBLISHED = {
    ("200,000 x (8 + 7), 8 bins, depth 4", "LAN"): "AnonGBDT 9.7, Squirrel 11.1",
    ("140,000 x (7 + 16), 10 bins, depth 5", "100 Mbit/s"): "Squirrel 40",
}


def run_of(results: dict[str, Any]) -> dict[str, Any]:
    """A run on this machine, from pytest-benchmark's JSON: where, of which code, and what the page needs of it."""
    return {
        "processor": results["machine_info"]["cpu"]["brand_raw"],
        "cores": os.cpu_count(),
        "tls": " ".join(ssl.OPENSSL_VERSION.split()[:2]),
        "revision": results["commit_info"]["id"][:7],
        "benchmarks": kept(results["benchmarks"]),
    }


def kept(benchmarks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the page and its figures need of pytest-benchmark's JSON, in its form."""
    shown = [b for b in benchmarks if b["extra_info"].get("suite") in ("operation", "tree")]
    return [
        {
            "extra_info": {key: b["extra_info"][key] for key in FACTS if key in b["extra_info"]},
            "stats": {"median": b["stats"]["median"]},
        }
        for b in shown
    ]


def at_largest(benchmarks: list[dict[str, Any]], suite: str) -> dict[tuple[str, int], Systems]:
    """Of each name the largest size: what was measured of each system."""
    found = {}
    for name, systems in values(benchmarks, suite).items():
        points = [(system, point) for system, points in systems.items() for point in points]
        largest = max(int(point["n"]) for _, point in points)
        found[name, largest] = {system: point for system, point in points if point["n"] == largest}
    return found


def _ratios(operations: dict[tuple[str, int], Systems]) -> str:
    rows = []
    for (name, size), systems in operations.items():
        cells = []
        for ours in OURS.values():
            online, both = systems[ours]["seconds"], systems[ours]["seconds"] + systems[ours]["offline_seconds"]
            theirs = [systems[rival]["seconds"] for rival in RIVALS]
            cells += [f"{t / online:.1f} / {t / both:.1f}" for t in theirs]
        rows.append([name, f"{size:,}", *cells])
    head = [f"{party} party, {how}" for how in OURS for party in ("first", "third")]
    return table(["CrypTen / Sharewood", "n", *head], rows, words_first=1)


def _figures(found: dict[tuple[str, int], Systems]) -> str:
    rows = []
    for (name, size), systems in found.items():
        for system, p in systems.items():
            offline = f"{1e3 * p['offline_seconds']:,.2f}" if "offline_seconds" in p else ""
            times = [f"{1e3 * p['seconds']:,.2f}", offline]
            sizes = [f"{p[kind] / 1e6:,.2f}" if p.get(kind) else "" for kind in ("online_bytes", "offline_bytes")]
            rows.append([name, system, f"{size:,}", *times, f"{p['rounds']:,}", *sizes])
    return table(["", "system", "n", "online ms", "offline ms", "rounds", "online MB", "dealt MB"], rows, words_first=2)


def _machine(run: dict[str, Any]) -> str:
    return f"{run['processor']}, {run['cores']} cores, TLS by {run['tls']}, Sharewood at {run['revision']}"


def _papers(found: dict[str, Any]) -> str:
    runs = {(run["setting"], run["network"], run["offline"]): run for run in found["runs"]}
    rows = []
    for setting, network in dict.fromkeys((run["setting"], run["network"]) for run in found["runs"]):
        cells = []
        for maker in ("pairwise", "dealer"):
            r = runs[setting, network, maker]
            cells += [
                f"{r['s per tree']:.1f}",
                f"{r['MB per tree']:,.0f}",
                f"{r['set-up, s']:.1f}, {r['set-up, MB']:,.0f}",
            ]
        rows.append([setting, network, *cells, PUBLISHED.get((setting, network), "")])
    kinds = "no third party", "with a dealer"
    head = [f"{kind}: {what}" for kind in kinds for what in ("s per tree", "MB per tree", "set-up, s, MB")]
    return table(["table", "network", *head, "published, s per tree"], rows, words_first=2)


def page(run: dict[str, Any], of_papers: dict[str, Any], of_spu: dict[str, Any]) -> str:
    operations = at_largest(run["benchmarks"], "operation")
    return f"""# Beside the peers

`python -m benchmarks.bench_page` writes this page from `figures/papers.json` (`python -m benchmarks.papers`),
`figures/spu.json` (`python -m benchmarks.beside_spu`) and a run of `make bench` in `figures/benchmarks.json`; do not
edit it by hand.

## The settings of the papers

[AnonGBDT](https://arxiv.org/abs/2605.26903) (IEEE S&P 2026) and Squirrel (USENIX Security 2023) train for two parties
by columns without a third party. Here are their tables: rows x (columns of each party), with random values, since the
costs depend on shapes only. Two hosts run the commands over TLS, with a dealer in the last columns, all on one machine
with {of_papers["cores"]} cores, through a relay that delays and limits what each host sends:
{_networks()}.
Their figures are those that the papers publish, of other machines, with 6 threads for each party at 200,000 rows and 8
at 140,000.

{_papers(of_papers)}

Seconds and MB per tree are those after set-up, which takes place once per training.

## Operations beside SecretFlow SPU

{of_spu["elements"]:,} values of 64 bits. Ours are processes with TLS, offline and online together. SPU 0.9.5 runs its
parties as threads of one process without TLS. In SEMI2K, its first party makes the masks and knows them all, so nothing
is secret from it; CHEETAH has no third party.

{beside_spu.beside(of_spu)}

Two more peers have published figures only, of other machines: emp-ot 1.0 makes 124 million correlated oblivious
transfers per second by Ferret on one thread of a Zen 5, in one direction (`python -m benchmarks.ot_rate` measures ours:
both directions at once, on the cores that are there). MP-SPDZ has no boosting; its decision trees sort the rows
obliviously. SecretFlow's own boosting (SS-XGB) pins packages that PyPI does not have, so it is not in the tables.

## Operations beside CrypTen

Two processes run on one machine over loopback, with one core and one thread each, and a dealer where there is one. All
systems process the same tensors; figures are medians of rounds in which the systems take turns. Sharewood's dealing is
timed separately, as "offline". CrypTen 0.4.1 deals within each operation. By default, its first party makes the masks
and knows them all, so nothing is secret from it; with a third party, which is a separate process, the trust is the same
as with our dealer.

CrypTen uses plain sockets, and Sharewood uses TLS 1.3. "No TLS" is Sharewood on plain sockets, which exists only for
this comparison.

The first table gives the ratio of CrypTen's median to ours at the largest size: online / offline and online together.
It depends on the processor, and on the speed of the TLS library. {_machine(run)}:

{_ratios(operations)}

These are the figures behind it. n counts values, or the rows of a square matrix.

![time and bytes against n](figures/operations.png)

{_figures(operations)}

## The stages of a tree

n x 20, 32 bins, depth 4.

![time and bytes of the stages of a tree](figures/tree_stages.png)

{_figures(at_largest(run["benchmarks"], "tree"))}
"""


def _networks() -> str:
    each = (
        f"{name} ({1e3 * link.round_trip:g} ms there and back, {link.rate / 1e6:,.0f} Mbit/s)"
        for name, link in papers.NETWORKS.items()
    )
    return ", ".join(each)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--results", type=Path, default=OUT / "results.json", help="of make bench")
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parse(parser, arguments, page=True)
    run = json.loads(KEPT.read_text()) if options.page else run_of(json.loads(options.results.read_text()))
    figures = options.out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    (figures / KEPT.name).write_text(json.dumps(run, indent=1) + "\n")
    draw_all(run["benchmarks"], figures)
    kept_of = (json.loads((DOCS / "figures" / name).read_text()) for name in (papers.NAME, beside_spu.NAME))
    (options.out / "benchmarks.md").write_text(page(run, *kept_of))


if __name__ == "__main__":
    main()
