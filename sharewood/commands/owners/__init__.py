"""Rows of owners who are no party: contributing, collecting, withdrawing."""
