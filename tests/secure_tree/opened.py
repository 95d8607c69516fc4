"""A secure training between two threads, with everything that its observer sees opened."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from unittest import mock

import numpy as np

from mpc.functions.logarithm import LogarithmMasks
from mpc.words import decode_signed
from protocols.testing.two_parties import Dealt, dealt, opened, run_both, with_workers
from protocols.transport.memory import memory_pair
from secure_tree.data.table import held_rows
from secure_tree.estimator import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.owners.contributing import contribute
from secure_tree.public.config import TrainConfig
from secure_tree.public.context import TrainingContext
from secure_tree.public.numerics import MARGIN_SCALE
from secure_tree.public.sampling import column_samples
from secure_tree.setup.orders import find_orders
from secure_tree.twin.boost import PlainData, grow


@dataclass
class Seen:
    """One opened tree.

    winner: int[nodes]. values: gradients, int[s, n]. leaves, margins: floats over the label scale. coins: the masks of
    the logarithms at every level.
    """

    winner: np.ndarray
    values: np.ndarray
    leaves: np.ndarray
    margins: np.ndarray
    coins: list


@dataclass
class Training:
    """A training. trees: by rounds. base: the margin before the first tree, float64[classes].

    dealer: whether it had one. orders: for each class, P of the columns that are split by sets.
    """

    config: TrainConfig
    data: PlainData
    context: TrainingContext
    trees: list[Seen]
    base: np.ndarray
    models: list
    results: list
    parties: list
    dealer: bool
    orders: list

    @property
    def facts(self):
        return self.context.facts

    @property
    def numerics(self):
        return self.context.numerics.ranked(self.dealer)

    @property
    def label_scale(self) -> float:
        return self.facts.label_scale

    def twins(self):
        """Grow the twin's trees on the same gradients and samples of features."""
        samples = column_samples(self.context)
        of_classes = [self.data.with_orders(orders) for orders in self.orders]
        return [
            grow(data, self.config, self.numerics, seen.values, seen.coins, sample)
            for seen, sample, data in zip(self.trees, samples, itertools.cycle(of_classes), strict=False)
        ]


def of_levels(given, config):
    """Arrange the masks of logarithms of a round by tree and level.

    The trees of a round grow in parallel, those of a class next to each other: each step of a level for all trees, then
    the next step.
    """
    depth, count, alike = config.max_depth, config.trees_of_round, config.num_parallel_tree
    masks = [
        (request, part[0].reshape(request.shape)) for request, part in given if isinstance(request, LogarithmMasks)
    ]
    every = len(masks) // depth
    levels = [masks[start : start + every] for start in range(0, len(masks), every)]
    # Those of s a b last: under constraints, each tree takes them at once with those of u.
    levels = [sorted(level, key=lambda mask: mask[0].sides == 1 and len(mask[0].shape) == 2) for level in levels]
    grown = [[tuple(r for _, r in level[k::count]) for level in levels] for k in range(count)]
    return [tree for t in range(alike) for tree in grown[t::alike]]


def added(first, second):
    """Reconstruct the masks from both parties' shares."""
    return [
        [tuple(a + b for a, b in zip(*pair, strict=True)) for pair in zip(*trees, strict=True)]
        for trees in zip(first, second, strict=True)
    ]


def contributing(owners):
    """Let owners contribute in threads; return the parties' lines to them, and what they will have said."""
    lines, pool = ({}, {}), ThreadPoolExecutor(max(1, len(owners)))
    said = []
    for name, owner in owners.items():
        pairs = [memory_pair((party, name)) for party in ("party_a", "party_b")]
        for to_party, (theirs, _) in zip(lines, pairs, strict=True):
            to_party[name] = theirs
        play = owner if callable(owner) else lambda own, owner=owner: contribute(own, *owner)
        said.append(pool.submit(play, [own for _, own in pairs]))
    pool.shutdown(wait=False)
    return lines, said


def train_both(
    tables,
    labels,
    then=None,
    weights=(None, None),
    plain=None,
    source=dealt,
    workers=0,
    before=None,
    owners=None,
    given=None,
    price=0,
    **parameters,
) -> Training:
    """Train, then call `then(model, party)` at both parties. Only the test opens the numbers.

    plain: the tables for the twin, if they differ from those of the parties. source: as in `run_both`. workers: the
    number of workers of each party. before: both parties' halves of a model to continue. owners: {name: (X, y)}, whose
    rows or columns the twin has after those of party 1. given: what a party trains on instead of lines to them.
    price: what a round is worth.
    """
    config = TrainConfig.of(**parameters)
    kind = SecureXGBClassifier if config.logistic else SecureXGBRegressor
    models, shares, masks = [None, None], ([], []), ([], [])
    contexts, dealers, found = {}, {}, {}
    lines, contributions = contributing({} if given else owners or {})

    def job(party):
        dealers[party.rank] = party.randomness.has_dealer
        party.round_price = price
        party.randomness = Dealt(party.randomness)

        def observe(number, tree, rows):
            if owners:
                contexts[party.rank] = rows.rows.context
            if number % config.trees_of_round == 0:
                masks[party.rank].append(of_levels(party.randomness.given, config))
                party.randomness.given.clear()
            shares[party.rank].append((tree.winner, rows.gradients, tree.leaves, rows.margin))

        own = tables[party.rank], labels[party.rank], weights[party.rank]
        more = {"xgb_model": before and before[party.rank]}
        more["contributed"] = given(party.rank) if given else lines[party.rank]
        model = kind(**parameters).fit(party, *own, observer=observe, **more)
        models[party.rank] = model
        return then(model, party) if then else None

    def recorded(party, context, rows):
        found[party.rank] = yield from find_orders(party, context, rows)
        return found[party.rank]

    try:
        with mock.patch("secure_tree.training.train.find_orders", recorded):
            results, parties = run_both(with_workers(job, workers, source) if workers else job, source=source)
    finally:
        for line in (*lines[0].values(), *lines[1].values()):
            line.close()
    for contribution in contributions:
        contribution.result()
    trees = []
    coins = [tree for first, second in zip(*masks, strict=True) for tree in added(first, second)]
    for a, b, levels in zip(*shares, coins, strict=True):
        winner, values, leaves, margin = (opened(pair) for pair in zip(a, b, strict=True))
        assert (winner.sum(axis=1) == 1).all(), "the winner is one-hot"
        trees.append(
            Seen(
                winner.argmax(axis=1),
                decode_signed(values.astype(np.uint32)),
                leaves / 2**MARGIN_SCALE,
                margin / 2**MARGIN_SCALE,
                levels,
            )
        )
    config = models[0].config
    facts = models[0].model.facts
    names = tuple(facts.names[facts.layout.features_of(p)] for p in (0, 1))
    if owners and plain is None:
        every = [np.asarray(X) for X in (*tables, *(owners[name][0] for name in sorted(owners)))]
        first, *others = (np.delete(X, held_rows(config, len(X)), axis=0) for X in every)
        if config.partition == "vertical":
            plain = first, others[0], np.concatenate(others[1:], axis=1)
            names = *names, facts.names[facts.layout.features_of(2)]
        else:
            plain = first, np.concatenate(others)
    data = PlainData.of(plain or tables, config, names)
    base = opened([model.model.ensemble.base for model in models]) / 2**MARGIN_SCALE - facts.margin_offset
    context = contexts.get(0) or TrainingContext(config, facts)
    # Each party has its share of an operand.
    orders = [
        [(a.sets.own ^ b.sets.own)[0].T.astype(np.int64) for a, b in zip(*of_class, strict=True)]
        for of_class in zip(*found.values(), strict=True)
    ] or [()] * config.classes
    data = data.with_orders(orders[0])
    return Training(config, data, context, trees, base, models, results, parties, dealers[0], orders)
