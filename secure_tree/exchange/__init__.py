"""Models into and out of shares: plain models, and XGBoost's JSON."""
