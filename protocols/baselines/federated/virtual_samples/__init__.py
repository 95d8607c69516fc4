"""Federated XGBoost over virtual samples: clusters of rows stand for the rows (Yang et al., 2019)."""
