"""Logistic regression on shares: each party has rows of one table, and both learn only the weights."""

import numpy as np
from sklearn.datasets import load_breast_cancer

from mpc.functions.sigmoid import sigmoid
from mpc.rounding.truncation import truncate
from mpc.shares import concatenate, public_ring
from protocols.runtime import run_local

SCALE, STEPS, RATE = 20, 30, 1.0


def table():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return np.column_stack([X, np.ones(len(X))]), y[:, None].astype(float)


def job(party):
    def rows(values, owner):
        """Share the rows of one party: the first 300, or the others."""
        own = values[:300] if owner == 0 else values[300:]
        return party.share(own if party.rank == owner else None, owner=owner, scale=SCALE)

    X, y = (concatenate([rows(values, owner) for owner in (0, 1)]) for values in table())
    w = public_ring(np.zeros((X.shape[1], 1)), party.rank, SCALE)
    for _ in range(STEPS):
        margin = truncate(party, X @ w, SCALE)  # scales add: 20 + 20, and back to 20
        p, _ = sigmoid(party, margin, SCALE)
        gradient = truncate(party, X.T @ (p - y), SCALE)
        w = w - gradient / (len(X) / RATE)
    return party.reveal(w, what="the weights")


def in_the_clear():
    X, y = table()
    w = np.zeros((X.shape[1], 1))
    for _ in range(STEPS):
        w -= RATE * X.T @ (1 / (1 + np.exp(-X @ w)) - y) / len(X)
    return w


if __name__ == "__main__":
    weights, _ = run_local(job)
    print("largest difference from the same steps in the clear:", abs(weights - in_the_clear()).max())
