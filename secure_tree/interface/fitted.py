"""What scikit-learn and XGBoost offer of a fitted estimator: names, classes, evaluations, importances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mpc.errors import DataError
from mpc.host.frames import pd
from mpc.party import Party
from secure_tree.interface.conventions import needs_party, not_fitted
from secure_tree.interface.parameters import Parametrised
from secure_tree.prediction.importance import by_column, feature_importance
from secure_tree.prediction.partial_dependence import partial_dependence
from secure_tree.public.config import Importance
from secure_tree.public.names import columns_behind
from secure_tree.training.train import LearningCurve, LearningCurves, best_round

if TYPE_CHECKING:
    from secure_tree.model.shared_model import SharedModel
    from secure_tree.prediction.reasons.table import Table


class Fitted(Parametrised):
    """Attributes of a fitted estimator. All of them are public, or known to this party."""

    model: SharedModel | None = None
    curves: LearningCurves
    _importances: np.ndarray | None = None
    # What made the table of reasons, and the table.
    _reasons: tuple[Party, SharedModel, tuple[list[str], list[int]], Table] | None = None

    def _fitted(self) -> SharedModel:
        if self.model is None:
            raise not_fitted()
        return self.model

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The names of this party's columns, str[columns], in the order of `fit`; "f0", "f1", ... for an array."""
        model = self._of_fit("feature_names_in_")
        own = model.facts.names[model.facts.layout.features_of(model.rank)]
        return np.array(list(columns_behind(own, [])), dtype=object)

    @property
    def n_features_in_(self) -> int:
        """The number of this party's columns."""
        return len(self.feature_names_in_)

    @property
    def curve(self) -> LearningCurve:
        """The revealed (rounds, value) pairs of the last metric on held-out rows."""
        return self.curves.get(self.config.metric, [])

    @property
    def best_iteration(self) -> int:
        """The round that early stopping kept, counted from 0 as in XGBoost."""
        if not self._of_fit("best_iteration").config.early_stopping_rounds:
            raise AttributeError("best_iteration is only defined with early_stopping_rounds")
        return self._fitted().rounds - 1

    @property
    def best_score(self) -> float:
        """The value of the last metric at `best_iteration`."""
        if not self._of_fit("best_score").config.early_stopping_rounds or not self.curve:
            raise AttributeError("best_score is only defined after a fit with early_stopping_rounds")
        return dict(self.curve)[best_round(self.curve, self.config)]

    def evals_result(self) -> dict[str, dict[str, list[float]]]:
        """Return the metrics on held-out rows as XGBoost does, one value per evaluation; `curves` has their rounds.

        Raises DataError without held-out rows.
        """
        self._fitted()
        if not any(self.curves.values()):
            raise DataError("there are no evaluations: fit with an eval_set, or with test_size")
        return {"validation_0": {str(metric): [value for _, value in curve] for metric, curve in self.curves.items()}}

    def feature_importance(self, party: Party, kind: Importance = "weight") -> np.ndarray:
        """Reveal the importance of each feature to both parties: float64[d] in the order of `model.facts.names`.

        Both parties must call this with the same `kind`: "weight", "gain", "total_gain", "cover" or "total_cover", as
        in XGBoost (secure_tree/prediction/importance.py). `feature_importances_` then has it by name. Raises
        ConfigError, DataError.
        """
        self._importances = feature_importance(party, self._fitted(), kind)
        return self._importances

    def partial_dependence(self, party: Party, feature: str | int, points: Sequence[float]) -> np.ndarray:
        """Reveal the mean margin where a feature has each of up to 10 values, to both parties: float64[points], or
        [points, classes] for several classes.

        Path-dependent, as scikit-learn's method "recursion": nodes that split on other features send rows both ways, as
        many as in the training. Both parties must call this with the same feature, its name or its number in
        `model.facts.names`, and points. Stage of the meter: partial_dependence. Raises ConfigError, DataError.
        """
        needs_party(party, "partial_dependence(party, feature, points)")
        return partial_dependence(party, self._fitted(), feature, points)

    @property
    def feature_importances_(self) -> pd.Series:
        """The importances that `feature_importance` revealed last, by feature, divided by their sum as in XGBoost.

        A column that is split by sets is one feature.
        """
        facts, revealed = self._of_fit("feature_importances_").facts, self._importances
        if revealed is None:
            raise AttributeError("feature_importances_ is secret until both parties call feature_importance(party)")
        names, of_columns = by_column(facts, revealed / (revealed.sum() or 1.0))
        return pd.Series(of_columns, names)

    def _of_fit(self, attribute: str) -> SharedModel:
        """Return the model. Raises AttributeError without one, so that `hasattr` is False before `fit`."""
        if self.model is None:
            raise AttributeError(f"{attribute} is only defined after fit")
        return self.model
