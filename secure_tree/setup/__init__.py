"""On shares, before the first tree: joint edges, orders of categories, base score, margins of an earlier model."""
