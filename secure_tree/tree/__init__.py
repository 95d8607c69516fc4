"""One tree on shares, in the order of the data flow: gradients, histogram, candidates, score, pruning, weights."""
