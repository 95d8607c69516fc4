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
from secure_tree.model import SharedModel
from secure_tree.numerics import MARGIN_SCALE
from secure_tree.predict import Method, margins, rows_of
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

    def fit(self, party: Party, X, y, observer: Observer | None = None) -> Self:
        """Train on both parties' rows. X: [n, d] array or DataFrame of this party's rows, y: their labels.

        Public: row counts, feature names, parameters, for regression the label scale. Nothing is revealed.
        Stages of the meter: setup, offline, online. Raises DataError, ConfigError, PeerFailure.
        """
        config = self.config
        table = read_training(X, y, config)
        assert table.labels is not None
        shape, pairing = agree_on_training(party, config, table)
        party.comparison = config.comparison
        bins = make_bins(table.features, shape.sizes[party.rank])
        with party.stage("setup"):
            trace = Trace(party)
            like_ground, like_edges = trace.party.run(set_up(trace.party, config, shape, bins, table.labels))
            party.randomness.provide([(trace.cut(), 1)])
            ground, edges = party.run(set_up(party, config, shape, bins, table.labels))
        with party.stage("offline"):
            tree, _, _ = trace.party.run(boost_once(trace.party, like_ground, first_margin(trace.party, config, shape)))
            one_tree = trace.cut()
            trace.party.run(finish(trace.party, like_ground, like_edges, [tree] * config.n_estimators))
            party.randomness.provide([(one_tree, config.n_estimators), (trace.cut(), 1)])
        with party.stage("online"):
            margin = first_margin(party, config, shape)
            trees = []
            for number in range(config.n_estimators):
                tree, margin, values = party.run(boost_once(party, ground, margin))
                trees.append(tree)
                if observer:
                    observer(number, tree, values, margin)
            ensemble = party.run(finish(party, ground, edges, trees))
        for matrix in [*(m for b in ground.blocks for m in (b.columns, b.lines)), *edges]:
            matrix.release(party)
        self.model = SharedModel(party.rank, pairing, config, table.names, shape, bins.edges, ensemble)
        return self

    def predict_margin(self, party: Party, X, method: Method = "bins") -> np.ndarray:
        """Margins of own rows, float64[n]. Each party passes its rows (none: shape (0, d)) and learns its own.

        method "bins": rows of a party that trained, through its stored edges; "thresholds": rows of anybody, compared
        with every node's secret threshold. Stages of the meter: predict_offline, predict.
        """
        model = self._fitted()
        if method not in ("bins", "thresholds"):
            raise ConfigError(f'method is "bins" or "thresholds", not {method!r}')
        features, names = read_features(X)
        rows = agree_on_prediction(party, model, names, len(features), method)
        party.comparison = model.config.comparison
        base = round(model.config.base_margin / model.shape.label_scale * (1 << MARGIN_SCALE))
        if sum(rows) == 0:
            return np.zeros(0)

        def program(party: Party) -> np.ndarray:
            result = party.run(margins(party, model.ensemble, base, model.edges, features, rows, method))
            own = np.zeros(0, np.int64)
            for p in (0, 1):
                if rows[p]:
                    opened = party.reveal(result[rows_of(p, rows)], to=p, what="predictions of its own rows")
                    own = own if opened is None else opened
            return own

        with party.stage("predict_offline"):
            trace = Trace(party)
            program(trace.party)
            party.randomness.provide([(trace.cut(), 1)])
        with party.stage("predict"):
            own = program(party)
        return own * (model.shape.label_scale / (1 << MARGIN_SCALE))

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

    def predict_proba(self, party: Party, X, method: Method = "bins") -> np.ndarray:
        """[n, 2]: probabilities of class 0 and 1 for this party's rows."""
        one = 1 / (1 + np.exp(-self.predict_margin(party, X, method)))
        return np.stack([1 - one, one], axis=1)

    def predict(self, party: Party, X, method: Method = "bins") -> np.ndarray:
        """Class 0 or 1 of this party's rows."""
        return (self.predict_margin(party, X, method) > 0).astype(np.int64)


class SecureXGBRegressor(_SecureXGB):
    """Regression with squared error; parameters of `TrainConfig`."""

    _defaults: ClassVar[dict] = {"objective": "reg:squarederror", "min_child_weight": 1.0}

    def predict(self, party: Party, X, method: Method = "bins") -> np.ndarray:
        """Predicted values of this party's rows."""
        return self.predict_margin(party, X, method)
