"""Tables of the federated experiments: public sets beside the checkout, and a table of rare positives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from mpc.errors import DataError
from sharewood.tables.columns import Columns
from sharewood.tables.tables import check_classes, read_table

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
CLASS_LABELS = {"cod_rna": "y"}
REGRESSION_LABELS = {"abalone": "Rings", "cpu_small": "usr", "space_ga": "target"}
CREDITCARD = ["Time", *(f"V{i}" for i in range(1, 29)), "Amount"]


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Read a9a, cod_rna, abalone, cpu_small, space_ga or default_credit: features float32[n, d], labels float64[n].

    "a9a+a9a.t" are the 32,561 rows of a9a and the 16,281 of its test file.
    """
    if name in ("a9a", "a9a+a9a.t"):
        from sklearn.datasets import load_svmlight_files

        parts = load_svmlight_files([DATA / "federated" / file for file in name.split("+")], n_features=123)
        X, y = (np.concatenate(part) for part in ([x.toarray() for x in parts[::2]], parts[1::2]))
        return X.astype(np.float32), (y > 0).astype(np.float64)
    if name == "default_credit":
        parts = [f"default_credit_homo_{part}.csv" for part in ("guest", "host_1", "host_2", "test")]
        table = pd.concat([pd.read_csv(DATA / "homo" / part) for part in parts]).drop(columns="id")
        labels = table.pop("y")
    else:
        table = pd.read_csv(DATA / "federated" / f"{name}.csv")
        labels = table.pop((CLASS_LABELS | REGRESSION_LABELS)[name])
    if "Sex" in table:
        table["Sex"] = table["Sex"].map({"M": 0, "F": 1, "I": 2})
    return table.to_numpy(np.float32), labels.to_numpy(np.float64)


def load_creditcard(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read the Kaggle credit card table from the user's own copy: 284,807 x 30, label `Class`. Raises DataError."""
    columns = Columns.inferred("Class")
    rows = read_table(path, columns)
    table, labels = rows.features, rows.labels
    if list(table) != CREDITCARD:
        raise DataError(f"{path}: the columns must be Time, V1 to V28, Amount and Class")
    assert labels is not None, "read_table gives labels where it is asked for them"
    check_classes(path, columns, labels)
    return table.to_numpy(np.float32), labels


def rare_positives(
    rows: int = 100_000, features: int = 30, positive_rate: float = 0.002, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Make a table that resembles card fraud: float32[rows, features], with exactly round(rows * positive_rate) ones.

    Negatives have independent features, all standard normal in steps of 0.001 except the last two, which represent a
    time (uniform over a day, in minutes) and an amount (log-normal, in steps of 0.1). Positives come in three kinds of
    equal weight; each kind shifts its own six of the first `features - 2` features by a normal amount of mean +-3.5 and
    deviation 1, and one in ten positives is not shifted at all, so that no model finds every one of them.
    """
    rng = np.random.default_rng((20_260_000, seed))
    X = rng.normal(size=(rows, features))
    X[:, -2] = rng.uniform(0, 1440, rows).round()
    X[:, -1] = np.exp(rng.normal(3, 1.2, rows)).round(1)
    y = np.zeros(rows)
    positive = rng.choice(rows, round(rows * positive_rate), replace=False)
    y[positive] = 1
    directions = np.zeros((3, features - 2))
    for direction in directions:
        chosen = rng.choice(features - 2, 6, replace=False)
        direction[chosen] = rng.choice([-1.0, 1.0], 6)
    kinds = directions[rng.integers(3, size=len(positive))] * (rng.random((len(positive), 1)) >= 0.1)
    X[positive, :-2] += kinds * rng.normal(3.5, 1, (len(positive), 1))
    X[:, :-2] = X[:, :-2].round(3)
    return X.astype(np.float32), y
