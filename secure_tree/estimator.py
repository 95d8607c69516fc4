"""The estimators: scikit-learn's shape, XGBoost's parameter names, and a `party` where there is communication."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from mpc.encryption import FileKey
from mpc.endpoint import Variant
from mpc.errors import ConfigError
from mpc.party import Party
from mpc.tracing import planned
from secure_tree.agreement.models import agree_on_prediction
from secure_tree.agreement.numbers import agree_on_numbers, of_model, of_scales
from secure_tree.agreement.training import agree_on_terms, agree_on_training
from secure_tree.base_score import settle
from secure_tree.categories import Dictionary, columns_behind, dictionary
from secure_tree.checkpoint import Checkpoints
from secure_tree.config import Importance, Method, TrainConfig
from secure_tree.context import TrainingContext
from secure_tree.conventions import needs_party, not_fitted, one_pair
from secure_tree.edges import cut_bins
from secure_tree.going_on import as_the_model, begin, bins_of, more_rounds, shared_model
from secure_tree.importance import feature_importance
from secure_tree.inputs import ColumnLike, EvalSet, TableLike
from secure_tree.links import classes, probabilities, values
from secure_tree.magnitudes import check_resolution
from secure_tree.model import SharedModel
from secure_tree.numerics import MARGIN_SCALE
from secure_tree.own_rows import Here, OwnRows
from secure_tree.parameters import Parametrised, documented
from secure_tree.revealing import check_macs, predict_shards, revealed_margins
from secure_tree.schema import Table, hold_out, read_features, read_training, read_validation
from secure_tree.sources import AtWorkers, Division, Shards, agree_on_counts, needs_workers, trained_on
from secure_tree.training import Curve, Curves, Observer, train


@contextmanager
def _compared_by(party: Party, comparison: Variant) -> Iterator[None]:
    """Comparisons of the party are made this way inside, and as before afterwards."""
    if comparison == "keys" and not party.randomness.masks_operands:
        raise ConfigError('comparison "keys" needs a dealer: without one use "bits"')
    before, party.comparison = party.comparison, comparison
    try:
        yield
    finally:
        party.comparison = before


def _own_rows(
    party: Party,
    X: TableLike | Shards,
    y: ColumnLike | None,
    weights: ColumnLike | None,
    eval_set: EvalSet | None,
    config: TrainConfig,
    known: Dictionary,
) -> OwnRows:
    """What `fit` is given, as rows to train on and held-out ones. Raises ConfigError, DataError."""
    if not party.workers:
        if isinstance(X, Shards):
            raise needs_workers(party, (len(X),))
        table = read_training(X, y, weights, config, known)
        if eval_set is None:
            return Here(*hold_out(table, config))
        return Here(table, read_validation(one_pair(eval_set), config, known, table.names, table.labels is not None))
    shards = X if isinstance(X, Shards) else Shards.of(read_training(X, y, weights, config, known), party.workers.count)
    counts = agree_on_counts(party, shards, config.partition == "vertical")
    own = AtWorkers(party, shards, config, known, counts, trained_on(counts, config, eval_set is None))
    if eval_set is not None:
        labelled = own.validation.labels is not None
        own.validation = read_validation(one_pair(eval_set), config, known, own.names, labelled)
    return own


def _categories(model: SharedModel, rank: int, X: TableLike) -> Dictionary:
    """What the model knows of the columns of a party's table."""
    trained_on = model.facts.names[model.facts.layout.features_of(rank)]
    return columns_behind(trained_on, [str(c) for c in X.columns]) if hasattr(X, "columns") else {}


class _SecureXGB(Parametrised):
    """What classifier and regressor have in common: fit, margins, save and load."""

    def __init__(
        self,
        *,
        objective: str | None = None,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_depth: int = 3,
        max_bin: int | str = 32,
        edges: str = "private",
        local_bins: int | None = None,
        edge_bits: int = 32,
        reg_lambda: float = 1.0,
        reg_alpha: float = 0.0,
        min_split_loss: float = 1e-5,
        min_child_weight: float | None = None,
        min_child_samples: int = 1,
        max_delta_step: float | None = None,
        scale_pos_weight: float = 1.0,
        base_score: float | None = None,
        comparison: str = "bits",
        num_class: int | None = None,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        test_size: float = 0.0,
        random_state: int = 0,
        eval_metric: str | Sequence[str] | None = None,
        eval_epochs: int = 10,
        eval_threshold: float = 0.5,
        early_stopping_rounds: int | None = None,
        partition: str = "horizontal",
        missing: str | Sequence[str] = "none",
        monotone_constraints: Sequence[int] | dict[str, int] | str | None = None,
        **aliases: Any,
    ) -> None:
        self.model: SharedModel | None = None
        self.curves: Curves = {}
        self.division: Division | None = None
        self._hold(locals())

    def fit(
        self,
        party: Party,
        X: TableLike | Shards,
        y: ColumnLike | None = None,
        sample_weight: ColumnLike | None = None,
        eval_set: EvalSet | None = None,
        observer: Observer | None = None,
        checkpoints: Checkpoints | None = None,
        xgb_model: _SecureXGB | SharedModel | str | Path | None = None,
    ) -> Self:
        """Train on both parties' tables. X: [n, d] array or DataFrame of this party, y: the labels of its rows.

        Horizontal: each party has rows with the same features, and their labels. Vertical: each party has features of
        the same rows in the same order, and one party has the labels.

        A party that has workers divides the table among them; or X is `Shards`, which the workers open and this process
        does not read.

        Columns of pandas' type `category` are categorical (secure_tree.categories).

        `sample_weight`: a number for each label; a party that gives none counts its rows as 1.

        `eval_set`: (X, y) of this party or, as in XGBoost, a list with this one pair: rows for validation; without it,
        a share `test_size` of the table is held out. `curves` has what was revealed of them: (rounds, value) of each
        metric, after each `eval_epochs` rounds; `curve` those of the last metric, which early stopping goes by.

        With `checkpoints`, which both parties have or neither, every round is kept as it is made.

        `xgb_model`: an estimator that is fitted, or the path of a half that `save` wrote. The training goes on from it,
        with `n_estimators` more rounds at its cuts (secure_tree/going_on.py).

        Public: row counts, feature names with all categories, parameters, powers of two above the largest label
        (regression) and weight. Nothing is revealed but the curve.
        Stages of the meter: setup, offline, online. Raises DataError, ConfigError, PeerFailure.
        """
        config = self.config
        config.check_trainable()
        needs_party(party, "fit(party, X, y)")
        self.curves.clear()
        self.curves.update({metric: [] for metric in config.metrics})
        header = X.header if isinstance(X, Shards) else X
        before = None if xgb_model is None else shared_model(xgb_model)
        known = agree_on_terms(party, config, dictionary(header), of_model(before) if before else None)
        if before:
            config = more_rounds(party, before, config)
            known = _categories(before, party.rank, header)
        own = _own_rows(party, X, y, sample_weight, eval_set, config, known)
        context = agree_on_training(party, config, own)
        if before:
            context = as_the_model(before, context)
        pairing, attempt = context.facts.pairing, None
        if checkpoints:
            asked = self.config.model_dump() | ({"xgb_model": of_model(before)} if before else {})
            attempt = checkpoints.start(party, pairing, asked, own)
            context = TrainingContext(config, replace(context.facts, pairing=attempt.training))
        with _compared_by(party, config.comparison):
            cut = partial(bins_of, before, own) if before else partial(cut_bins, party, context, own)
            bins = attempt.bins(own, cut) if attempt else cut()
            begun = begin(party, context, before, own) if before else None
            if begun:
                base = begun.ensemble.base
            else:
                context, base = settle(party, context, own)
            self.division = own.division if isinstance(own, AtWorkers) else None
            if config.squared:
                agree_on_numbers(party, "training.unit", of_scales(context))
            check_resolution(context, own)
            ensemble = train(party, context, base, bins, own, self.curves, observer, attempt, begun)
        # Shares of the same trees that two runs have finished do not fit each other.
        self.model = SharedModel(party.rank, config, replace(context.facts, pairing=pairing), bins.cuts, ensemble)
        return self

    def predict_margin(
        self, party: Party, X: TableLike | Shards, method: Method = "bins", to: int | None = None, *, mac: bool = False
    ) -> np.ndarray:
        """Margins, float64[n], or [n, classes] where there are several classes.

        Horizontal: of own rows at each party. Vertical: of all rows at party `to`.

        Each party passes its part of the rows (none: shape (0, d)). Vertically `to` is the label holder by default, and
        the other party gets an empty array.
        method "bins": values of a party that trained, through its stored cuts; "thresholds": values of anybody,
        compared with every node's secret threshold. Stages of the meter: predict_offline, predict.
        mac: check all that is opened by MACs (docs/checks.md); by thresholds, with a dealer. Raises MacFailure.
        """
        model = self._fitted()
        needs_party(party, "predict(party, X)")
        if method not in ("bins", "thresholds"):
            raise ConfigError(f'method must be "bins" or "thresholds", got {method!r}')
        if to is not None and (model.config.partition == "horizontal" or to not in (0, 1)):
            raise ConfigError("`to` is party 0 or 1 of vertical data; horizontally each party learns its own rows")
        if mac:
            check_macs(party, method)
        table = X.header if isinstance(X, Shards) else X
        known = _categories(model, party.rank, table)
        features, names = read_features(table, model.config, known=known)
        rows = len(X) if isinstance(X, Shards) else len(features)
        layout = agree_on_prediction(party, model, names, rows, method, to, mac)
        if layout.row_count == 0:
            return np.zeros((0, model.config.num_class) if model.config.num_class else 0)
        receiver = model.facts.label_holder if to is None else to
        with _compared_by(party, model.config.comparison):
            if party.workers and min(n for n in layout.rows if n) >= party.workers.count:
                shards = X if isinstance(X, Shards) else Shards.of(Table(features, names), party.workers.count)
                own = predict_shards(party, model, shards, known, method, receiver)
            elif isinstance(X, Shards):
                raise needs_workers(party, layout.rows)
            else:
                own = planned(
                    party,
                    "predict",
                    lambda party: revealed_margins(party, model, layout, features, method, receiver, mac),
                    offline="predict_offline",
                )
        margin = own.T if model.config.num_class else own[0]
        return margin * (model.facts.margin_unit / (1 << MARGIN_SCALE))

    @property
    def curve(self) -> Curve:
        """What was revealed of held-out rows: (rounds, value) of the last metric."""
        return self.curves.get(self.config.metric, [])

    def feature_importance(self, party: Party, kind: Importance = "weight") -> np.ndarray:
        """float64[d] in the order of `model.facts.names`, revealed to both parties; both must ask, and for the same.

        `kind` as in XGBoost: weight, gain, total_gain, cover, total_cover; see secure_tree/importance.py.
        """
        return feature_importance(party, self._fitted(), kind)

    def save(self, path: str | Path, key: FileKey | None = None) -> None:
        """This party's half of the model, to one .npz file; under a key encrypted."""
        self._fitted().save(path, key)

    @classmethod
    def load(cls, path: str | Path, key: FileKey | None = None) -> Self:
        """An estimator around a half that `save` wrote."""
        model = SharedModel.load(path, key)
        estimator = cls(**model.config.model_dump())
        estimator.model = model
        return estimator

    def _fitted(self) -> SharedModel:
        if self.model is None:
            raise not_fitted()
        return self.model


@documented
class SecureXGBClassifier(_SecureXGB):
    """Classification with logistic loss, between two parties.

    Of more than two classes with objective "multi:ova": a tree for each class and round learns that class against the
    others, and probabilities are normalised over the classes. Softmax would add an exponential and a reciprocal for
    every row and class; one against the others needs only the binary machinery, and its trees grow in parallel.
    """

    objectives = ("binary:logistic", "multi:ova", "multi:softprob")
    other = "SecureXGBRegressor"

    def predict_proba(
        self, party: Party, X: TableLike | Shards, method: Method = "bins", to: int | None = None, *, mac: bool = False
    ) -> np.ndarray:
        """[n, classes]: probabilities of classes 0, 1, ... for the rows that `predict_margin` reveals to this party."""
        return probabilities(self._fitted().config, self.predict_margin(party, X, method, to, mac=mac))

    def predict(
        self, party: Party, X: TableLike | Shards, method: Method = "bins", to: int | None = None, *, mac: bool = False
    ) -> np.ndarray:
        """Class, 0, 1, ..., of the same rows."""
        return classes(self.predict_margin(party, X, method, to, mac=mac))

    def score(self, party: Party, X: TableLike, y: ColumnLike, method: Method = "bins", to: int | None = None) -> float:
        """Accuracy on the same rows, known to this party; the other one calls score or predict, too."""
        return float(np.mean(self.predict(party, X, method, to) == np.asarray(y).reshape(-1)))


@documented
class SecureXGBRegressor(_SecureXGB):
    """Regression with squared error, or of counts with objective "count:poisson", between two parties.

    Counts as in XGBoost: gradient e^m - y, hessian e^(m + 0.7), leaf weights of at most 0.7 (max_delta_step).
    """

    objectives = ("reg:squarederror", "count:poisson")
    other = "SecureXGBClassifier"

    def predict(
        self, party: Party, X: TableLike | Shards, method: Method = "bins", to: int | None = None, *, mac: bool = False
    ) -> np.ndarray:
        """Predicted values of the rows that `predict_margin` reveals to this party."""
        return values(self._fitted().config, self.predict_margin(party, X, method, to, mac=mac))

    def score(self, party: Party, X: TableLike, y: ColumnLike, method: Method = "bins", to: int | None = None) -> float:
        """Coefficient of determination (R^2) on the same rows, known to this party; the other calls, too."""
        truth = np.asarray(y, np.float64).reshape(-1)
        residual = ((truth - self.predict(party, X, method, to)) ** 2).sum()
        return float(1 - residual / ((truth - truth.mean()) ** 2).sum())
