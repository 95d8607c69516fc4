"""Correlated randomness by the two parties themselves (`offline="pairwise"`), and material made ahead, in files."""
