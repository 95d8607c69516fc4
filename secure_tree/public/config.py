"""The configuration of a training: frozen, validated once, and the only place for defaults."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import ErrorDetails

from mpc.errors import ConfigError
from secure_tree.public import refused
from secure_tree.public.exact import ln
from secure_tree.public.names import covers, is_indicator
from secure_tree.public.objectives import TRAITS, Metric, Objective, Traits

# The maximal depth of trees, including those of shared models.
DEEPEST = 8
Partition = Literal["horizontal", "vertical"]
Missing = Literal["none", "all"] | tuple[str, ...]
# Whether predictions must rise (1) or fall (-1) with a feature.
Direction = Literal[-1, 0, 1]
_DIRECTIONS = {"1": 1, "0": 0, "-1": -1}
Edges = Literal["joint", "private"]
MOST_BINS, MOST_LOCAL_BINS = 1024, 8192
# Local bins per edge without `local_bins`, and beyond MANY_BINS edges. From MANY_ROWS rows of a party on, where each
# bin costs the most, as few as MANY_BINS are enough.
FINER, FINER_OF_MANY, MANY_BINS, MANY_ROWS = 4, 2, 64, 100_000
# How rows are routed through a model (secure_tree/prediction/predict.py), and how a feature's importance is measured.
Method = Literal["bins", "thresholds"]
Importance = Literal["weight", "gain", "total_gain", "cover", "total_cover"]
# As in XGBoost, the base score of classes is clipped to this and to 1 less this.
LEAST_PROBABILITY = 1e-6
# The leaves of a smaller learning rate would have too few digits.
LEAST_RATE = 1e-5
POWER_SCALE = 16
# XGBoost's default for counts, and its limit: the hessian e^(margin + max_delta_step) must stay within the arithmetic.
MAX_DELTA_STEP, LARGEST_DELTA_STEP_OF_COUNTS = 0.7, 5.0
# XGBoost's aliases of parameters.
ALIASES = {
    "eta": "learning_rate",
    "gamma": "min_split_loss",
    "lambda": "reg_lambda",
    "alpha": "reg_alpha",
    "n_rounds": "n_estimators",
    "num_round": "n_estimators",
    "num_boost_round": "n_estimators",
    "seed": "random_state",
}
# Aliases of values: PETML's names of objectives, XGBoost's names of metrics for several classes.
_NAMES = {
    "objective": {
        "logitraw": "binary:logistic",
        "logistic": "binary:logistic",
        "squarederror": "reg:squarederror",
        # The same trees; it predicts the class, as every classifier here does by `predict`.
        "multi:softmax": "multi:softprob",
    },
    "eval_metric": {"merror": "error", "mlogloss": "logloss"},
}


def _parameter(default: Any, xgboost: str = "-", after: str = "", **bounds: Any) -> Any:
    """Return a field.

    default: a value, or a function of the fields above it, which None in its place stands for
    xgboost: XGBoost's default, as documentation shows it; "-": XGBoost has no such parameter
    after: the parameter that it follows in signatures and documentation, if that is not the field above it
    """
    bounds["default_factory" if callable(default) else "default"] = default
    return Field(json_schema_extra={"xgboost": xgboost, "after": after}, **bounds)


def _by_objective(classes: float, numbers: float, counts: float) -> Callable[[dict[str, Any]], float]:
    """Return the default that depends on the objective."""

    def default(above: dict[str, Any]) -> float:
        name = above["objective"]
        if name == "count:poisson":
            return counts
        return numbers if name in TRAITS and not TRAITS[name].classes else classes

    return default


class Parameters(BaseModel):
    """Public parameters of a training; the docstring below each is its description."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @classmethod
    def of(cls, **parameters: Any) -> Self:
        """Build and validate a configuration. Raises ConfigError with one sentence."""
        return validated(cls, parameters)


class BoostingConfig(Parameters):
    """Parameters that every boosting of trees here has, under XGBoost's names."""

    objective: str = "binary:logistic"
    n_estimators: int = _parameter(100, "100", ge=1, le=10_000)
    """Boosting rounds; `num_parallel_tree` trees per round, and per class if there are several."""
    learning_rate: float = _parameter(0.1, "0.3", gt=0, le=1)
    """Factor of every leaf weight, at least 1e-5, used to a relative 2^-16. The default is PETML's."""
    max_depth: int = _parameter(3, "6", ge=1, le=DEEPEST)
    """Depth of every tree, 1 to 8: trees are full, and each level doubles the cost."""
    max_bin: int | Literal["exact"] = _parameter(32, "256")
    """Bins per feature (per party, with private edges), 2 to 1024; "exact" makes every distinct value a threshold. The
    cost is proportional to it.
    """
    reg_lambda: float = _parameter(1.0, "1", ge=0, le=1e6)
    """L2 penalty on leaf weights."""
    reg_alpha: float = _parameter(0.0, "0", ge=0, le=1e6)
    """L1 penalty on leaf weights."""
    # A gain has the unit of the labels squared, so no number above 0 suits labels of every magnitude.
    min_split_loss: float = _parameter(_by_objective(1e-5, 0.0, 0.0), "0", ge=0)
    """Gain that a split must exceed. None: 1e-5 for classes, as in PETML, and 0 for numbers and counts."""
    min_child_weight: float = _parameter(_by_objective(0.5, 1.0, 1.0), "1", ge=0, le=1e9)
    """Minimum sum of hessians in a child. None: 0.5 for classes, as in PETML, and 1 for numbers and counts."""
    base_score: float | None = _parameter(None, "None")
    """Initial prediction: a probability (clipped to 1e-6, as in XGBoost), a number or a count, which is public. None:
    estimated from the labels on shares, and revealed to nobody; one per class if there are several.
    """
    colsample_bytree: float = _parameter(1.0, "1", gt=0, le=1)
    """Fraction of the features that each tree may use, by a public coin."""
    random_state: int = _parameter(0, "0", ge=0)
    """Public seed that selects the held-out rows."""

    @model_validator(mode="before")
    @classmethod
    def _names(cls, values: dict[str, Any]) -> dict[str, Any]:
        named = canonical(values)
        power = {f"tweedie-nloglik@{named.get('tweedie_variance_power') or 1.5}": "tweedie-nloglik"}
        for field, names in (_NAMES | {"eval_metric": _NAMES["eval_metric"] | power}).items():
            if isinstance(given := named.get(field), list | tuple):
                named[field] = tuple(names.get(str(each), each) for each in given)
            elif str(given) in names:
                named[field] = names[str(given)]
        made = {name for name, field in cls.model_fields.items() if field.default_factory}
        return {name: value for name, value in named.items() if value is not None or name not in made}

    @model_validator(mode="after")
    def _base_score_has_a_margin(self) -> Self:
        if self.base_score is not None:
            if not math.isfinite(self.base_score):
                raise ValueError(f"base_score must be a finite number, got {self.base_score}")
            if self.log_odds and not 0 < self.base_score < 1:
                raise ValueError(
                    f"base_score must be a probability between 0 and 1 under {self.objective}, got {self.base_score:g}"
                )
        return self

    @property
    def logistic(self) -> bool:
        """True if labels are classes."""
        return self.objective == "binary:logistic"

    @property
    def log_odds(self) -> bool:
        """True if margins are log-odds."""
        return self.logistic

    @property
    def base_margin(self) -> float:
        """A given base_score on the scale of the margin: log-odds for classes, clipped as in XGBoost."""
        assert self.base_score is not None, "the base score is not estimated"
        if not self.log_odds:
            return self.base_score
        probability = min(max(self.base_score, LEAST_PROBABILITY), 1 - LEAST_PROBABILITY)
        return ln(probability / (1 - probability))


class TrainConfig(BoostingConfig):
    """Parameters of secure trees. They must be equal at both parties."""

    objective: Objective = _parameter("binary:logistic", "the same")
    """Classifier: `binary:logistic` (None), or with `num_class` `multi:softprob` or `multi:ova`: one class against the
    others. `multi:softmax` is `multi:softprob`. Regressor:
    `reg:squarederror` (None), `reg:logistic`, `count:poisson`, `reg:gamma`, `reg:tweedie` or `reg:pseudohubererror`.
    """
    edges: Edges = _parameter("private", after="max_bin")
    """Where bins are cut by rows: at quantiles of all rows, which become public ("joint"), or at those of each party,
    which nobody else learns ("private"). No effect by columns or with `max_bin="exact"`.
    """
    local_bins: int | None = _parameter(None, ge=2, le=MOST_LOCAL_BINS)
    """Bins per feature and party with private edges, a multiple of `max_bin`: the more, the fewer rows an edge of the
    other party misplaces. None: four times `max_bin`, or twice if `max_bin` is above 64; if a party has 100,000 rows,
    64 if `max_bin` is 16 to 32, and twice `max_bin` above.
    """
    edge_bits: int = _parameter(32, ge=12, le=32)
    """Bits of a float32 to which joint edges are rounded, 12 to 32. 16 bits keep two to three digits, and merge, for
    example, the years 2016 to 2023.
    """
    max_cat_to_onehot: int = _parameter(4, "4", ge=1)
    """From so many categories of a column on, a split sends a set of them one way, and below one of them. A column with
    more than 256 has one category per split.
    """
    cuts: dict[str, tuple[float, ...]] | None = _parameter(None)
    """Declared edges of numeric features, {name: ascending values}, which are not searched for: a row goes left if its
    value is below. Public; only with joint edges. At most `max_bin` - 1 for a feature.
    """
    min_child_samples: int = _parameter(1, after="min_child_weight", ge=1)
    """Minimum number of rows in a child."""
    max_delta_step: float = _parameter(_by_objective(0.0, 0.0, MAX_DELTA_STEP), "0; 0.7 for counts", ge=0, le=1e9)
    """Maximum leaf weight before `learning_rate`; 0: no maximum. None: XGBoost's default. For counts, above 0 and at
    most 5. With `reg_alpha`, splits are ranked without it.
    """
    scale_pos_weight: float = _parameter(1.0, "1", gt=0, le=1e6)
    """Factor of the weights of rows with label 1, for `binary:logistic`. As in XGBoost, the base score is then one
    Newton step from 0.5.
    """
    tweedie_variance_power: float = _parameter(1.5, "1.5", ge=1.001, le=1.999)
    """For `reg:tweedie`: the power of the mean that the variance is, 1.001 to 1.999, used to 2^-16."""
    huber_slope: float = _parameter(1.0, "1", ge=1e-30, le=1e30)
    """For `reg:pseudohubererror`: the distance of a label from its prediction beyond which the loss becomes linear."""
    num_class: int | None = _parameter(None, after="base_score", ge=2, le=1000)
    """Number of classes, for `multi:softprob` and `multi:ova`."""
    subsample: float = _parameter(1.0, "1", gt=0, le=1)
    """Fraction of the rows that each tree is grown on, by a secret mask."""
    num_parallel_tree: int = _parameter(1, "1", ge=1, le=10_000)
    """Trees per boosting round and class, grown from the same gradients, each on its own sample of rows and features.
    They share their rounds of messages, and `learning_rate` is divided among them.
    """
    test_size: float = _parameter(0.0, after="colsample_bytree", ge=0, lt=1)
    """Fraction of each party's rows held out for validation: at least 5 rows, or none."""
    eval_metric: Metric | Annotated[tuple[Metric, ...], Field(min_length=1)] | None = _parameter(
        None, "by objective", after="random_state"
    )
    """Metrics on held-out rows: `logloss`, `error` or `auc`; for two classes also `aucpr` (average precision), `ks` and
    `gini`; for numbers and counts `rmse` or `mae`; `gamma-deviance` and `gamma-nloglik`; `tweedie-nloglik`; `mphe`.
    Early stopping uses the last one. Rankings are read at 128 cuts: `auc` to 0.001 and `aucpr` to 0.005, with one
    positive row of 300 to 0.004 and 0.04; `ks` is up to 0.04 too small. As in XGBoost they are NaN if rows lack a
    class; early stopping refuses that.
    """
    eval_epochs: int = _parameter(10, "1", ge=1)
    """Boosting rounds between two validations, which cost communication."""
    eval_threshold: float = _parameter(0.5, "0.5", gt=0, lt=1)
    """Probability above which `error` counts a row as positive."""
    early_stopping_rounds: int | None = _parameter(None, "None", ge=1)
    """Rounds without improvement after which training ends."""
    partition: Partition = _parameter("horizontal")
    """Each party has some rows of all features, or some features of all rows."""
    missing: Missing = _parameter("none", "NaN")
    """Features that may contain NaN, which are public; only these cost more."""
    monotone_constraints: tuple[Direction, ...] | dict[str, Direction] | None = _parameter(None, "None")
    """For each feature of the whole table, or by name: 1 if predictions must not fall as it rises, -1 if they must not
    rise, otherwise 0. Public. Not together with `reg_alpha`.
    """
    interaction_constraints: tuple[tuple[int | str, ...], ...] | None = _parameter(None, "None")
    """Groups of columns, by names or by their numbers in the whole table: the columns of every path from the root are
    in one group. A column without a group is with no other. Public. None: all may meet.
    """

    @field_validator("objective", "missing", "random_state", mode="before")
    @classmethod
    def _refused(cls, given: Any, field: ValidationInfo) -> Any:
        try:
            if field.field_name == "objective":
                refused.check_objective(given, tuple(TRAITS))
            elif field.field_name == "missing":
                refused.check_missing(given)
            else:
                refused.check_seed(given)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return given

    @field_validator("monotone_constraints", mode="before")
    @classmethod
    def _directions_in_any_form(cls, given: Any) -> Any:
        parts = given
        if isinstance(given, str) and given[:1] + given[-1:] == "()":
            parts = [_DIRECTIONS.get(part.strip(), part) for part in given[1:-1].removesuffix(",").split(",")]
        values = (
            parts.values() if isinstance(parts, dict) else parts if isinstance(parts, list | tuple) else [str(parts)]
        )
        if given is not None and any(isinstance(way, str) or way not in (-1, 0, 1) for way in values):
            raise ValueError(
                f'must be a list of 1, 0 or -1, a dict of names, or text such as "(1,0,-1)", got {given!r}'
            )
        return parts

    @field_validator("interaction_constraints", mode="before")
    @classmethod
    def _groups_in_any_form(cls, given: Any) -> Any:
        groups = given
        if isinstance(given, str):
            try:
                groups = json.loads(given)
            except ValueError:
                groups = [given]
        lists = isinstance(groups, list | tuple) and all(isinstance(group, list | tuple) for group in groups)
        columns = [column for group in groups for column in group] if lists else []
        if given is not None and not (
            lists and all(isinstance(c, str) or (type(c) is int and c >= 0) for c in columns)
        ):
            raise ValueError(
                f'must be a list of lists of names or numbers, or text such as "[[0, 1], [2, 3]]", got {given!r}'
            )
        return groups

    @model_validator(mode="after")
    def _consistent(self) -> TrainConfig:
        if self.max_bin != "exact" and not 2 <= self.max_bin <= MOST_BINS:
            raise ValueError(f'max_bin must be a number from 2 to {MOST_BINS}, or "exact", got {self.max_bin}')
        if self.local_bins and (self.max_bin == "exact" or self.local_bins % self.max_bin):
            raise ValueError(f"local_bins must be a multiple of max_bin, got {self.local_bins} and {self.max_bin}")
        if self.power and self.base_score is not None and self.base_score <= 0:
            what = "a count" if self.counts else "a number"
            raise ValueError(f"base_score must be {what} above 0 under {self.objective}, got {self.base_score:g}")
        if self.counts and not 0 < self.max_delta_step <= LARGEST_DELTA_STEP_OF_COUNTS:
            raise ValueError(
                f"max_delta_step must be above 0 and at most {LARGEST_DELTA_STEP_OF_COUNTS:g} under count:poisson, got "
                f"{self.max_delta_step:g}"
            )
        if self.leaf_rate < LEAST_RATE:
            of_trees = f" over num_parallel_tree, {self.num_parallel_tree}," if self.num_parallel_tree > 1 else ""
            raise ValueError(f"learning_rate{of_trees} must be at least {LEAST_RATE:g}, got {self.leaf_rate:g}")
        if self.scale_pos_weight != 1 and self.objective != "binary:logistic":
            raise ValueError(f"scale_pos_weight must be 1 under {self.objective}: use sample_weight")
        if bool(self.num_class) != self.objective.startswith("multi:"):
            raise ValueError("num_class must be set for multi:ova and multi:softprob, and only for them")
        for metric in self.metrics:
            if metric not in self.traits.metrics:
                raise ValueError(f"eval_metric must suit {self.objective}, got {metric}")
        if self.reg_alpha and self._constrained:
            raise ValueError("reg_alpha must be 0 with monotone_constraints: splits are checked on weights without it")
        for name, values in (self.cuts or {}).items():
            given = np.array(values, np.float32)
            if not (given.size and np.isfinite(given).all() and (np.diff(given) > 0).all()):
                raise ValueError(f"cuts of {name} must be ascending finite numbers of float32, got {list(values)}")
            if not self.joint:
                raise ValueError('cuts need edges = "joint", data by rows and a number as max_bin')
            if len(values) >= int(self.max_bin):
                raise ValueError(
                    f"cuts of {name} must be at most {int(self.max_bin) - 1}, as max_bin says, got {len(values)}"
                )
        if len(set(self.metrics)) < len(self.metrics):
            raise ValueError(f"eval_metric must name different metrics, got {', '.join(self.metrics)}")
        return self

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics evaluated on held-out rows."""
        if isinstance(self.eval_metric, tuple):
            return self.eval_metric
        return (self.eval_metric or self.traits.metrics[0],)

    @property
    def metric(self) -> Metric:
        """The metric for early stopping: the last, as in XGBoost."""
        return self.metrics[-1]

    @property
    def traits(self) -> Traits:
        """The traits of the objective."""
        return TRAITS[self.objective]

    @property
    def power(self) -> float | None:
        """For margins that are logarithms, the power of the mean that the variance is, a multiple of 2^-16; or None."""
        if self.traits.link != "log":
            return None
        return self.traits.power or round(self.tweedie_variance_power * (1 << POWER_SCALE)) / (1 << POWER_SCALE)

    @property
    def log_odds(self) -> bool:
        """True if margins are log-odds."""
        return self.traits.link == "logit"

    @property
    def softmax(self) -> bool:
        """True if the trees of a round are grown on the softmax of all classes."""
        return self.traits.link == "softmax"

    @property
    def scaled(self) -> bool:
        """True if labels are neither classes nor probabilities, and have a magnitude."""
        return self.traits.link in ("identity", "log")

    @property
    def squared(self) -> bool:
        """True if labels are numbers and trees are grown on squared error."""
        return self.objective == "reg:squarederror"

    @property
    def pseudo_huber(self) -> bool:
        """True if trees are grown on the pseudo-Huber loss of numbers, whose slope is the unit of margins."""
        return self.objective == "reg:pseudohubererror"

    @property
    def counts(self) -> bool:
        """True if labels are counts and the margin is the logarithm of the expected count."""
        return self.objective == "count:poisson"

    @property
    def logistic(self) -> bool:
        """True if labels are classes; each tree is grown on logistic loss, for several classes that of one class."""
        return self.traits.classes

    @property
    def classes(self) -> int:
        """Margins of a row: one, or one per class if there are several classes."""
        return self.num_class if self.num_class else 1

    @property
    def trees_of_round(self) -> int:
        """Trees per round: `num_parallel_tree` times one per class. Tree t is of class t modulo `classes`."""
        return self.num_parallel_tree * self.classes

    @property
    def trees(self) -> int:
        """The total number of trees."""
        return self.n_estimators * self.trees_of_round

    @property
    def leaf_rate(self) -> float:
        """The factor of a leaf weight: as in XGBoost, the trees of a round share the learning rate."""
        return self.learning_rate / self.num_parallel_tree

    @property
    def joint(self) -> bool:
        """True if both parties cut bins at the same edges, found over all rows."""
        return self.edges == "joint" and self.partition == "horizontal" and self.max_bin != "exact"

    def searched(self, names: Sequence[str]) -> list[int]:
        """Return the features whose joint edges are searched for: those without cuts, but for indicators."""
        return [f for f, name in enumerate(names) if name not in (self.cuts or {}) and not is_indicator(name)]

    def declares_all(self, names: Sequence[str]) -> bool:
        """Return whether all joint edges follow from `cuts` and the names of features."""
        return bool(self.cuts) and not self.searched(names)

    def finer(self, rows: Sequence[int]) -> int:
        """Bins per edge of each party of `rows`; more than one if the other party's private edges divide the bins."""
        if self.joint or self.partition == "vertical" or self.max_bin == "exact":
            return 1
        if self.local_bins:
            return self.local_bins // self.max_bin
        if max(rows) >= MANY_ROWS:
            return min(FINER, max(FINER_OF_MANY, MANY_BINS // self.max_bin))
        return FINER if self.max_bin <= MANY_BINS else FINER_OF_MANY

    def binning(self, rows: Sequence[int]) -> str:
        """A description, for reports, of the bins that parties of `rows` have."""
        if self.partition == "vertical" or self.max_bin == "exact":
            return f"{self.max_bin} bins"
        if self.joint:
            return f"{self.max_bin} bins with joint edges"
        return f"{self.max_bin} bins with private edges, {self.max_bin * self.finer(rows)} local ones"

    @property
    def _constrained(self) -> bool:
        given = self.monotone_constraints or ()
        return any(given.values() if isinstance(given, dict) else given)

    def directions(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return for each feature whether predictions must rise (1) or fall (-1) with it, or 0. Raises ConfigError."""
        given = self.monotone_constraints
        if not given:
            return (0,) * len(names)
        if isinstance(given, dict):
            if strange := [name for name in given if name not in names]:
                raise ConfigError(f"monotone_constraints: no party has a feature {strange[0]!r}")
            return tuple(given.get(name, 0) for name in names)
        if len(given) != len(names):
            raise ConfigError(
                f"monotone_constraints must have a direction for each of the {len(names)} features of both parties, "
                f"got {len(given)}: give a dict of names"
            )
        return given

    def may_miss(self, name: str) -> bool:
        """Return whether `missing` declares that the feature may have missing values."""
        if isinstance(self.missing, tuple):
            return any(covers(declared, name) for declared in self.missing)
        return self.missing == "all"

    @property
    def nodes(self) -> int:
        """Internal nodes of the full binary tree."""
        return (1 << self.max_depth) - 1

    @property
    def base_margin(self) -> float:
        """A given base_score on the scale of the margin, as the link says."""
        if self.power and self.base_score is not None:
            return ln(self.base_score)
        return super().base_margin


def check_method(method: Method) -> None:
    """Raise ConfigError if predictions by this method cannot have MACs."""
    if method != "thresholds":
        raise ConfigError(f'with MACs the method must be "thresholds", got {method!r}')


def canonical(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Replace aliases by the names of the parameters. Raises ConfigError if a parameter has two values."""
    named = {name: value for name, value in parameters.items() if name not in ALIASES}
    for alias in ALIASES.keys() & parameters.keys():
        name, value = ALIASES[alias], parameters[alias]
        if name in named and named[name] != value:
            raise ConfigError(f"{alias} is an alias of {name}: set only one of them, got {value} and {named[name]}")
        named[name] = value
    return named


Model = TypeVar("Model", bound=BaseModel)
# What pydantic adds to an error's location for each type of a union.
_TYPE = re.compile(r"(literal|lax-or-strict|tuple|dict)\[.*|int|float|str")
# How pydantic's messages begin, and replacements for the rest of them.
_INPUT = "Input should be "
_WORDS = {
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid string": "text",
    "a valid boolean": "true or false",
    "a valid tuple": "a list",
    "a valid dictionary": "a table",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "above",
    "less than": "below",
}
_LONGEST_SHOWN = 60


def validated(schema: type[Model], values: dict[str, Any]) -> Model:
    """Validate plain values as a configuration. Raises ConfigError, which tells all mistakes, each by its parameter."""
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        mistakes: dict[str, list[ErrorDetails]] = {}
        for each in error.errors():
            # A default that depends on a mistaken parameter is no mistake of its own.
            if each["type"] != "default_factory_not_called":
                mistakes.setdefault(_named(each), []).append(each)
        # Nor is a part of a mistaken parameter, which has been tried by every type that it may have.
        whole = [where for where in mistakes if not any(where.startswith(f"{other}.") for other in mistakes)]
        said = [_said(schema, where, mistakes[where]) for where in whole]
        raise ConfigError(said[0] if len(said) == 1 else f"{len(said)} mistakes: {'; '.join(said)}") from None


def _said(schema: type[BaseModel], where: str, errors: list[ErrorDetails]) -> str:
    """Say what is wrong with one parameter."""
    first, name = errors[0], str(errors[0]["loc"][-1]) if errors[0]["loc"] else ""
    if first["type"] == "extra_forbidden" and name in refused.PARAMETERS:
        return f"{where} is not supported: {refused.PARAMETERS[name]}"
    if first["type"] == "extra_forbidden":
        known = [*schema.model_fields, *(ALIASES if issubclass(schema, BoostingConfig) else ())]
        like = difflib.get_close_matches(name, known, 1)
        return f"unknown parameter {where}{f': did you mean {like[0]}?' if like else ''}"
    if first["type"] == "missing":
        return f"{where} must be set"
    if first["msg"].startswith(_INPUT):
        wanted = [_in_words(each["msg"]) for each in errors if each["msg"].startswith(_INPUT)]
        given = repr(first["input"])
        given = given if len(given) <= _LONGEST_SHOWN else given[:_LONGEST_SHOWN] + "..."
        return f"{where} must be {' or '.join(dict.fromkeys(wanted))}, got {given}"
    message = first["msg"].removeprefix("Value error, ")
    return message if message.startswith(where) else f"{where}: {message}"


def _named(error: ErrorDetails) -> str:
    """Return the name of the parameter that an error refers to."""
    return ".".join(str(part) for part in error["loc"] if not _TYPE.fullmatch(str(part)))


def _in_words(message: str) -> str:
    """Extract from a message of pydantic what the value must be, without what is wrong with it."""
    wanted = re.sub(", (got|unable) .*", "", message.removeprefix(_INPUT))
    for theirs, ours in _WORDS.items():
        wanted = wanted.replace(theirs, ours)
    return wanted
