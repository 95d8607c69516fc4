"""Rounds of trees: plans, stages, evaluation on held-out rows, early stopping, checkpoints, cost."""
