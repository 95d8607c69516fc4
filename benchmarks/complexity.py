"""docs/complexity.md, written from the declared costs and from the plan of a training.

    python -m benchmarks.complexity

Nothing is measured: rounds and bits are those that `@protocol` declares, checked here against a rehearsal on zeros;
dealt bytes are the corrections of the randomness that the rehearsal asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mpc import (
    argmax,
    beaver,
    bit_product,
    comparison,
    comparison_keys,
    conversion,
    division,
    equality,
    fixed_operand,
    linear_map,
    matrix_product,
    one_hot,
    reciprocal,
    sharing,
    sigmoid,
    sigmoid_exponential,
    sigmoid_piecewise,
    truncation,
    weighted_choice,
    widening,
)
from mpc.linear_map import DenseBits, DenseWords, MatrixVectors
from mpc.party import Party
from mpc.rings import GF2, Z8, Z32, Z64, Ring, Z2k
from mpc.shares import AShare, BShare, public_bits, public_ring
from mpc.tracing import Trace
from protocols.randomness.sizes import dealt_bytes
from secure_tree.config import TrainConfig
from secure_tree.planning import Sizes, plan_training

PAGE = Path(__file__).parent.parent / "docs" / "complexity.md"
ELEMENTS = 1024


def words(party: Party, *shape: int, ring: Z2k = Z64, scale: int = 0) -> AShare:
    return public_ring(np.zeros(shape, np.int64), party.rank, scale, ring)


def bits(party: Party, *shape: int) -> BShare:
    return public_bits(np.zeros(shape, np.uint8), party.rank)


def _x(count: int = 1, *more: Any, ring: Z2k = Z64, scale: int = 0) -> Callable:
    """Arguments: `count` shares of n words, and public ones."""
    return lambda party, n: [*(words(party, n, ring=ring, scale=scale) for _ in range(count)), *more]


def _b(count: int = 1, *tail: int) -> Callable:
    return lambda party, n: [bits(party, n, *tail) for _ in range(count)]


def _fixed(party: Party, n: int) -> list:
    return [words(party, 1, n, 32), fixed_operand.fix(party, words(party, 1, 32, 32))]


def _known(ring: Ring, n_in: int, n_out: int, party: Party) -> list:
    if ring == GF2:
        matrix = DenseBits(np.zeros((n_out, n_in), np.uint8))
    else:
        matrix = DenseWords(np.zeros((n_in, n_out), ring.dtype))
    return [0, matrix if party.rank == 0 else None, n_in, n_out, ring]


def _apply(ring: Ring) -> Callable:
    def arguments(party: Party, n: int) -> list:
        shared = linear_map.share_masked_matrix(party, *_known(ring, n, 32, party))
        x = words(party, 1, n, ring=ring) if isinstance(ring, Z2k) else bits(party, 1, n)
        return [shared.supply(party, 1), x]

    return arguments


def _shared(party: Party, n: int) -> list:
    return [np.zeros(n, np.int64) if party.rank == 0 else None, 0, (n,)]


# protocol, what n of it is, arguments, named arguments
ROWS: list[tuple[Callable, str, Callable, dict]] = [
    (sharing.share, "word of party 0", _shared, {}),
    (sharing.reveal, "word, to both", _x(), {}),
    (sharing.reveal, "word, to party 0", _x(1, 0), {}),
    (sharing.reveal, "bit, to both", _b(), {}),
    (beaver.multiply, "product", _x(2), {}),
    (beaver.square, "square", _x(), {}),
    (matrix_product.matmul, "row of X, Y 32 x 32", lambda p, n: [words(p, n, 32), words(p, 32, 32)], {}),
    (bit_product.and_bits, "and", _b(2), {}),
    (bit_product.or_bits, "or", _b(2), {}),
    (bit_product.to_ring, "bit into words of 64 bits", _b(), {}),
    (bit_product.select, "bit times word", lambda p, n: [bits(p, n), words(p, n)], {}),
    (weighted_choice.choose, "one of 8 factors", lambda p, n: [bits(p, n, 8), words(p, n), range(8)], {}),
    (fixed_operand.fix, "row of a matrix of 32 columns", lambda p, n: [words(p, 1, n, 32)], {}),
    (fixed_operand.multiply_fixed, "vector of 32 times 32 x 32", _fixed, {}),
    (linear_map.share_masked_matrix, "row to 32 sums, 32 bits", lambda p, n: _known(Z32, n, 32, p), {}),
    (linear_map.share_masked_matrix, "row to 32 parities", lambda p, n: _known(GF2, n, 32, p), {}),
    (linear_map.apply_matrix, "word to 32 sums, 32 bits", _apply(Z32), {}),
    (linear_map.apply_matrix, "word to 32 sums, 64 bits", _apply(Z64), {}),
    (linear_map.apply_matrix, "bit to 32 parities", _apply(GF2), {}),
    (widening.widen, "word", _x(ring=Z32), {}),
    (truncation.truncate, "word, by 20 bits", _x(1, 20), {}),
    (truncation.floor_by_bits, "word, by 20 bits", _x(1, 20), {}),
    *((truncation.floor, "word, by 20 bits", _x(1, 20), {"by": by}) for by in ("bits", "keys")),
    (comparison.below_by_bits, "x < t, 64 bits", _x(1, [0], 64), {}),
    *((comparison.below, "x < t, 64 bits", _x(1, [0], 64), {"by": by}) for by in ("bits", "keys", "carries")),
    *((comparison.below, "x < t for 16 t, 64 bits", _x(1, range(16), 64), {"by": by}) for by in ("bits", "keys")),
    *((comparison.below, "x < t, 32 bits", _x(1, [0], 32), {"by": by}) for by in ("bits", "keys")),
    *((comparison.less_than, "x < y, 64 bits", _x(2), {"by": by}) for by in ("bits", "keys")),
    *((comparison.in_range, "l <= x < h, 64 bits", _x(1, -1, 1), {"by": by}) for by in ("bits", "keys")),
    *((comparison.maximum, "larger of two, 64 bits", _x(2), {"by": by}) for by in ("bits", "keys")),
    (comparison_keys.below_by_keys, "x < t, 64 bits", _x(1, [0], 64), {}),
    (comparison_keys.floor_by_keys, "word, by 20 bits", _x(1, 20), {}),
    (comparison_keys.larger_by_keys, "larger of two, 64 bits", _x(2, 64), {}),
    (conversion.to_bits, "word into 64 bits", _x(1, 64), {}),
    (equality.equals_zero, "word of 4 bits", _x(1, 4, ring=Z8), {}),
    (one_hot.one_hot, "index of 5 bits", _b(1, 5), {}),
    (one_hot.all_of, "5 bits", _b(1, 5), {}),
    *(
        (argmax.argmax, "row of 32, 20 bits", lambda p, n: [words(p, n, 32), 20], {"radix": radix, "by": "bits"})
        for radix in (2, 4, 8)
    ),
    (argmax.argmax, "row of 32, 20 bits", lambda p, n: [words(p, n, 32), 20], {"by": "keys"}),
    *((reciprocal.normalise, "word in 1 .. 2^20", _x(1, 0, 19), {"by": by}) for by in ("bits", "keys")),
    *((reciprocal.invert, "mantissa", _x(), {"by": by}) for by in ("bits", "keys")),
    *((reciprocal.reciprocal, "word in 1 .. 2^20", _x(1, 0, 19), {"by": by}) for by in ("bits", "keys")),
    (reciprocal.reciprocal, "word in 1 .. 2^20, rounded at random", _x(1, 0, 19), {"exact": False}),
    *((division.divide, "quotient by 1 .. 2^20", _x(2, 0, 19, 16), {"by": by}) for by in ("bits", "keys")),
    *((sigmoid.sigmoid, "value and slope", _x(1, 20, scale=20), {"by": by}) for by in ("bits", "keys")),
    *((sigmoid_piecewise.sigmoid_piecewise, "value and slope", _x(scale=16), {"by": by}) for by in ("bits", "keys")),
    *((sigmoid_exponential.sigmoid_exponential, "value", _x(scale=16), {"by": by}) for by in ("bits", "keys")),
]


@dataclass(frozen=True)
class Price:
    """Rounds; bits that party 0 and party 1 send; bytes of corrections that the dealer sends to either."""

    rounds: int
    bits: tuple[int, int]
    dealt: tuple[int, int]


def price(protocol: Callable, arguments: Callable, named: dict, n: int) -> Price:
    """Of one call on n elements: as declared, which a rehearsal has to confirm."""
    trace = Trace.at(0)
    given = arguments(trace.party, n)
    declared = protocol.cost(*given, **named)
    # The masks of a known matrix' vectors are taken ahead, with the arguments.
    ahead = [kind for kind in trace.cut() if isinstance(kind, MatrixVectors)]
    before = trace.party.meter.total.rounds, trace.party.meter.total.sent
    protocol(trace.party, *given, **named)
    spent = trace.party.meter.total.rounds - before[0], trace.party.meter.total.sent - before[1]
    if spent != (declared.rounds, declared.bits[0]):
        raise AssertionError(f"{protocol.__name__} declares {declared} and spends {spent}")
    return Price(declared.rounds, declared.bits, _dealt(ahead + trace.cut()))


def _dealt(kinds: Iterable) -> tuple[int, int]:
    each = dealt_bytes(kinds).values()
    return sum(first for first, _ in each), sum(second for _, second in each)


def protocol_rows() -> Iterable[list[str]]:
    """What each further element costs, and what a call costs besides."""
    for protocol, element, arguments, named in ROWS:
        once, twice = (price(protocol, arguments, named, n) for n in (ELEMENTS, 2 * ELEMENTS))
        cells = []
        for one, two in zip(once.bits + once.dealt, twice.bits + twice.dealt, strict=True):
            slope = Fraction(two - one, ELEMENTS)
            rest = one - slope * ELEMENTS
            parts = [_number(slope)] * bool(slope) + [f"{_number(rest)} once"] * bool(rest)
            cells.append(" + ".join(parts) or "0")
        variant = ", ".join(f"{name}={value}" for name, value in named.items())
        yield [f"`{protocol.__name__}`", element, variant, str(once.rounds), *cells]


def _number(value: Fraction) -> str:
    return f"{int(value):,}" if value.denominator == 1 else f"{float(value):,.3f}".rstrip("0")


# Of a tree: rows, features, bins, depth; each row changes one of them.
REFERENCE = (10_000, 20, 32, 4)
VARIED = ((1_000, 10_000, 100_000), (10, 20, 40), (16, 32, 64), (1, 2, 3, 4, 5))


@cache
def tree_price(rows: int, features: int, bins: int, depth: int, by: str) -> Price:
    """Of one round of boosting with one tree, horizontal data, half of the rows at either party."""
    config = TrainConfig(n_estimators=1, max_depth=depth, max_bin=bins, comparison=by)  # type: ignore[arg-type]
    demand = next(
        d
        for d in plan_training(config, Sizes.numeric((rows // 2, rows // 2), features))
        if d.step == "one round of trees"
    )
    return Price(demand.rounds, (8 * demand.sent, 8 * demand.received), _dealt(demand.kinds))


def tree_rows(by: str) -> Iterable[list[str]]:
    for place, values in enumerate(VARIED):
        for value in values:
            sizes = *REFERENCE[:place], value, *REFERENCE[place + 1 :]
            cost = tree_price(*sizes, by)
            figures = sum(cost.bits) / 8e6, sum(cost.dealt) / 1e6
            yield [*(f"{size:,}" for size in sizes), str(cost.rounds), *(f"{figure:,.2f}" for figure in figures)]


def level_rows(by: str) -> Iterable[list[str]]:
    """What each level adds: the tree of that depth less the tree of one less."""
    for level in VARIED[-1][1:]:
        shallow, deep = (tree_price(*REFERENCE[:3], depth, by) for depth in (level - 1, level))
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
    trees = {by: table([*sizes, "rounds", "online MB", "dealt MB"], tree_rows(by)) for by in ("bits", "keys")}
    levels = table(["level", "nodes", "rounds", "online MB", "dealt MB"], level_rows("bits"))
    return f"""# What protocols and trees cost

Written by `python -m benchmarks.complexity` from the declared costs, and held against them by the tests: edit nothing
here. Nothing below is measured, and nothing depends on data.

## Protocols

For each further element: payload bits in either direction, and bytes of corrections that the dealer sends to either
party. Everything else that a party holds of the randomness grows from a seed of 16 bytes. "Once" is what a call costs
besides. Rounds do not depend on the number of elements.

{protocols}

## A tree

One round of boosting with one tree on horizontal data: gradients, all levels, leaves, and the new margins. Sums over
both directions, and over both parties for what is dealt. At {n:,} rows, {d} features, {k} bins, depth {depth}, one of
them is varied at a time. Widths of sums follow the number of rows, in whole bytes, so that the cost of a row changes in
small steps.

With `comparison="bits"`:

{trees["bits"]}

With `comparison="keys"`:

{trees["keys"]}

## A level

What each further level adds to a tree at {n:,} rows, {d} features and {k} bins, with `comparison="bits"`: the tree of
that depth less that of one less, the doubled leaves included. Bytes double with the number of nodes, as far as they do
not belong to the rows; rounds do not depend on it.

{levels}
"""


if __name__ == "__main__":
    PAGE.write_text(page())
