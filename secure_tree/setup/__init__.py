"""On shares, before the first tree: joint edges, orders of categories, the base score, the margins of an earlier model."""
