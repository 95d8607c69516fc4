"""Products with matrices: known to one party, fixed over many vectors, or shared."""
