"""The keyword parameters of the estimators, made of the fields of TrainConfig: signature, docstring, table."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from textwrap import wrap
from typing import Any, ClassVar, Literal, Self, TypeVar, get_args, get_origin

from mpc.errors import ConfigError
from secure_tree.public.config import TrainConfig, canonical

_FEW = 3
Function = TypeVar("Function", bound=Callable[..., None])


def _more(name: str, key: str) -> str:
    more: Any = TrainConfig.model_fields[name].json_schema_extra
    return more[key]


def _ordered() -> list[str]:
    """Return the names of the parameters in the order of the signature."""
    names: list[str] = []
    place = 0
    for name in TrainConfig.model_fields:
        place = names.index(after) + 1 if (after := _more(name, "after")) else place
        names.insert(place, name)
        place += 1
    return names


# The defaults of the estimators, in order; None stands for one that depends on objective or estimator.
DEFAULTS: dict[str, Any] = {
    name: None if field.default_factory or name == "objective" else field.default
    for name, field in ((name, TrainConfig.model_fields[name]) for name in _ordered())
}


def with_parameters(init: Function) -> Function:
    """Give `__init__(self, **given)` a signature with every parameter as a keyword; a decorator."""
    keywords = [Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in DEFAULTS.items()]
    own, aliases = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), Parameter("aliases", Parameter.VAR_KEYWORD)
    vars(init)["__signature__"] = inspect.Signature([own, *keywords, aliases])
    return init


def _type(annotation: Any) -> list[str]:
    """Return words for the alternatives of a type, such as "int" and "list of str"."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if annotation is type(None):
        return []
    if origin is Literal and isinstance(parts[0], str) and len(parts) <= _FEW:
        return [f'"{part}"' for part in parts]
    if origin is Literal:
        return [type(parts[0]).__name__]
    if origin is tuple:
        return [f"list of {_type(parts[0])[0]}"]
    if origin is dict or not parts:
        return [(origin or annotation).__name__]
    return [word for part in (parts[:1] if hasattr(annotation, "__metadata__") else parts) for word in _type(part)]


def _described(name: str) -> tuple[str, str]:
    """Return the type of a parameter in words, and its description in one line."""
    field = TrainConfig.model_fields[name]
    *most, last = _type(field.annotation)
    kind = f"{', '.join(most)} or {last}" if most else last
    return kind + ", optional" * (DEFAULTS[name] is None), " ".join((field.description or "").split())


def section() -> str:
    """Return the section `Parameters` of an estimator's docstring, in numpydoc's form."""
    lines = ["Parameters", "----------"]
    for name, default in DEFAULTS.items():
        kind, text = _described(name)
        elsewhere = _more(name, "xgboost")
        beside = "" if elsewhere in ("-", _shown(default)) else f" (XGBoost: {elsewhere})"
        lines.append(f"{name} : {kind}, default {_shown(default)}{beside}")
        lines += [f"    {line}" for line in wrap(text, 96)]
    return "\n".join(lines)


def markdown() -> str:
    """Return the same section as a table for docs/secure_tree.md."""
    rows = [f"| `{n}` | {_shown(v)} | {_more(n, 'xgboost')} | {_described(n)[1]} |" for n, v in DEFAULTS.items()]
    return "\n".join(["| parameter | default | XGBoost's | |", "|---|---|---|---|", *rows])


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


Class = TypeVar("Class", bound=type)


def documented(cls: Class) -> Class:
    """Append the section `Parameters` to the docstring of an estimator; a class decorator."""
    cls.__doc__ = inspect.cleandoc(cls.__doc__ or "") + "\n\n" + section()
    return cls


class Parametrised:
    """Base of objects whose `__init__` has the parameters of TrainConfig as keywords, validated when they are set."""

    objectives: ClassVar[tuple[str, ...]]
    other: ClassVar[str]

    def _hold(self, given: dict[str, Any]) -> None:
        """Store the keywords of `__init__` unchanged, as scikit-learn's `clone` requires."""
        vars(self).update({**self._defaults(), **self._named(given)})
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
