"""The estimators: scikit-learn's shape, XGBoost's parameter names, and a `party` where there is communication."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Self

import numpy as np

from mpc.errors import ConfigError, DataError
from mpc.party import Party
from mpc.shares import AShare
from mpc.tracing import Trace
from secure_tree.binning import make_bins
from secure_tree.boost import boost_once, finish, first_margin, set_up
from secure_tree.config import TrainConfig
from secure_tree.layout import place
from secure_tree.model import SharedModel
from secure_tree.numerics import MARGIN_SCALE
from secure_tree.predict import Method, margins
from secure_tree.schema import read_features, read_training
from secure_tree.session import agree_on_prediction, agree_on_training
from secure_tree.tree import TreeShares

# Called after each tree with its number, its shares, the shares of (g, h) it was grown on, and of the new margin.
Observer = Callable[[int, TreeShares, AShare, AShare], None]


class _SecureXGB:
    """What classifier and regressor have in common: fit, margins, save and load."""

    _defaults: ClassVar[dict] = {}

    def __init__(self, **parameters) -> None:
        self.config = TrainConfig.of(**{**self._defaults, **parameters})
        self.model: SharedModel | None = None

    def get_params(self, deep: bool = True) -> dict:
        """The parameters, as scikit-learn names them."""
        return self.config.model_dump()

    def fit(self, party: Party, X, y=None, observer: Observer | None = None) -> Self:
        """Train on both parties' tables. X: [n, d] array or DataFrame of this party, y: the labels of its rows.

        Horizontal: each party has rows with the same features, and their labels. Vertical: each party has features of
        the same rows in the same order, and one party has the labels.

        Public: row counts, feature names, parameters, for regression the label scale. Nothing is revealed.
        Stages of the meter: setup, offline, online. Raises DataError, ConfigError, PeerFailure.
        """
        config = self.config
        table = read_training(X, y, config)
        facts = agree_on_training(party, config, table)
        bins = make_bins(table.features, facts.layout.sizes[party.rank])
        with party.stage("setup"):
            trace = Trace(party)
            like_ground, like_edges = trace.party.run(set_up(trace.party, config, facts, bins, table.labels))
            party.randomness.provide([(trace.cut(), 1)])
            ground, edges = party.run(set_up(party, config, facts, bins, table.labels))
        with party.stage("offline"):
            tree, _, _ = trace.party.run(boost_once(trace.party, like_ground, first_margin(trace.party, config, facts)))
            one_tree = trace.cut()
            trace.party.run(finish(trace.party, like_ground, like_edges, [tree] * config.n_estimators))
            party.randomness.provide([(one_tree, config.n_estimators), (trace.cut(), 1)])
        with party.stage("online"):
            margin = first_margin(party, config, facts)
            trees = []
            for number in range(config.n_estimators):
                tree, margin, values = party.run(boost_once(party, ground, margin))
                trees.append(tree)
                if observer:
                    observer(number, tree, values, margin)
            ensemble = party.run(finish(party, ground, edges, trees))
        for matrix in [*(m for b in ground.blocks for m in (b.columns, b.lines)), *edges]:
            matrix.release(party)
        self.model = SharedModel(party.rank, config, facts, bins.edges, ensemble)
        return self

    def predict_margin(self, party: Party, X, method: Method = "bins", to: int | None = None) -> np.ndarray:
        """Margins, float64[n]: horizontally of own rows at each party, vertically of all rows at party `to`.

        Each party passes its part of the rows (none: shape (0, d)). Vertically `to` is the label holder by default, and
        the other party gets an empty array.
        method "bins": values of a party that trained, through its stored edges; "thresholds": values of anybody,
        compared with every node's secret threshold. Stages of the meter: predict_offline, predict.
        """
        model = self._fitted()
        if method not in ("bins", "thresholds"):
            raise ConfigError(f'method is "bins" or "thresholds", not {method!r}')
        features, names = read_features(X, model.config)
        layout = agree_on_prediction(party, model, names, len(features), method, to)
        base = round(model.config.base_margin / model.facts.label_scale * (1 << MARGIN_SCALE))
        if layout.row_count == 0:
            return np.zeros(0)
        if layout.vertical:
            receivers = {model.facts.label_holder if to is None else to: slice(None)}
        else:
            receivers = {p: place(p, layout.rows) for p in (0, 1) if layout.rows[p]}

        def program(party: Party) -> np.ndarray:
            result = party.run(margins(party, model.ensemble, base, layout, model.edges, features, method))
            own = np.zeros(0, np.int64)
            for p, rows in receivers.items():
                opened = party.reveal(
                    result[rows], to=p, what=f"predictions of {'the' if layout.vertical else 'its own'} rows"
                )
                own = own if opened is None else opened
            return own

        with party.stage("predict_offline"):
            trace = Trace(party)
            program(trace.party)
            party.randomness.provide([(trace.cut(), 1)])
        with party.stage("predict"):
            own = program(party)
        return own * (model.facts.label_scale / (1 << MARGIN_SCALE))

    def save(self, path) -> None:
        """This party's half of the model, to one .npz file."""
        self._fitted().save(path)

    @classmethod
    def load(cls, path) -> Self:
        """An estimator around a half that `save` wrote."""
        model = SharedModel.load(path)
        estimator = cls(**model.config.model_dump())
        estimator.model = model
        return estimator

    def _fitted(self) -> SharedModel:
        if self.model is None:
            raise DataError("the estimator is not fitted: call fit, or load a model")
        return self.model


class SecureXGBClassifier(_SecureXGB):
    """Binary classification with logistic loss; parameters of `TrainConfig`."""

    def predict_proba(self, party: Party, X, method: Method = "bins", to: int | None = None) -> np.ndarray:
        """[n, 2]: probabilities of class 0 and 1 for the rows that `predict_margin` reveals to this party."""
        one = 1 / (1 + np.exp(-self.predict_margin(party, X, method, to)))
        return np.stack([1 - one, one], axis=1)

    def predict(self, party: Party, X, method: Method = "bins", to: int | None = None) -> np.ndarray:
        """Class 0 or 1 of the same rows."""
        return (self.predict_margin(party, X, method, to) > 0).astype(np.int64)


class SecureXGBRegressor(_SecureXGB):
    """Regression with squared error; parameters of `TrainConfig`."""

    _defaults: ClassVar[dict] = {"objective": "reg:squarederror", "min_child_weight": 1.0}

    def predict(self, party: Party, X, method: Method = "bins", to: int | None = None) -> np.ndarray:
        """Predicted values of the rows that `predict_margin` reveals to this party."""
        return self.predict_margin(party, X, method, to)
