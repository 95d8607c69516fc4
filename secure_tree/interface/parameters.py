"""The keyword parameters of the estimators: meaning, default, and XGBoost's default."""

from __future__ import annotations

import inspect
from textwrap import wrap
from typing import Any, ClassVar, Self, TypeVar

from mpc.errors import ConfigError
from secure_tree.public.config import Objective, TrainConfig, canonical

# name: (type, XGBoost's default, what it does). "-": XGBoost has no such parameter.
TABLE: dict[str, tuple[str, str, str]] = {
    "objective": (
        "str, optional",
        "the same",
        "Classifier: `binary:logistic` (None), or `multi:ova` with `num_class`: one class against the others. "
        "Regressor: `reg:squarederror` (None) or `count:poisson`.",
    ),
    "n_estimators": ("int", "100", "Boosting rounds; one tree per round, and per class with `multi:ova`."),
    "learning_rate": (
        "float",
        "0.3",
        "Factor of every leaf weight, at least 1e-5, used to a relative 2^-16. The default is PETML's.",
    ),
    "max_depth": ("int", "6", "Depth of every tree, 1 to 8: trees are full, and each level doubles the cost."),
    "max_bin": (
        'int or "exact"',
        "256",
        'Bins per feature (per party, with private edges), 2 to 1024; "exact" makes every distinct value a threshold. '
        "The cost is proportional to it.",
    ),
    "edges": (
        '"joint" or "private"',
        "-",
        'Where bins are cut by rows: at quantiles of all rows, which become public ("joint"), or at those of each '
        'party, which nobody else learns ("private"). No effect by columns or with `max_bin="exact"`.',
    ),
    "local_bins": (
        "int, optional",
        "-",
        "Bins per feature and party with private edges, a multiple of `max_bin`: the more, the fewer rows an edge of "
        "the other party misplaces. None: four times `max_bin`, or twice if `max_bin` is above 64.",
    ),
    "edge_bits": (
        "int",
        "-",
        "Bits of a float32 to which joint edges are rounded, 12 to 32. 16 bits keep two to three digits, and merge, "
        "for example, the years 2016 to 2023.",
    ),
    "reg_lambda": ("float", "1", "L2 penalty on leaf weights."),
    "reg_alpha": ("float", "0", "L1 penalty on leaf weights."),
    "min_split_loss": (
        "float, optional",
        "0",
        "Gain that a split must exceed. None: 1e-5 for classes, as in PETML, and 0 for numbers and counts.",
    ),
    "min_child_weight": (
        "float, optional",
        "1",
        "Minimum sum of hessians in a child. None: 0.5 for classes, as in PETML, and 1 for numbers and counts.",
    ),
    "min_child_samples": ("int", "-", "Minimum number of rows in a child."),
    "max_delta_step": (
        "float, optional",
        "0; 0.7 for counts",
        "Maximum leaf weight before `learning_rate`; 0: no maximum. None: XGBoost's default. For counts, above 0 and "
        "at most 5. With `reg_alpha`, splits are ranked without it.",
    ),
    "scale_pos_weight": (
        "float",
        "1",
        "Factor of the weights of rows with label 1, for `binary:logistic`. As in XGBoost, the base score is then one "
        "Newton step from 0.5.",
    ),
    "base_score": (
        "float, optional",
        "None",
        "Initial prediction: a probability (clipped to 1e-6, as in XGBoost), a number or a count, which is public. "
        "None: estimated from the labels on shares, and revealed to nobody; one per class with `multi:ova`.",
    ),
    "num_class": ("int, optional", "-", "Number of classes, for `multi:ova`."),
    "subsample": ("float", "1", "Fraction of the rows that each tree is grown on, by a secret mask."),
    "colsample_bytree": ("float", "1", "Fraction of the features that each tree may use, by a public coin."),
    "test_size": ("float", "-", "Fraction of each party's rows held out for validation: at least 5 rows, or none."),
    "random_state": ("int", "0", "Public seed that selects the held-out rows."),
    "eval_metric": (
        "str or list of str, optional",
        "by objective",
        "Metrics on held-out rows: `logloss`, `error` or `auc`; for two classes also `aucpr` (average precision), `ks` "
        "and `gini`; for numbers `rmse` or `mae`. Early stopping uses the last one. Rankings are read at 128 cuts: "
        "`auc` to 0.001 and `aucpr` to 0.005, with one positive row of 300 to 0.004 and 0.04; `ks` is up to 0.04 too "
        "small. As in XGBoost they are NaN if rows lack a class; early stopping refuses that.",
    ),
    "eval_epochs": ("int", "1", "Boosting rounds between two validations, which cost communication."),
    "eval_threshold": ("float", "0.5", "Probability above which `error` counts a row as positive."),
    "early_stopping_rounds": ("int, optional", "None", "Rounds without improvement after which training ends."),
    "partition": (
        '"horizontal" or "vertical"',
        "-",
        "Each party has some rows of all features, or some features of all rows.",
    ),
    "missing": (
        '"none", "all" or list of str',
        "NaN",
        "Features that may contain NaN, which are public; only these cost more.",
    ),
    "monotone_constraints": (
        "list of int or dict, optional",
        "None",
        "For each feature of the whole table, or by name: 1 if predictions must not fall as it rises, -1 if they must "
        "not rise, otherwise 0. Public. Not together with `reg_alpha`.",
    ),
}


def section(cls: type) -> str:
    """Return the section `Parameters` of an estimator's docstring, in numpydoc's form."""
    lines = ["Parameters", "----------"]
    for name, parameter in inspect.signature(cls.__init__).parameters.items():  # type: ignore[misc]  # the signature is that of this class itself
        if name in TABLE:
            kind, elsewhere, text = TABLE[name]
            beside = "" if elsewhere in ("-", _shown(parameter.default)) else f" (XGBoost: {elsewhere})"
            lines.append(f"{name} : {kind}, default {_shown(parameter.default)}{beside}")
            lines += [f"    {line}" for line in wrap(text, 96)]
    return "\n".join(lines)


def markdown(cls: type) -> str:
    """Return the same section as a table for docs/secure_tree.md."""
    defaults = inspect.signature(cls.__init__).parameters  # type: ignore[misc]  # the signature is that of this class itself
    rows = [f"| `{n}` | {_shown(defaults[n].default)} | {x} | {text} |" for n, (_, x, text) in TABLE.items()]
    return "\n".join(["| parameter | default | XGBoost's | |", "|---|---|---|---|", *rows])


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


Class = TypeVar("Class", bound=type)


def documented(cls: Class) -> Class:
    """Append the section `Parameters` to the docstring of an estimator; a class decorator."""
    cls.__doc__ = inspect.cleandoc(cls.__doc__ or "") + "\n\n" + section(cls)
    return cls


class Parametrised:
    """Base of objects whose `__init__` has the parameters of TrainConfig as keywords, validated when they are set."""

    objectives: ClassVar[tuple[Objective, ...]]
    other: ClassVar[str]

    def _hold(self, given: dict[str, Any]) -> None:
        """Store the parameters from `locals()` of `__init__` unchanged, as scikit-learn's `clone` requires."""
        aliases, defaults = given["aliases"], self._defaults()
        changed = {name: given[name] for name in defaults if given[name] is not defaults[name]}
        vars(self).update({**defaults, **self._named({**changed, **aliases})})
        _ = self.config

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        signature = inspect.signature(cls.__init__)
        return {n: p.default for n, p in signature.parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}

    @classmethod
    def _named(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Replace aliases by the names of `__init__`. Raises ConfigError for an unknown name."""
        given = canonical(given)
        if unknown := next((name for name in given if name not in cls._defaults()), None):
            TrainConfig.of(**{unknown: given[unknown]})
        return given

    @property
    def config(self) -> TrainConfig:
        """The validated configuration. Raises ConfigError."""
        parameters = self.get_params()
        config = TrainConfig.of(**{**parameters, "objective": parameters["objective"] or self.objectives[0]})
        if config.objective not in self.objectives:
            raise ConfigError(
                f"{type(self).__name__} trains {' or '.join(self.objectives[:2])}, got objective {config.objective}: "
                f"use {self.other}"
            )
        return config

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name. `deep` is ignored, because no parameter is an estimator."""
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters for the next `fit`. Raises ConfigError, in which case none is changed."""
        before = self.get_params()
        vars(self).update(self._named(parameters))
        try:
            _ = self.config
        except ConfigError:
            vars(self).update(before)
            raise
        return self

    def __repr__(self) -> str:
        defaults = self._defaults()
        changed = {name: value for name, value in self.get_params().items() if value != defaults[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def __sklearn_tags__(self) -> None:
        raise ConfigError(
            f"{type(self).__name__} trains with another party, by fit(party, X, y): scikit-learn's cross-validation, "
            "searches and pipelines cannot drive it; use sharewood.cross_validate or sharewood.grid_search"
        )
