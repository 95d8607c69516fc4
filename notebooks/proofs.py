"""How each protocol's privacy is shown: enumerated, composed of others, or argued with a bound where it is too large.

`SHOWN` names every protocol of `mpc`; the tests hold it against the registry, run the checks, and compare the rounds
and requests of a composition with those of its parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
from mpc.ring import U8
from mpc.rings import Z32, Z64
from notebooks.checks import below, bit_map, chosen, fixed_product, ring_map, single, truncated, widened
from notebooks.enumeration import Window
from notebooks.exhaustive import Verdict, bit, check, packed, private, word


@dataclass(frozen=True)
class Enumerated:
    """Checked on every case.

    `padded` is False for what reveals; `fresh` where a party's output share is a function of its own input share.
    """

    name: str
    run: Callable[[], Verdict]
    padded: bool = True
    fresh: bool = True
    long: bool = False


@dataclass(frozen=True)
class Composed:
    """Sends the messages of its parts, on randomness of their kinds, and none of its own: private as they are."""

    parts: tuple[Callable, ...]


@dataclass(frozen=True)
class Argued:
    """Not enumerable: why, and the bound of the simulation. Its transcripts are assessed in tests/leakage."""

    why: str
    bound: str


PRODUCT = Enumerated("Z_4", lambda: check(beaver.multiply, word(2), word(2), ideal=lambda x, y: x * y))


FIXED = [
    Enumerated("Z_4", lambda: check(fixed_product, word(2, 1, 1), word(2, 1, 1), ideal=lambda m, x: x @ m)),
    Enumerated("GF(2), two terms", lambda: check(fixed_product, bit(2, 1), bit(1, 2), ideal=lambda m, x: x @ m)),
]
MAPS = [
    *(Enumerated(f"Z_4, owner {owner}", lambda owner=owner: ring_map(owner, 2, Z64)) for owner in (0, 1)),
    *(
        Enumerated(f"Z_4 in words of 32 bits, owner {owner}", lambda owner=owner: ring_map(owner, 2, Z32), long=True)
        for owner in (0, 1)
    ),
    *(
        Enumerated(f"GF(2)^{n}, owner {owner}", lambda owner=owner, n=n: bit_map(owner, n), long=n > 1)
        for owner in (0, 1)
        for n in (1, 2)
    ),
]
COMPUTATIONAL = Argued(
    "a key of a comparison function hides its point only as well as fixed-key AES hides a seed",
    "2 L times the advantage against the generator, for a key of L levels; the messages are one-time pads",
)

SHOWN: dict[Callable, list[Enumerated | Composed | Argued]] = {
    sharing.share: [
        Enumerated(
            f"Z_16, owner {owner}",
            lambda owner=owner: check(
                sharing.share, private(owner, 4, 1), owner, (1,), ideal=lambda x: x, batched=False, ring=Window(4)
            ),
        )
        for owner in (0, 1)
    ],
    sharing.reveal: [
        Enumerated(f"{name}, to {to}", lambda to=to, x=x: check(sharing.reveal, x, to, ideal=lambda x: x), padded=False)
        for to in (0, 1, None)
        for name, x in (("Z_16", word(4)), ("bits", bit()))
    ],
    beaver.multiply: [PRODUCT],
    beaver.square: [
        Enumerated(f"Z_{2**k}", lambda k=k: check(beaver.square, word(k), ideal=lambda x: x * x)) for k in (2, 3, 4)
    ],
    matrix_product.matmul: [
        Enumerated(
            f"Z_{2**k}, inner dimension {inner}",
            lambda k=k, inner=inner: check(
                matrix_product.matmul, word(k, 1, inner), word(k, inner, 1), ideal=lambda x, y: x @ y, batched=False
            ),
            long=k * inner > 1,
        )
        for k, inner in ((1, 1), (2, 1), (1, 2))
    ],
    bit_product.and_bits: [
        Enumerated("packed bits", lambda: check(bit_product.and_bits, packed(2), packed(2), ideal=np.bitwise_and)),
        Enumerated("a bit", lambda: single(bit_product.and_bits, np.bitwise_and)),
    ],
    bit_product.or_bits: [
        Enumerated("packed bits", lambda: check(bit_product.or_bits, packed(2), packed(2), ideal=np.bitwise_or)),
        Enumerated("a bit", lambda: single(bit_product.or_bits, np.bitwise_or)),
    ],
    bit_product.to_ring: [
        Enumerated(f"Z_{2**k}", lambda k=k: check(bit_product.to_ring, bit(), ideal=lambda b: b, ring=Window(k)))
        for k in (2, 3, 4)
    ],
    bit_product.select: [
        Enumerated(
            f"Z_{2**k}", lambda k=k: check(bit_product.select, bit(), word(k), ideal=lambda b, x: b * x), long=k > 2
        )
        for k in (2, 3)
    ],
    fixed_operand.fix: [*FIXED],
    fixed_operand.multiply_fixed: [*FIXED],
    linear_map.share_masked_matrix: [*MAPS],
    linear_map.apply_matrix: [*MAPS],
    equality.equals_zero: [
        Enumerated(f"Z_{2**k}", lambda k=k: check(equality.equals_zero, word(k, dtype=U8), k, ideal=lambda x: x == 0))
        for k in (2, 3)
    ],
    one_hot.one_hot: [
        Enumerated(
            f"one of {2**b}",
            lambda b=b: check(
                one_hot.one_hot, bit(b), ideal=lambda i: np.arange(2**b) == (i @ (1 << np.arange(b)))[:, None]
            ),
        )
        for b in (1, 2, 3)
    ],
    one_hot.all_of: [
        Enumerated(f"{b} bits", lambda b=b: check(one_hot.all_of, bit(b), ideal=lambda i: i.all(axis=1)))
        for b in (1, 2, 3)
    ],
    conversion.to_bits: [
        Enumerated(
            "Z_4",
            lambda: check(conversion.to_bits, word(2), 2, ideal=lambda x: x[:, None] >> np.arange(2) & 1),
            fresh=False,
        ),
        Composed((bit_product.and_bits,)),
    ],
    comparison.below_by_bits: [
        Enumerated("Z_4", lambda: below(2, [0])),
        Enumerated("Z_4, two thresholds", lambda: below(2, [0, 1])),
        Enumerated("Z_8", lambda: below(3, [0])),
    ],
    comparison.below: [
        Composed((comparison.below_by_bits, comparison_keys.below_by_keys, conversion.to_bits)),
        Enumerated(
            "Z_4, by carries",
            lambda: check(comparison.below, word(2), [0], 2, "carries", ideal=lambda x: (x > 1)[:, None]),
        ),
    ],
    comparison.less_than: [Composed((comparison.below,))],
    comparison.in_range: [Composed((comparison.below,))],
    comparison.maximum: [Composed((comparison.below, bit_product.select, comparison_keys.larger_by_keys))],
    comparison_keys.below_by_keys: [COMPUTATIONAL],
    comparison_keys.floor_by_keys: [COMPUTATIONAL],
    comparison_keys.larger_by_keys: [COMPUTATIONAL],
    truncation.truncate: [
        Enumerated(f"the {k} top bits, by {shift}", lambda k=k, shift=shift: truncated(k, shift), fresh=False)
        for k, shift in ((4, 62), (6, 61), (8, 59))
    ],
    truncation.floor: [Composed((truncation.floor_by_bits, comparison_keys.floor_by_keys))],
    truncation.floor_by_bits: [
        Argued(
            "looks at both ends of a word of 64 bits; its high part is enumerated in truncation.ipynb, and the chunks' "
            "bits are opened as in below",
            "perfect: every message is a one-time pad",
        )
    ],
    widening.widen: [Enumerated(f"the {k} top bits", lambda k=k: widened(k), fresh=False) for k in (3, 8)],
    weighted_choice.choose: [
        Enumerated(
            f"{count} bits, Z_{2**k}",
            lambda count=count, k=k: check(
                weighted_choice.choose, bit(count), word(k), range(1, count + 1), ideal=chosen(count)
            ),
        )
        for count, k in ((1, 2), (2, 1))
    ],
    reciprocal.normalise: [Composed((comparison.below, weighted_choice.choose, truncation.floor, truncation.truncate))],
    reciprocal.invert: [
        Argued(
            "its words are of 64 bits; it opens u and y, as a product does, and the floors are those of floor",
            "perfect: every message is a one-time pad",
        )
    ],
    reciprocal.reciprocal: [Composed((reciprocal.normalise, reciprocal.invert, truncation.truncate))],
    division.divide: [Composed((reciprocal.reciprocal, beaver.multiply, truncation.floor))],
    argmax.argmax: [
        Composed(
            (comparison.below, one_hot.all_of, bit_product.select, bit_product.and_bits, comparison_keys.larger_by_keys)
        )
    ],
    sigmoid.sigmoid: [
        Argued(
            "its table has 48 words of 64 bits; the rest is below, select, to_ring and truncate",
            "perfect: the angle is opened under a mask uniform modulo the period, and is thus fit for a public coin",
        )
    ],
    sigmoid_piecewise.sigmoid_piecewise: [Composed((comparison.below, bit_product.select, bit_product.to_ring))],
    sigmoid_exponential.sigmoid_exponential: [
        Composed((comparison.below, bit_product.select, beaver.square, truncation.truncate, division.divide))
    ],
}
