"""Secure gradient-boosted trees: the estimators and what they are made of."""

from secure_tree.estimator import SecureXGBClassifier, SecureXGBRegressor

__all__ = ["SecureXGBClassifier", "SecureXGBRegressor"]
