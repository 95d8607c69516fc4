"""Figures of a run, from dataclasses to JSON and terminal; progress; comparison with XGBoost and with other runs."""
