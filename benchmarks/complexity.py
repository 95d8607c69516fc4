"""Write docs/complexity.md from the declared costs and from the plan of a training.

    python -m benchmarks.complexity

Nothing is measured: rounds and bits are those of the protocols' contracts, which are compared with a rehearsal on
zeros; dealt bytes are the corrections of the randomness that the rehearsal requests.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.program import DOCS, parse
from mpc.endpoint import ROUND_PRICE
from mpc.matrix.linear_map import MatrixVectors
from mpc.offline.correlation import Correlation
from mpc.planning import Rehearsal
from mpc.protocol.catalogue import Call, Zeros, entries
from mpc.protocol.contract import Contract
from protocols.offline.sizes import dealt_bytes
from protocols.runtime.settings import Link
from secure_tree.public.config import TrainConfig
from secure_tree.training.cost import Sizes, plan_training

ELEMENTS = 1024


@dataclass(frozen=True)
class Price:
    """Rounds; bits that party 0 and party 1 send; bytes of corrections that the dealer sends to each."""

    rounds: int
    bits: tuple[int, int]
    dealt: tuple[int, int]


def price(protocol: Contract[..., Any], call: Call, n: int) -> Price:
    """Return the declared price of one call on n elements, after comparing it with a rehearsal."""
    rehearsal = Rehearsal.at(0)
    given = call.arguments(Zeros(rehearsal.party), n)
    declared = protocol.cost(*given, **call.named)
    # The masks of a known matrix' vectors are taken ahead, with the arguments.
    ahead = [request for request in rehearsal.cut().requests if isinstance(request, MatrixVectors)]
    protocol(rehearsal.party, *given, **call.named)
    spent = rehearsal.cut()
    if (spent.rounds, 8 * spent.sent) != (declared.rounds, declared.bits[0]):
        raise AssertionError(f"{protocol.name} declares {declared} and spends {spent}")
    return Price(declared.rounds, declared.bits, _dealt(ahead + spent.requests))


def _dealt(requests: Iterable[Correlation[object]]) -> tuple[int, int]:
    each = dealt_bytes(requests).values()
    return sum(first for first, _ in each), sum(second for _, second in each)


def protocol_rows() -> Iterable[list[str]]:
    """Return the cost of each further element, and the constant cost of a call."""
    for protocol, call in ((entry.protocol, call) for entry in entries() for call in entry.priced):
        once, twice = (price(protocol, call, n) for n in (ELEMENTS, 2 * ELEMENTS))
        cells = []
        for one, two in zip(once.bits + once.dealt, twice.bits + twice.dealt, strict=True):
            slope = Fraction(two - one, ELEMENTS)
            rest = one - slope * ELEMENTS
            parts = [_number(slope)] * bool(slope) + [f"{_number(rest)} once"] * bool(rest)
            cells.append(" + ".join(parts) or "0")
        variant = ", ".join(f"{name}={value}" for name, value in call.named.items())
        yield [f"`{protocol.name.split('.')[-1]}`", call.element, variant, str(once.rounds), *cells]


def _number(value: Fraction) -> str:
    return f"{int(value):,}" if value.denominator == 1 else f"{float(value):,.3f}".rstrip("0")


# The rows, features, bins and depth of a tree; each row of the table changes one of them.
REFERENCE = (10_000, 20, 32, 4)
WIDE = 1_000  # features
VARIED = ((1_000, 10_000, 100_000), (10, 20, 40), (16, 32, 64), (1, 2, 3, 4, 5))


# A link between two hosts: its round trip in seconds, and bits per second.
SLOW = Link(0.04, 1e8)


@cache
def tree_price(
    rows: int, features: int, bins: int, depth: int, round_price: int = ROUND_PRICE, dealer: bool = True
) -> Price:
    """Return the price of one boosting round with one tree, for data by rows with half of the rows at each party."""
    config = TrainConfig.of(n_estimators=1, max_depth=depth, max_bin=bins)
    sizes = replace(Sizes.numeric((rows // 2, rows // 2), features), round_price=round_price)
    demand = next(d for d in plan_training(config, sizes, dealer) if d.step == "one round of trees")
    dealt = _dealt(demand.requests) if dealer else (0, 0)
    return Price(demand.rounds, (8 * demand.sent, 8 * demand.received), dealt)


def _tree_cells(*sizes: int, **given: Any) -> list[str]:
    """Return rounds, and MB online and dealt in all directions."""
    cost = tree_price(*sizes, **given)
    figures = [sum(cost.bits) / 8e6] + [sum(cost.dealt) / 1e6] * given.get("dealer", True)
    return [str(cost.rounds), *(f"{figure:,.2f}" for figure in figures)]


def tree_rows() -> Iterable[list[str]]:
    for place, values in enumerate(VARIED):
        for value in (*values, *[WIDE] * (place == 1)):
            sizes = *REFERENCE[:place], value, *REFERENCE[place + 1 :]
            slow, paired = _tree_cells(*sizes, round_price=SLOW.round_price), _tree_cells(*sizes, dealer=False)
            yield [*(f"{size:,}" for size in sizes), *_tree_cells(*sizes), *slow, *paired]


def level_rows() -> Iterable[list[str]]:
    """Return what each level adds: the cost of a tree of that depth minus that of a tree one level shallower."""
    for level in VARIED[-1][1:]:
        shallow, deep = (tree_price(*REFERENCE[:3], depth) for depth in (level - 1, level))
        online, dealt = (sum(deep.bits) - sum(shallow.bits)) / 8e6, (sum(deep.dealt) - sum(shallow.dealt)) / 1e6
        yield [str(level), str(1 << level - 1), str(deep.rounds - shallow.rounds), f"{online:,.2f}", f"{dealt:,.2f}"]


def table(head: list[str], rows: Iterable[list[str]], words_first: int = 0) -> str:
    rule = ["---"] * words_first + ["---:"] * (len(head) - words_first)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows))


def page() -> str:
    n, d, k, depth = REFERENCE
    protocols = table(
        [
            "protocol",
            "an element is one",
            "variant",
            "rounds",
            "bits 0 to 1",
            "bits 1 to 0",
            "dealt to 0",
            "dealt to 1",
        ],
        protocol_rows(),
        words_first=3,
    )
    sizes = ["rows", "features", "bins", "depth"]
    of_each = ["rounds", "online MB", "dealt MB"]
    slow = [f"{what}, slow link" for what in of_each]
    trees = table([*sizes, *of_each, *slow, "rounds, no dealer", "online MB, no dealer"], tree_rows())
    wide, narrow = (tree_price(n, features, k, depth) for features in (WIDE, d))
    online, dealt = sum(wide.bits) / 8e6, sum(wide.dealt) / 1e6
    per_feature = [(online - sum(narrow.bits) / 8e6) / (WIDE - d), (dealt - sum(narrow.dealt) / 1e6) / (WIDE - d)]
    levels = table(["level", "nodes", *of_each], level_rows())
    return f"""# What protocols and trees cost

`python -m benchmarks.complexity` writes this page from the declared costs, and a test compares the two; do not edit it
by hand. Nothing below is measured, and nothing depends on data.

## Protocols

For each further element, the table gives the payload bits in each direction, and the bytes of corrections that the
dealer sends to each party. A party expands all of its other randomness from a seed of 16 bytes. "Once" is the constant
cost of a call. Rounds do not depend on the number of elements.

{protocols}

## A tree

The table gives the cost of one boosting round with one tree for data by rows: gradients, all levels, leaves, and the
new margins. Figures are sums over both directions, and dealt bytes are sums over both parties. Starting from {n:,}
rows, {d} features, {k} bins and depth {depth}, one of them is varied at a time. The widths of sums depend on the number
of rows, in whole bytes, so the cost per row changes in small steps.

Where a protocol has a shape with fewer rounds and more bytes, the parties take it if a round on their link is worth
more than those bytes from the dealer. The link is `[link]` in the file of a job, or `round_trip` and `rate` of
`run_local`. Without it, a round is worth {ROUND_PRICE:,} bytes; the columns "slow link" are those of a round trip of
{1000 * SLOW.round_trip:.0f} ms at {SLOW.rate / 1e6:.0f} Mbit/s, {SLOW.round_price:,} bytes. Without a dealer, what the
parties make together takes transfers, whatever the link is, so there is one shape.

{trees}

A further feature adds about {per_feature[0]:.2f} MB online and {per_feature[1]:.2f} MB from the dealer: {WIDE:,}
features take {online:,.0f} MB and {dealt:,.0f} MB per tree.

## A level

The table shows what each further level adds to a tree for {n:,} rows, {d} features and {k} bins: the cost of a tree of
that depth minus that of a tree one level shallower, including the doubled number of leaves. Bytes that do not depend on
the rows double with the number of nodes; rounds do not.

{levels}
"""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parse(parser, arguments)
    (options.out / "complexity.md").write_text(page())


if __name__ == "__main__":
    main()
