"""The estimators' conventions: parameters, scikit-learn's and XGBoost's attributes, progress in a notebook."""
