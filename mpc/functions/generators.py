"""Protocols chosen by the source of the correlated randomness: a dealer, or the two parties themselves.

| generator | sigmoid |
|---|---|
| dealer | "fourier": mpc/functions/sigmoid.py; its sines and cosines are cheap to deal |
| parties | "table": mpc/functions/sigmoid_table.py; by transfers, the sines would take 18 kB and 1,500 transfers per
row |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mpc.endpoint import Endpoint

Sigmoid = Literal["fourier", "table"]


@dataclass(frozen=True)
class Generator:
    """The protocols that suit one source of randomness."""

    sigmoid: Sigmoid


DEALER, PARTIES = Generator(sigmoid="fourier"), Generator(sigmoid="table")


def generator_of(party: Endpoint) -> Generator:
    """Return the party's generator: operands are masked only if a dealer makes the randomness."""
    return DEALER if party.randomness.masks_operands else PARTIES
