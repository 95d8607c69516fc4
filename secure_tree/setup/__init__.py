"""On shares, before the first tree: joint edges, the base score, the margins of an earlier model."""
