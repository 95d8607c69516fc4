"""The estimators: scikit-learn's API and XGBoost's parameter names. Methods that communicate take a `party`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from mpc.errors import ConfigError
from mpc.host.encryption import FileKey
from mpc.party import Party
from mpc.planning import planned
from secure_tree.agreement.models import agree_on_prediction, agree_on_reasons
from secure_tree.agreement.numbers import agree_on_numbers, of_model, of_scales
from secure_tree.agreement.same_rows import check_rows_of_owners
from secure_tree.agreement.training import agree_on_terms, agree_on_training
from secure_tree.data.categories import dictionary
from secure_tree.data.contributed import Source
from secure_tree.data.contributed_columns import ContributedColumns
from secure_tree.data.inputs import ColumnLike, EvalSet, TableLike, in_memory
from secure_tree.data.magnitudes import check_resolution
from secure_tree.data.offsets import without_base
from secure_tree.data.table import Table
from secure_tree.functions.links import classes, probabilities, values
from secure_tree.interface.conventions import needs_party, shared_model
from secure_tree.interface.fitted import Fitted
from secure_tree.interface.inputs import (
    categories_of,
    check_offsets,
    check_shares,
    columns_of_owners,
    features_to_predict,
    offsets_to_predict,
    open_contributed,
    own_rows,
    receiver_of,
)
from secure_tree.interface.parameters import documented, with_parameters
from secure_tree.interface.verbose import Verbose, check_verbose
from secure_tree.model.shared_model import SharedModel
from secure_tree.owners.admission import admit, examine, same_edges
from secure_tree.owners.attendance import agree_on_kept
from secure_tree.owners.column_admission import admit_columns
from secure_tree.owners.columns import OwnersOfColumns
from secure_tree.owners.contributing import Owners
from secure_tree.owners.lines import Line
from secure_tree.owners.stored import keeping, save, save_columns
from secure_tree.prediction.answering import answer, check_for_clients, check_without_offsets
from secure_tree.prediction.authenticated import input_model
from secure_tree.prediction.reasons.explaining import Contributions, Explanation, revealed_reasons, told
from secure_tree.prediction.reasons.request import Groups, Show, Toward, requested
from secure_tree.prediction.reasons.table import make_table, scale_of
from secure_tree.prediction.revealing import check_macs, predict_shards, revealed_margins
from secure_tree.public.bounds import NO_BOUNDS, Bounds, check_consent
from secure_tree.public.config import Method
from secure_tree.public.context import OwnerFacts, TrainingContext
from secure_tree.public.numerics import MARGIN_SCALE
from secure_tree.public.objectives import TRAITS
from secure_tree.setup.base_score import settle
from secure_tree.setup.continuation import as_the_model, begin, bins_of, more_rounds
from secure_tree.setup.edges import cut_bins
from secure_tree.training.checkpoint import Checkpoints
from secure_tree.training.train import LearningCurves, Observer, train
from secure_tree.workers.sources import AtWorkers, Division, Shards, needs_workers


class _SecureXGB(Fitted):
    """Base of classifier and regressor: fit, margins, save and load."""

    @with_parameters
    def __init__(self, **given: Any) -> None:
        self.curves: LearningCurves = {}
        self.division: Division | None = None
        self._hold(given)

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
        verbose: bool | int = False,
        contributed: Mapping[str, Line] | Source | None = None,
        base_margin: ColumnLike | None = None,
        base_margin_eval_set: ColumnLike | None = None,
    ) -> Self:
        """Train on the tables of both parties, who must call this at the same time.

        Horizontal data: the parties have different rows with the same features, each with labels. Vertical data: the
        parties have different features of the same rows in the same order, and one party has the labels.

        Public are row counts, feature names with all categories, parameters, and powers of two above the largest label
        (for regression) and the largest weight. Only the metrics on held-out rows are revealed, and with joint edges or
        `reg:squarederror` the edges and the unit of the labels. Stages of the meter: setup, offline, online.

        Parameters
        ----------
        party : Party
            The connection to the other party.
        X : array [n, d], DataFrame or Shards
            The features of this party. Columns with pandas' dtype `category` are categorical. If the party has workers,
            they divide the table among themselves, or open the `Shards`, which this process does not read.
        y : array [n], optional
            The labels of the rows. None at the party without labels of vertical data.
        sample_weight : array [n], optional
            A weight for each label. None: every row of this party counts 1.
        eval_set : (X, y), or a list with one such pair, optional
            This party's rows for validation. None: the fraction `test_size` of the table is held out.
        observer : callable, optional
            Called after each tree with its number, its shares and its rows.
        checkpoints : Checkpoints, optional
            Saves every round, to resume from. Both parties must pass checkpoints, or neither.
        xgb_model : fitted estimator, SharedModel or path, optional
            A model to continue with `n_estimators` more rounds, on the same bins (secure_tree/setup/continuation.py). A
            path names this party's half as written by `save`.
        verbose : bool or int, default False
            Print a line every `verbose` rounds of trees, with the metrics on held-out rows; True: after every
            evaluation, or every tenth of the rounds without held-out rows. It may differ between the parties.
        contributed : mapping, Owners or Stored, optional
            Owners of further rows who are no party, as `party.contributed` has them: {name: line}; or a folder that
            `collect` has written. Their rows become known to nobody (secure_tree/owners/contributing.py). A party may
            then have no rows itself. With vertical data, they have further features of the same rows, or the labels
            (secure_tree/owners/columns.py).
        base_margin : array [n], or [n, classes] for several classes, optional
            An offset of the margin of each row, at the party with the labels, such as the logarithm of an exposure for
            counts; then there is no base score, and predictions need offsets too. Both parties of horizontal data must
            give it, or neither. Not with `xgb_model`, `contributed` or workers.
        base_margin_eval_set : array, optional
            Likewise for the rows of `eval_set`.

        Returns
        -------
        self
            Fitted. `model` is this party's half of the model. `curves` has for each metric the revealed (rounds, value)
            pairs, after every `eval_epochs` rounds; `curve` is that of the last metric, which early stopping uses.

        Raises
        ------
        ConfigError
            If parameters are invalid, or differ between the parties.
        DataError
            If a table is invalid, or if the tables of both parties do not fit.
        RangeError
            If the 64-bit arithmetic cannot hold the training.
        PeerFailure
            If the other party or the connection fails.
        """
        config = self.config
        needs_party(party, "fit(party, X, y)")
        check_verbose(verbose)
        self.curves.clear()
        self.curves.update({metric: [] for metric in config.metrics})
        X = X if isinstance(X, Shards) else in_memory(X)
        header = X.header if isinstance(X, Shards) else X
        before = None if xgb_model is None else shared_model(xgb_model)
        given = base_margin is not None
        known, offsets = agree_on_terms(party, config, dictionary(header), of_model(before) if before else None, given)
        if offsets:
            check_offsets(party, before, contributed)
            config = without_base(config)
        if before:
            config = more_rounds(party, before, config)
            known = categories_of(before, party.rank, header)
        shifts = base_margin, base_margin_eval_set
        own = own_rows(party, X, y, sample_weight, eval_set, config, known, 0 if contributed else 1, shifts)
        if contributed:
            if before and party.workers:
                raise ConfigError("xgb_model and contributed rows need one process at each party: leave out shards")
            if isinstance(contributed, Owners) and contributed.bounds.least is not None:
                raise ConfigError("least is for `collect`: a training uses all contributions")
            opened = open_contributed(party, contributed, config, known, own)
            if eval_set is not None and isinstance(opened, ContributedColumns) and opened.fold is None:
                raise ConfigError("contributed columns need test_size, not eval_set, to hold out rows")
        context = agree_on_training(party, config, own, offsets)
        check_shares(context, own)
        if before:
            context = as_the_model(before, context)
        pairing, attempt = context.facts.pairing, None
        if checkpoints:
            asked = self.config.model_dump() | ({"xgb_model": of_model(before)} if before else {})
            asked |= {"base_margin": True} if offsets else {}
            if own.contributed or own.contributed_columns:
                asked["contributed"] = [id for _, id, _ in context.facts.owners]
            attempt = checkpoints.start(party, pairing, asked, own)
            context = TrainingContext(config, replace(context.facts, pairing=attempt.training))
        cut = partial(bins_of, before, own) if before else partial(cut_bins, party, context, own)
        bins = attempt.bins(own, cut) if attempt else cut()
        if own.contributed:
            same_edges(own.contributed, bins.edges)
            admit(party, context, own.contributed, bins.edges)
        if own.contributed_columns:
            admit_columns(party, context, own.contributed_columns)
            own.contributed_columns.source.confirm()
        begun = begin(party, context, before, own) if before else None
        if begun:
            base = begun.ensemble.base
        else:
            context, base = settle(party, context, own)
        self.division = own.division if isinstance(own, AtWorkers) else None
        if config.squared:
            agree_on_numbers(party, "training.unit", of_scales(context))
        check_resolution(context, own)
        progress = Verbose(verbose, party.rank, context, self.curves, observer) if verbose else None
        watch = progress or observer
        ensemble = train(party, context, base, bins, own, self.curves, watch, attempt, begun)
        if progress:
            progress.end()
        self._importances = self._reasons = None
        # Halves of the same trees from two different runs do not fit each other.
        facts = replace(context.facts, pairing=pairing, layout=context.layout.of_parties)
        self.model = SharedModel(party.rank, config, facts, bins.cuts, ensemble)
        return self

    def collect(
        self,
        party: Party,
        X: TableLike,
        y: ColumnLike | None,
        contributed: Mapping[str, Line] | Source,
        folder: str | Path,
        key: FileKey | None = None,
        sample_weight: ColumnLike | None = None,
        bounds: Bounds = NO_BOUNDS,
    ) -> tuple[OwnerFacts, ...]:
        """Keep what owners contribute in a folder, for any number of trainings with these bins and features.

        Both parties must call this at the same time, each with its own rows, which also determine the joint edges.
        Return the owners that have contributed. Stage of the meter: setup. Raises as `fit`.

        Parameters
        ----------
        party, X, y, sample_weight
            As of `fit`.
        contributed : mapping
            As of `fit`: {name: line}.
        folder : str or Path
            A folder for this party's halves: `fit(..., contributed=Stored(folder))` trains on them.
        key : FileKey, optional
            Encrypts the files.
        bounds : Bounds, optional
            What the parties accept of owners, and how many are enough.
        """
        config = self.config
        X = in_memory(X)
        known, _ = agree_on_terms(party, config, dictionary(X))
        if party.workers:
            raise ConfigError("contributions are collected by one process at each party: leave out shards")
        own = own_rows(party, X, y, sample_weight, None, config, known, 0)
        if config.partition == "vertical":
            bounds.check_columns()
        given = open_contributed(party, contributed, config, known, own, bounds)
        context = agree_on_training(party, config, own)
        if isinstance(given, ContributedColumns):
            of_columns = [OwnerFacts(name, owner.id, owner.rows) for name, owner in given.owners.items()]
            with keeping(Path(folder)) as new:
                admit_columns(party, context, given, keep=False)
                save_columns(new, given, key)
                agree_on_kept(party, of_columns)
            given.source.confirm()
            return tuple(of_columns)
        check_shares(context, own)
        edges, kept = cut_bins(party, context, own).edges, list[OwnerFacts]()
        with keeping(Path(folder)) as new:
            for owner, bins, labels, weights in examine(party, context, given, edges):
                save(new, owner, bins, labels, weights, edges, config, own.names, key)
                kept.append(owner)
            check_consent(kept)
            agree_on_kept(party, kept)
        given.source.confirm()
        return tuple(kept)

    def predict_margin(
        self,
        party: Party,
        X: TableLike | Shards,
        method: Method = "bins",
        to: int | None = None,
        *,
        mac: bool = False,
        contributed: Mapping[str, Line] | OwnersOfColumns | None = None,
        base_margin: ColumnLike | None = None,
    ) -> np.ndarray:
        """Predict margins: log-odds for classes, a number, or the logarithm of a count.

        Both parties must call this at the same time, each with its part of the rows. For horizontal data each party
        learns the margins of its own rows. For vertical data party `to` learns those of all rows, and the other party
        gets an empty array. Stages of the meter: predict_offline, predict.

        Parameters
        ----------
        party : Party
            The connection to the other party.
        X : array [n, d], DataFrame or Shards
            The features of this party; an array of shape (0, d) if it has no rows. Columns of a DataFrame may be in
            another order than in training.
        method : "bins" or "thresholds", default "bins"
            "bins" routes rows by the cuts that this party has stored in training. "thresholds" compares values with the
            secret threshold of every node, and accepts rows of any origin.
        to : int, optional
            The rank of the party that learns the margins of vertical data. None: the party that had the labels. It must
            be given if an owner who is no party had them.
        mac : bool, default False
            Check all opened values by MACs (docs/checks.md). Requires "thresholds" and a dealer.
        contributed : mapping or OwnersOfColumns, optional
            The owners of further columns of a model that was trained on them, who contribute these columns of the rows:
            {name: line}, as `party.contributed` has them. Requires "thresholds".
        base_margin : array, optional
            Offsets of the margins of the rows that this party learns, for a model that was trained with such. They are
            added in the clear, and the other party does not learn them.

        Returns
        -------
        float64[n], or float64[n, classes] for several classes

        Raises
        ------
        ConfigError
            If arguments are invalid, or differ between the parties.
        DataError
            If a table is invalid, or if it does not fit the model.
        MacFailure
            If an opened value does not fit its MAC.
        PeerFailure
            If the other party or the connection fails.
        """
        model = self._fitted()
        needs_party(party, "predict(party, X)")
        receiver = receiver_of(model, method, to)
        if mac:
            check_macs(party, method)
        columns = columns_of_owners(party, model, method, mac, contributed)
        known, features, names = features_to_predict(model, party.rank, X)
        rows = len(X) if isinstance(X, Shards) else len(features)
        owners = columns.owners if columns else {}
        offsets = offsets_to_predict(model, party.rank, receiver, base_margin, rows)
        layout = agree_on_prediction(party, model, names, rows, method, to, mac, owners)
        if columns:
            check_rows_of_owners(party, columns.source.ids, dict(zip(owners, columns.ids, strict=True)))
            columns.source.confirm()
        if layout.row_count == 0:
            return np.zeros((0, model.config.num_class) if model.config.num_class else 0)
        if party.workers and min(n for n in layout.rows if n) >= party.workers.count:
            shards = X if isinstance(X, Shards) else Shards.of(Table(features, names), party.workers.count)
            own = predict_shards(party, model, shards, known, method, receiver)
        elif isinstance(X, Shards):
            raise needs_workers(party, layout.rows)
        else:
            own = planned(
                party,
                "predict",
                lambda party: revealed_margins(
                    party,
                    model,
                    layout,
                    features,
                    method,
                    receiver,
                    party.run(input_model(party, model.ensemble, layout)) if mac else None,
                    keys=columns.joined() if columns else None,
                ),
                offline="predict_offline",
                own_verdicts=True,
            )
        margin = own.T if model.config.num_class else own[0]
        margins = margin * (model.facts.margin_unit / (1 << MARGIN_SCALE))
        return margins + offsets if len(margins) else margins

    def contributions(
        self,
        party: Party,
        X: TableLike,
        top: int = 4,
        *,
        groups: Groups = MappingProxyType({}),
        show: Show = "names",
        toward: Toward = "higher",
        method: Method = "bins",
        to: int | None = None,
    ) -> list[tuple[str, ...]] | list[list[tuple[str, ...]]] | Contributions:
        """Explain predictions: the names of the columns that moved the margin most, by XGBoost's `pred_contribs`.

        Both parties must call this at the same time with the same arguments, each with its part of the rows. They are
        revealed to whom the predictions are; with vertical data, the columns of the other party are one reason unless
        they are in a group. Stages of the meter: reasons_table, reasons_offline, reasons; the first only in the first
        call of a session with these groups.

        Parameters
        ----------
        party, X, method, to
            As of `predict_margin`.
        top : int, default 4
            The number of names. A row has fewer if fewer moved its margin `toward` where you look.
        groups : mapping, optional
            Names of reasons with the columns that each stands for: their contributions are added up. A column outside
            is a reason by itself.
        show : "names" or "numbers", default "names"
            "numbers": all contributions, and the mean margin.
        toward : "higher" or "lower", default "higher"
            Whether to name what raised the margin or what lowered it.

        Returns
        -------
        list
            A tuple of names for each row, the strongest first; for several classes a list of them, one per class. Or
            `Contributions` for numbers.

        Raises
        ------
        ConfigError
            If arguments are invalid, or differ between the parties, or if trees are deeper than 6.
        DataError
            If a table is invalid, or does not fit the model, or if the model has no sums of hessians.
        RangeError
            If the contributions could be too large for the arithmetic.
        PeerFailure
            If the other party or the connection fails.
        """
        model = self._fitted()
        needs_party(party, "contributions(party, X)")
        receiver = receiver_of(model, method, to)
        if isinstance(X, Shards):
            raise ConfigError("contributions take a table, not shards: explain the rows in portions")
        request = requested(model, receiver, top, groups, show, toward)
        scale_of(model, party.randomness.has_dealer)
        _, features, names = features_to_predict(model, party.rank, X)
        layout = agree_on_prediction(party, model, names, len(features), method, to)
        mine = request.facts()
        made, key = self._reasons, (mine.names, mine.member)
        ready = made is not None and made[0] is party and made[1] is model and made[2] == key
        if agree_on_reasons(party, request.facts(ready)) and made is not None:
            table = made[3]
        else:
            table = planned(party, "reasons_table", lambda party: party.run(make_table(party, model, request)))
            self._reasons = party, model, key, table
        learned = planned(
            party,
            "reasons",
            lambda party: revealed_reasons(party, Explanation(model, table, request), layout, features, method),
            offline="reasons_offline",
            own_verdicts=True,
        )
        return told(party.link.peer, model, request, table, learned)

    def predict_for(
        self, party: Party, clients: Mapping[str, Line], method: Method = "thresholds", *, mac: bool = False
    ) -> dict[str, int]:
        """Predict for clients who are no party: only they learn their rows and predictions.

        Both parties must call this at the same time. Stages of the meter: predict_offline, predict.

        Parameters
        ----------
        party : Party
            The connection to the other party.
        clients : mapping
            A line to each client, by name, as `party.clients` has them.
        method, mac
            As of `predict_margin`; clients' rows need "thresholds" and no MACs.

        Returns
        -------
        dict
            The number of rows of each client.

        Raises
        ------
        ConfigError
            If arguments are invalid, or differ between the parties.
        DataError
            If a client has sent the parties halves of different rows, or the halves of the model do not fit.
        PeerFailure
            If the other party, a client or the connection fails.
        """
        model = self._fitted()
        needs_party(party, "predict_for(party, party.clients)")
        check_for_clients(method, mac)
        check_without_offsets(model)
        return answer(party, model, clients)

    def save(self, path: str | Path, key: FileKey | None = None) -> None:
        """Write this party's half of the model to a .npz file, encrypted if there is a key. Raises DataError."""
        self._fitted().save(path, key)

    @classmethod
    def load(cls, path: str | Path, key: FileKey | None = None) -> Self:
        """Return a fitted estimator from a half that `save` wrote. Raises DataError."""
        model = SharedModel.load(path, key)
        estimator = cls(**model.config.model_dump())
        estimator.model = model
        return estimator


@documented
class SecureXGBClassifier(_SecureXGB):
    """Classification with logistic loss, between two parties.

    For more than two classes, each round has a tree per class. With objective "multi:softprob", they are XGBoost's.
    With "multi:ova", each separates its class from the others, and probabilities are normalised over the classes; this
    takes fewer rounds of messages. All trees of a round grow in parallel, also several of `num_parallel_tree`.
    """

    objectives = ("binary:logistic", "multi:ova", "multi:softprob")
    other = "SecureXGBRegressor"

    @property
    def classes_(self) -> np.ndarray:
        """The classes 0, 1, ..., in the order of `predict_proba`."""
        return np.arange(self._of_fit("classes_").config.num_class or 2)

    def predict_proba(
        self,
        party: Party,
        X: TableLike | Shards,
        method: Method = "bins",
        to: int | None = None,
        *,
        mac: bool = False,
        contributed: Mapping[str, Line] | OwnersOfColumns | None = None,
        base_margin: ColumnLike | None = None,
    ) -> np.ndarray:
        """Predict probabilities of classes 0, 1, ..., float64[n, classes]. Arguments and rows as in `predict_margin`.

        They are computed in the clear from the revealed margins.
        """
        more: Any = {"mac": mac, "contributed": contributed, "base_margin": base_margin}
        return probabilities(self._fitted().config, self.predict_margin(party, X, method, to, **more))

    def predict(
        self,
        party: Party,
        X: TableLike | Shards,
        method: Method = "bins",
        to: int | None = None,
        *,
        mac: bool = False,
        contributed: Mapping[str, Line] | OwnersOfColumns | None = None,
        base_margin: ColumnLike | None = None,
    ) -> np.ndarray:
        """Predict the most probable class, int64[n]. Arguments and rows as in `predict_margin`."""
        more: Any = {"mac": mac, "contributed": contributed, "base_margin": base_margin}
        return classes(self.predict_margin(party, X, method, to, **more))

    def score(self, party: Party, X: TableLike, y: ColumnLike, method: Method = "bins", to: int | None = None) -> float:
        """Return the accuracy on the rows that `predict_margin` reveals to this party, whose labels are y.

        The other party must call `score` or `predict` at the same time.
        """
        return float(np.mean(self.predict(party, X, method, to) == np.asarray(y).reshape(-1)))


@documented
class SecureXGBRegressor(_SecureXGB):
    """Regression with squared error, of counts with objective "count:poisson", or of positive numbers with "reg:gamma"
    and "reg:tweedie", between two parties.

    As in XGBoost, the gradient of a count is e^m - y and its hessian e^(m + 0.7), and leaf weights are at most 0.7,
    where 0.7 is `max_delta_step`.
    """

    objectives = tuple(name for name, traits in TRAITS.items() if not traits.classes)
    other = "SecureXGBClassifier"

    def predict(
        self,
        party: Party,
        X: TableLike | Shards,
        method: Method = "bins",
        to: int | None = None,
        *,
        mac: bool = False,
        contributed: Mapping[str, Line] | OwnersOfColumns | None = None,
        base_margin: ColumnLike | None = None,
    ) -> np.ndarray:
        """Predict numbers, float64[n]. Arguments and rows as in `predict_margin`."""
        more: Any = {"mac": mac, "contributed": contributed, "base_margin": base_margin}
        return values(self._fitted().config, self.predict_margin(party, X, method, to, **more))

    def score(self, party: Party, X: TableLike, y: ColumnLike, method: Method = "bins", to: int | None = None) -> float:
        """Return the coefficient of determination R^2 on the rows that `predict_margin` reveals, whose labels are y.

        The other party must call `score` or `predict` at the same time.
        """
        truth = np.asarray(y, np.float64).reshape(-1)
        residual = ((truth - self.predict(party, X, method, to)) ** 2).sum()
        return float(1 - residual / ((truth - truth.mean()) ** 2).sum())
