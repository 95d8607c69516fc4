"""Secure gradient-boosted trees: the estimators and the modules that implement them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from secure_tree.estimator import SecureXGBClassifier, SecureXGBRegressor

__all__ = ["SecureXGBClassifier", "SecureXGBRegressor"]


def __getattr__(name: str) -> Any:
    """Import an estimator when it is first used: a client of a service needs numpy only."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from secure_tree import estimator

    return getattr(estimator, name)
