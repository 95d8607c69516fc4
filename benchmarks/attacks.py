"""Attacks on the view of one party of a training, the same for every system: the other's labels, values and rows.

Functionality  the view of an attacker, in one of three forms -> how much of the secret it guesses correctly; and the
               same for an attacker without the training
Forms          clues [n, k]: what was seen of each row, in any unit; equations: sums over unknown buckets of rows;
               numbers: what was seen of each column
Scores         `guess_from_few`: share of pairs of rows that are put into the right order, of two classes the AUC; 0.5
               is chance. `share_of_bins`, `share_of_values`: the share of guesses that are right
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import kendalltau
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.metrics import roc_auc_score

from benchmarks.attack_secureboost import Notes, recover

KNOWN, DRAWS, MOST_CLUES = 20, 10, 400


def in_order(truth: np.ndarray, score: np.ndarray) -> float:
    """Return the fraction of pairs with different truths that `score` orders correctly; a tie is half a pair."""
    if len(np.unique(truth)) == 2:
        return float(roc_auc_score(truth, score))
    tau = kendalltau(truth, score).statistic
    return 0.5 if np.isnan(tau) else float(1 + tau) / 2


def guess_from_few(clues: np.ndarray, truth: np.ndarray, seed: int = 0) -> float:
    """Return `in_order` for the other rows, if the attacker knows the truth of KNOWN rows and learns from clues [n, k].

    The mean over DRAWS draws of the known rows. A single clue is the guess itself; without clues it is 0.5.
    """
    if clues.shape[1] < 2:
        return in_order(truth, clues[:, 0]) if clues.shape[1] else 0.5
    rng = np.random.default_rng(seed)
    if clues.shape[1] > MOST_CLUES:
        clues = clues[:, np.sort(rng.choice(clues.shape[1], MOST_CLUES, replace=False))]
    classes = np.unique(truth)
    two = len(classes) == 2
    found = []
    for draw in range(DRAWS):
        if two:
            halves = [rng.choice(np.flatnonzero(truth == each), KNOWN // 2, replace=False) for each in classes]
            known = np.concatenate(halves)
        else:
            known = rng.choice(len(truth), KNOWN, replace=False)
        rest = np.setdiff1d(np.arange(len(truth)), known)
        learner = (ExtraTreesClassifier if two else ExtraTreesRegressor)(100, random_state=draw)
        learner.fit(clues[known], truth[known])
        score = learner.predict_proba(clues[rest])[:, 1] if two else learner.predict(clues[rest])
        found.append(in_order(truth[rest], score))
    return float(np.mean(found))


def share_of_bins(notes: Notes, truth: np.ndarray) -> float:
    """Return the fraction of the rows' bins int[n, columns] that least squares finds from equations, row by row."""
    return float((recover(notes)[0] == truth).mean())


def fullest_bins(truth: np.ndarray) -> float:
    """Return the same for an attacker that knows the fullest bin, and guesses it for every row."""
    return float(np.mean([np.bincount(column).max() / len(column) for column in truth.T]))


def share_of_values(numbers: Sequence[np.ndarray], truth: np.ndarray) -> float:
    """Return the fraction of the numbers seen of each column that are values of float32[n, columns]; 0 without any.

    For a column, an attacker guesses at most as many numbers as there are rows: those that it saw most often.
    """
    right = named = 0
    for seen, column in zip(numbers, truth.T, strict=True):
        values, count = np.unique(seen.astype(np.float32), return_counts=True)
        chosen = values[np.argsort(-count, kind="stable")[: len(column)]]
        right, named = right + np.isin(chosen, column).sum(), named + len(chosen)
    return float(right / max(named, 1))


def words_of_rows(received: Sequence[bytes], rows: int) -> np.ndarray:
    """Return clues from messages with a word of 64 bits, or a bit, for each of `rows` rows: float64[rows, k]."""
    clues = [np.zeros((0, rows))]
    for data in received:
        if data and len(data) % (8 * rows) == 0:
            clues.append(np.frombuffer(data, np.int64).reshape(-1, rows) / 2.0**63)
        elif len(data) == -(-rows // 8):
            clues.append(np.unpackbits(np.frombuffer(data, np.uint8))[None, :rows].astype(float))
    return np.concatenate(clues).T


def words_as_sums(received: Sequence[bytes], like: Notes) -> Notes:
    """Return equations with the coefficients of `like`, and with received words as sums, in order and of equal size."""
    sums = np.stack(like.sums)
    words = np.frombuffer(b"".join(data[: len(data) // 8 * 8] for data in received), np.int64)
    if len(words) < sums.size:
        raise ValueError(f"the attack needs {sums.size} words, {len(words)} were received")
    # The last ones, because trees come after the set-up.
    scaled = (words[-sums.size :] / 2.0**63 * np.abs(sums).max()).reshape(sums.shape)
    return Notes(like.coefficients, list(scaled))


def words_as_values(received: Sequence[bytes], own: np.ndarray) -> list[np.ndarray]:
    """Return, for each column, the received words that are a float32 in the range of one's own values."""
    words = np.frombuffer(b"".join(data[: len(data) // 4 * 4] for data in received), np.float32)
    return [words[(words >= column.min()) & (words <= column.max())] for column in own.T]
