"""Reasons for predictions: each feature's contribution to the margin, or the names of the strongest."""
