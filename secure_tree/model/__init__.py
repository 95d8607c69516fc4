"""A model as shares: its arrays, one party's half of it, and that half as a file."""
