"""The twin: the same bins and rules on plain numbers, the split search in the same integers, the rest in float64."""
