"""The keyword parameters of the estimators: what each does, and where its default is not XGBoost's, why."""

from __future__ import annotations

import inspect
from textwrap import wrap
from typing import Any, ClassVar, Self, TypeVar

from mpc.errors import ConfigError
from secure_tree.config import Objective, TrainConfig, canonical

# name: (type, XGBoost's default, what it does). "-": XGBoost has no such parameter.
TABLE: dict[str, tuple[str, str, str]] = {
    "objective": (
        "str, optional",
        "the same",
        "Of the classifier `binary:logistic` (None), or `multi:ova` with `num_class`: one class against the others. Of "
        "the regressor `reg:squarederror` (None) or `count:poisson`.",
    ),
    "n_estimators": ("int", "100", "Rounds of boosting; a tree per round, and per class under `multi:ova`."),
    "learning_rate": ("float", "0.3", "Factor of every leaf weight. PETML's default."),
    "max_depth": ("int", "6", "Depth of every tree, 1 to 8: trees are full, and each level doubles the cost."),
    "max_bin": (
        'int or "exact"',
        "256",
        'Bins per feature, 2 to 1024, with private edges of each party; "exact" makes every distinct value a '
        "threshold. Cost grows in proportion.",
    ),
    "edges": (
        '"joint" or "private"',
        "-",
        "By rows, where bins are cut: at quantiles of all rows, which become public, or at each party's own, which "
        'nobody else learns. Has no effect by columns and under `max_bin="exact"`.',
    ),
    "local_bins": (
        "int, optional",
        "-",
        "Bins per feature and party under private edges, a multiple of `max_bin`: the finer, the less an edge of the "
        "other party misplaces. None: four times `max_bin`, and above 64 twice.",
    ),
    "edge_bits": (
        "int",
        "-",
        "To how many bits of a float32 joint edges are rounded, 12 to 32: 16 keep two to three digits.",
    ),
    "reg_lambda": ("float", "1", "L2 penalty on leaf weights."),
    "reg_alpha": ("float", "0", "L1 penalty on leaf weights."),
    "min_split_loss": ("float", "0", "Gain that a split must exceed. PETML's default."),
    "min_child_weight": (
        "float, optional",
        "1",
        "Least sum of hessians in a child. None: 0.5 for classes, as in PETML, and 1 for numbers.",
    ),
    "min_child_samples": ("int", "-", "Least number of rows in a child."),
    "max_delta_step": (
        "float, optional",
        "0; 0.7 for counts",
        "Largest leaf weight before `learning_rate`; 0: none. None: XGBoost's. For counts above 0, and at most 5. "
        "Beside `reg_alpha` splits are ranked without it.",
    ),
    "scale_pos_weight": ("float", "1", "Factor of the weights of rows with label 1, under `binary:logistic`."),
    "base_score": (
        "float, optional",
        "None",
        "First prediction: a probability, a number or a count, and then public. None: estimated from the labels on "
        "shares, and revealed to nobody; one per class under `multi:ova`.",
    ),
    "comparison": (
        '"bits" or "keys"',
        "-",
        'How shares are compared: "keys" takes fewer rounds, and more bytes from the dealer.',
    ),
    "num_class": ("int, optional", "-", "Number of classes under `multi:ova`."),
    "subsample": ("float", "1", "Share of the rows that each tree is grown on; a secret mask."),
    "colsample_bytree": ("float", "1", "Share of the features that each tree may use; a public coin."),
    "test_size": ("float", "-", "Share of each party's rows that is held out for validation: 5 rows or more, or none."),
    "random_state": ("int", "0", "Seed of the choice of held-out rows, which is public."),
    "eval_metric": (
        "str or list of str, optional",
        "by objective",
        "Computed on held-out rows: `logloss`, `error` or `auc`; of two classes also `aucpr` (average precision), `ks` "
        "and `gini`; of numbers `rmse` or `mae`. Of several, early stopping goes by the last.",
    ),
    "eval_epochs": ("int", "1", "Rounds between two validations, which cost communication."),
    "eval_threshold": ("float", "0.5", "Probability above which `error` counts a row as positive."),
    "early_stopping_rounds": ("int, optional", "None", "Rounds without improvement after which training ends."),
    "partition": ('"horizontal" or "vertical"', "-", "Each party has rows of all features, or features of all rows."),
    "missing": (
        '"none", "all" or list of str',
        "NaN",
        "Features that may hold NaN; only these cost more. Which they are is public.",
    ),
    "monotone_constraints": (
        "list of int or dict, optional",
        "None",
        "Of each feature of the whole table, or by name: 1 where predictions must not fall as it rises, -1 where "
        "they must not rise, 0. Public. Not beside `reg_alpha`.",
    ),
}


def section(cls: type) -> str:
    """The section `Parameters` of the docstring of an estimator, in numpydoc's form."""
    lines = ["Parameters", "----------"]
    for name, parameter in inspect.signature(cls.__init__).parameters.items():  # type: ignore[misc]  # the signature is that of this class itself
        if name in TABLE:
            kind, elsewhere, text = TABLE[name]
            beside = "" if elsewhere in ("-", _shown(parameter.default)) else f" (XGBoost: {elsewhere})"
            lines.append(f"{name} : {kind}, default {_shown(parameter.default)}{beside}")
            lines += [f"    {line}" for line in wrap(text, 96)]
    return "\n".join(lines)


def markdown(cls: type) -> str:
    """The same as a table for docs/secure_tree.md."""
    defaults = inspect.signature(cls.__init__).parameters  # type: ignore[misc]  # the signature is that of this class itself
    rows = [f"| `{n}` | {_shown(defaults[n].default)} | {x} | {text} |" for n, (_, x, text) in TABLE.items()]
    return "\n".join(["| parameter | default | XGBoost's | |", "|---|---|---|---|", *rows])


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


Class = TypeVar("Class", bound=type)


def documented(cls: Class) -> Class:
    """A decorator that adds the section to the docstring of an estimator."""
    cls.__doc__ = inspect.cleandoc(cls.__doc__ or "") + "\n\n" + section(cls)
    return cls


class Parametrised:
    """An object whose `__init__` has keyword parameters only, of TrainConfig, checked as soon as they are set."""

    objectives: ClassVar[tuple[Objective, ...]]
    other: ClassVar[str]

    def _hold(self, given: dict[str, Any]) -> None:
        """`locals()` of `__init__`: parameters are kept as they were given, as scikit-learn's `clone` asks."""
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
        """The same under the names of `__init__`. Raises ConfigError for a name that is none."""
        given = canonical(given)
        if unknown := next((name for name in given if name not in cls._defaults()), None):
            TrainConfig.of(**{unknown: given[unknown]})
        return given

    @property
    def config(self) -> TrainConfig:
        """The parameters, checked. Raises ConfigError."""
        parameters = self.get_params()
        config = TrainConfig.of(**{**parameters, "objective": parameters["objective"] or self.objectives[0]})
        if config.objective not in self.objectives:
            raise ConfigError(
                f"{type(self).__name__} trains {' or '.join(self.objectives[:2])}, got objective {config.objective}: "
                f"use {self.other}"
            )
        return config

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, as scikit-learn names them."""
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; the next `fit` uses them. Raises ConfigError, and then changes none."""
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
