"""Secure gradient-boosted trees: the estimators and the modules that implement them."""

from secure_tree.estimator import SecureXGBClassifier, SecureXGBRegressor

__all__ = ["SecureXGBClassifier", "SecureXGBRegressor"]
