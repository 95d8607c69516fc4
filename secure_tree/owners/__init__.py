"""Owners who are no party: they contribute rows in halves, one for each party, and leave."""
