"""A party that lies once about the public facts, beside an honest one: how the honest one ends."""

import copy
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from mpc.errors import SharewoodError
from mpc.party import Party
from protocols.offline.dealer.local_dealer import LocalDealer
from protocols.testing.two_parties import SEEDS
from protocols.transport.memory import memory_pair

VALUES = (
    *(None, True, False, 0, 1, -1, 3, 7, 100, 5000, 1 << 31, 1 << 40, 1 << 63, -(1 << 70), 1 << 4000, 1 << 20000),
    *(0.0, -0.0, 1.5, float("nan"), float("inf"), 1e308, "", "x", "é\n" * 2000, "ab" * 16, "f" * 32, b"", b"x"),
    *([], {}, (), [[]], [None], {"a": {}}, ["x", "x"], np.zeros(3), np.zeros((0, 2), np.uint8), np.array(True)),
)


class Liar:
    """A link that changes the message of one step on its way out."""

    def __init__(self, link, step, change):
        self._link, self._step, self._change = link, step, change
        self.lied = False

    def exchange_public(self, tag, tree):
        if tag == self._step and not self.lied:
            self.lied, tree = True, self._change(copy.deepcopy(tree))
        return self._link.exchange_public(tag, tree)

    def __getattr__(self, name):
        return getattr(self._link, name)


def mutated(tree, rng: random.Random):
    """The tree with one change somewhere: another value, one more, one less, two in another order."""
    if isinstance(tree, dict | list) and tree and rng.random() < 0.85:
        keys = list(tree) if isinstance(tree, dict) else range(len(tree))
        key, kind = rng.choice(keys), rng.randrange(8)
        if kind == 0:
            del tree[key]
        elif kind == 1 and isinstance(tree, dict):
            tree[rng.choice(["x", "rows", "é" * 500])] = copy.deepcopy(rng.choice(VALUES))
        elif kind == 1:
            tree.insert(key, copy.deepcopy(rng.choice([tree[key], *VALUES])))
        elif kind == 2:
            other = rng.choice(keys)
            tree[key], tree[other] = tree[other], tree[key]
        else:
            tree[key] = mutated(tree[key], rng)
        return tree
    if isinstance(tree, int) and rng.random() < 0.4:
        return tree + rng.choice([-1, 1, 2, 10])
    return copy.deepcopy(rng.choice(VALUES))


def beside(job, liar: int, step: str, change) -> tuple[object, bool]:
    """job(party) at both ranks, and `liar` changes what it says at a step: the honest party's error, and if it lied."""
    channels = memory_pair(timeout=20.0)
    link = Liar(channels[liar], step, change)
    links = [link if rank == liar else channels[rank] for rank in (0, 1)]

    def play(rank):
        try:
            job(Party(rank, links[rank], LocalDealer(rank, SEEDS)))
        except Exception as error:
            return error
        finally:
            channels[rank].close()

    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(play, (0, 1)))
    return ends[1 - liar], link.lied


def check_lies(job, steps, count: int, seed: int) -> int:
    """Lie `count` times at these steps: the honest party ends well or with one sentence. How often it refused."""
    rng = random.Random(seed)
    refused = 0
    for number in range(count):
        step, liar = steps[number % len(steps)], rng.randrange(2)
        told = []

        def change(tree, told=told):
            told.append(mutated(tree, rng))
            return told[0]

        error, lied = beside(job, liar, step, change)
        assert lied, step
        assert error is None or isinstance(error, SharewoodError), (step, told, repr(error))
        assert "\n" not in str(error) and len(str(error)) < 700, (step, told, str(error))
        refused += error is not None
    return refused
