"""Owners and clients who are no party: contributing, collecting, withdrawing rows, asking for predictions."""
