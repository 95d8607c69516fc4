"""The tables of `benchmarks.edges_cost`: README's "Measured", and those of docs/heterogeneity.md."""

from __future__ import annotations

from typing import Any

from benchmarks.complexity import table

# SecretFlow's SS-XGB on SPU, by columns, with a dealer inside a party, as measured once on a machine of this kind.
PEER = {569: "4.0, about 1,700, 93", 10_000: "18.6; 1,689", 100_000: "78 at half the bins; 8,679"}


def measured(study: dict[str, Any]) -> str:
    """Return README's table, and the sentence about data by columns."""
    points = study["points"]
    kinds = [[p for p in points if p["edges"] == kind] for kind in ("private", "joint")]
    head = [
        "work",
        "private edges, the default",
        "joint edges",
        "SecretFlow SS-XGB on SPU (vertical; dealer in a party)",
    ]
    rows = []
    for number, of_size in enumerate(zip(*kinds, strict=True)):
        size, peer = _size(of_size[0]), PEER.get(of_size[0]["rows"], "")
        if number:
            cells = [f"{_elapsed(p):.2f}; {_short(_online(p))}" for p in of_size]
            rows.append([f"{size}: seconds per tree, dealing included; online MB", *cells, peer])
        else:
            cells = [f"{p['online']['seconds'] / p['trees']:.2f}, {_rounds(p)}, {_short(_online(p))}" for p in of_size]
            rows.append([f"{size}: online seconds, rounds, MB per tree", *cells, peer])
    dealt = [", ".join(_short(_dealt(p)) for p in of_kind) for of_kind in kinds]
    setup = [", ".join(_short(p["setup"]["bytes"] / 1e6) for p in of_kind) for of_kind in kinds]
    rows += [["the dealer sends, MB per tree", *dealt, ""], ["set-up, once, MB", *setup, ""]]
    columns = study["columns"]
    return f"""{table(head, rows, words_first=4)}

With data by columns instead of rows, a tree of the first row takes {_rounds(columns)} rounds,
{_short(_online(columns))} MB, and {_short(_dealt(columns))} MB from the dealer."""


def costs(points: list[dict[str, Any]]) -> str:
    """Return both tables of the page."""
    return f"{_costs(points)}\n\n{_ratios(points)}"


def _size(p: dict[str, Any]) -> str:
    return f"{p['rows']:,} x {p['features']}, depth {p['depth']}"


def _short(megabytes: float) -> str:
    return f"{megabytes:.1f}" if megabytes < 10 else f"{megabytes:,.0f}"


def _rounds(p: dict[str, Any]) -> str:
    return f"{p['online']['rounds'] / p['trees']:.0f}"


def _online(p: dict[str, Any]) -> float:
    return p["online"]["bytes"] / p["trees"] / 1e6


def _dealt(p: dict[str, Any]) -> float:
    return p["offline"]["dealt"] / p["trees"] / 1e6


def _elapsed(p: dict[str, Any]) -> float:
    return (p["elapsed"] - p["setup"]["seconds"]) / p["trees"]


def whole(point: dict[str, Any], what: str) -> float:
    """Return the bytes, or the dealt bytes, of all stages of a training."""
    return sum(point[stage][what] for stage in ("setup", "offline", "online"))


def _costs(points: list[dict[str, Any]]) -> str:
    rows = []
    for p in points:
        trees = p["trees"]
        setup = [f"{p['setup']['seconds']:.2f}", str(p["setup"]["rounds"])]
        setup += [f"{p['setup'][what] / 1e6:,.1f}" for what in ("bytes", "dealt")]
        tree = [f"{p[stage]['seconds'] / trees:.2f}" for stage in ("offline", "online")]
        tree += [f"{_elapsed(p):.2f}", _rounds(p), f"{_online(p):,.2f}", f"{_dealt(p):,.1f}"]
        rows.append([_size(p), p["edges"], *setup, *tree, f"{p['memory'] / 1e6:,.0f}"])
    head = ["size", "edges", "set-up s", "rounds", "MB", "dealt MB"]
    head += ["tree: offline s", "online s", "elapsed s", "rounds", "MB", "dealt MB", "peak memory MB"]
    return table(head, rows, words_first=2)


def _ratios(points: list[dict[str, Any]]) -> str:
    rows = []
    for joint, private in zip(points[::2], points[1::2], strict=True):
        tree = [
            joint[s][w] / private[s][w] for s, w in (("online", "seconds"), ("online", "bytes"), ("offline", "dealt"))
        ]
        of_all = [joint["elapsed"] / private["elapsed"]]
        of_all += [whole(joint, what) / whole(private, what) for what in ("bytes", "dealt")]
        rows.append([_size(joint), *(f"{ratio:.2f}" for ratio in tree + of_all)])
    head = ["joint over private", "tree: online s", "MB", "dealt MB", "training: elapsed s", "MB", "dealt MB"]
    return table(head, rows, words_first=1)
