"""A guest and hosts as processes, the plaintext twin of a run, and the shared data sets."""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from protocols.baselines.secureboost import Guest, Host
from protocols.baselines.secureboost.boost import boost
from protocols.baselines.secureboost.columns import bin_columns
from protocols.baselines.secureboost.owners import OwnColumns, OwnRouter
from protocols.baselines.secureboost.tree import LEAF
from protocols.runtime.processes import run_processes

HETERO = Path(__file__).parents[5] / "shared" / "data" / "hetero"
QUICK = {"encryption": "ou", "key_bits": 1024}


def run(config, blocks, y, *, by="weight", timeout=300):
    """Run a guest with the first block of columns and a host for each other block.

    Returns prediction, splits, host columns and sizes.
    """

    def guest(channels):
        party = Guest(channels)
        model = party.train(config, blocks[0], y)
        predicted = party.predict(model, blocks[0], by=by)
        trees = [(tree.owner, tree.record, tree.weight) for tree in model.ensemble.trees]
        return {"predicted": predicted, "trees": trees, "records": kept(model)}

    def host(block):
        def play(channels):
            party = Host(channels["guest"])
            model = party.train(block)
            party.predict(model, block)
            return {"records": kept(model)}

        return play

    roles = {"guest": guest, **{f"host_{i}": host(block) for i, block in enumerate(blocks[1:], 1)}}
    results = run_processes(roles, timeout=timeout)
    records = [results[name]["records"] for name in roles]
    widths = [np.shape(block)[1] for block in blocks]
    return results["guest"]["predicted"], named_splits(results["guest"]["trees"], records, widths)


def kept(model):
    return model.records.column, model.records.threshold, model.records.missing_left


def named_splits(trees, records, widths):
    """Return for every tree a line per node: (joined column, threshold, missing left), or (weight,) for a leaf."""
    offsets = np.cumsum([0, *widths])
    out = []
    for owner, record, weight in trees:
        lines = []
        for o, r, w in zip(owner, record, weight, strict=True):
            if o == LEAF:
                lines.append((float(w),))
            else:
                column, threshold, missing_left = (part[r] for part in records[o])
                lines.append((int(offsets[o]) + column, threshold, missing_left))
        out.append(lines)
    return out


def twin(config, blocks, y):
    """Run the same training in the clear, on blocks of columns; return prediction and splits as `run` does."""
    owners = [OwnColumns(bin_columns(np.asarray(block, np.float32), config.max_bin)) for block in blocks]
    ensemble = boost(config, np.asarray(y, float), owners)
    routers = [OwnRouter(o.records, np.asarray(b, np.float32)) for o, b in zip(owners, blocks, strict=True)]
    trees = [(tree.owner, tree.record, tree.weight) for tree in ensemble.trees]
    records = [(o.records.column, o.records.threshold, o.records.missing_left) for o in owners]
    widths = [np.shape(block)[1] for block in blocks]
    return ensemble.predict(routers, len(y)), named_splits(trees, records, widths)


@cache
def hetero(name):
    """Return (guest columns, host columns, labels) of a shared data set, in id order. Skip the test if it is absent."""
    if not HETERO.is_dir():
        pytest.skip("the shared data sets are not next to this checkout")
    guest, host = (pd.read_csv(HETERO / f"{name}_hetero_{role}.csv").set_index("id") for role in ("guest", "host"))
    ids = guest.index.intersection(host.index).sort_values()
    guest, host = guest.loc[ids], host.loc[ids]
    return guest.drop(columns="y"), host, guest["y"].to_numpy(float)
