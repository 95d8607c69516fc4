"""Comparisons: signs and orders, all pairs, maxima, quantiles; words to bits (A2B) and bits to words (B2A)."""
