"""The worked example of the chapter on SecureBoost: three parties, one tree, and the path of one row through it.

    python examples/secureboost/chapter.py

A securities firm, the guest, knows which companies turned out to be a credit risk (label 1), their kind and their
size; host 1 knows their registered capital, host 2 where they are registered and how many years they have been in
business (table 3-2-1). The rows are constructed so that training finds the tree of figure 3-2-2: the guest splits the
root at a size of 45,000 employees, host 1 the smaller companies by capital, host 2 those with more by years.
"""

import numpy as np
import pandas as pd

from protocols.baselines.secureboost import Guest, Host, SecureBoostConfig
from protocols.runtime.processes import run_processes

CONFIG = SecureBoostConfig.of(n_estimators=1, max_depth=3, learning_rate=1, min_child_weight=0, encryption="ou")
COLUMNS = {
    "guest": ["kind", "size"],
    "host_1": ["capital"],  # ten thousand yuan
    "host_2": ["region", "years"],
}
# kind, size, capital, region, years; label
ROWS = [
    ((0, 800, 310, 1, 12), 1),
    ((1, 9_400, 500, 0, 9), 1),
    ((2, 12_000, 870, 2, 15), 1),
    ((0, 21_000, 1_500, 2, 6), 1),
    ((1, 38_200, 990, 0, 8), 1),
    ((2, 43_100, 1_950, 1, 10), 1),
    ((0, 7_700, 2_000, 0, 1), 1),
    ((1, 30_500, 4_100, 1, 2), 1),
    ((2, 41_000, 2_600, 2, 4), 1),
    ((0, 2_150, 2_900, 1, 5), 0),
    ((1, 16_800, 3_600, 0, 8), 0),
    ((2, 26_400, 5_200, 2, 11), 0),
    ((0, 36_000, 2_300, 0, 7), 0),
    ((0, 45_000, 420, 0, 2), 0),
    ((1, 52_000, 1_800, 2, 4), 0),
    ((2, 60_500, 3_300, 1, 1), 0),
    ((0, 77_000, 700, 0, 10), 0),
    ((1, 83_000, 1_200, 1, 3), 0),
    ((2, 91_000, 2_200, 2, 7), 0),
    ((0, 120_000, 5_900, 1, 14), 0),
    ((1, 150_000, 640, 2, 6), 0),
]
# The row of the chapter: 23,632 employees, a capital of 31.28 million yuan, 7 years in business.
NEW = (1, 23_632, 3_128, 0, 7)


def table(party: str, rows: list[tuple]) -> pd.DataFrame:
    """The columns of a party."""
    everything = pd.DataFrame(rows, columns=[name for names in COLUMNS.values() for name in names], dtype=float)
    return everything[COLUMNS[party]]


def guest(channels):
    party = Guest(channels)
    model = party.train(CONFIG, table("guest", [row for row, _ in ROWS]), np.array([label for _, label in ROWS]))
    [predicted] = party.predict(model, table("guest", [NEW]), by="majority")
    return {"owners": model.ensemble.trees[0].owner, "splits": _splits(model), "predicted": int(predicted)}


def host(name: str):
    def play(channels):
        party = Host(channels["guest"])
        model = party.train(table(name, [row for row, _ in ROWS]))
        party.predict(model, table(name, [NEW]))
        return _splits(model)

    return play


def _splits(model) -> list[tuple[str, float]]:
    records = model.records
    return [(model.names[c], threshold) for c, threshold in zip(records.column, records.threshold, strict=True)]


def run() -> dict:
    """What each party keeps of the tree, and the label that the guest predicts for the new row."""
    kept = run_processes({"guest": guest, "host_1": host("host_1"), "host_2": host("host_2")})
    return {**kept["guest"], "host_1": kept["host_1"], "host_2": kept["host_2"]}


if __name__ == "__main__":
    found = run()
    for name, splits in {"guest": found["splits"], "host_1": found["host_1"], "host_2": found["host_2"]}.items():
        print(f"{name} splits at {', '.join(f'{column} < {threshold:,.0f}' for column, threshold in splits)}")
    print(f"the majority label of the new row's leaf is {found['predicted']}")
