"""What depends on who makes the correlated randomness: a dealer, or the two parties by themselves.

| generator | sigmoid |
|---|---|
| dealer | "fourier": mpc/sigmoid.py; its sines and cosines are cheap to deal |
| parties | "table": mpc/sigmoid_table.py; made by transfers, the sines would take 18 kB and 1,500 transfers a row |
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
    """Only what a dealer makes has operands masked."""
    return DEALER if party.randomness.masks_operands else PARTIES
