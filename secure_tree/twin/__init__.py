"""The plaintext twin: the same bins and rules, a split search on the same integers, and float64 for the rest."""
