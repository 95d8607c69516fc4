"""Models into and out of shares: plain models, XGBoost's JSON, and models of other libraries."""
