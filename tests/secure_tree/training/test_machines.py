"""Two processes that emulate different processors: other kernels of BLAS, numpy and numba at one party."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
from sklearn import metrics

from protocols.transport.certificates import make_credentials
from tests.ports import free_port
from tests.secure_tree.training.machine import CASES, NAMES, part, table

HERE = {"OPENBLAS_CORETYPE": "Haswell"}
ELSEWHERE = {
    "OPENBLAS_CORETYPE": "Nehalem",
    "NPY_DISABLE_CPU_FEATURES": " ".join(name for name in __cpu_dispatch__ if __cpu_features__[name]),
}


def between(cases, folder, *environments):
    """Return the curve and the margins of all held-out rows of each case, trained between two such processes."""
    for name, credentials in make_credentials(NAMES).items():
        credentials.save(folder, name)
    port = str(free_port())
    command = [sys.executable, "-m", "tests.secure_tree.training.machine"]
    ends = [
        subprocess.Popen(
            [*command, str(rank), port, str(folder), *cases],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, environment in enumerate(environments)
    ]
    said = [end.communicate(timeout=500) for end in ends]
    assert [end.returncode for end in ends] == [0, 0], [errors[-2000:] for _, errors in said]
    told = [json.loads(out) for out, _ in said]
    for case, (curve, first), (other, second) in zip(cases, *told, strict=True):
        assert curve == other
        yield case, curve, np.concatenate([np.array(m) for m in (first, second) if m])


def quality(parameters, y, margins):
    """Return scikit-learn's metric of these margins and of the best constant."""
    name = parameters["eval_metric"]
    if name in ("rmse", "mae"):
        measure = metrics.root_mean_squared_error if name == "rmse" else metrics.mean_absolute_error
        values = np.exp(margins) if parameters["objective"] == "count:poisson" else margins
        return measure(y, values), measure(y, np.full(y.size, y.mean()))
    each = 1 / (1 + np.exp(-margins))
    if "num_class" in parameters:
        share = np.bincount(y.astype(int)) / y.size
        if name == "auc":
            normalised = each / each.sum(axis=1, keepdims=True)
            return np.average([metrics.roc_auc_score(y == k, normalised[:, k]) for k in range(3)], weights=share), 0.5
        if name == "error":
            return (margins.argmax(axis=1) != y).mean(), 1 - share.max()
        return metrics.log_loss(y, each / each.sum(axis=1, keepdims=True)), metrics.log_loss(
            y, np.tile(share, (120, 1))
        )
    if name == "auc":
        return metrics.roc_auc_score(y, margins), 0.5
    if name == "error":
        return ((each > parameters["eval_threshold"]) != y).mean(), min(y.mean(), 1 - y.mean())
    return metrics.log_loss(y, each), metrics.log_loss(y, np.full(y.size, y.mean()))


def check(cases, folder, *environments):
    for case, curve, margins in between(cases, folder, *environments):
        parameters = CASES[case]
        X, y = table(2, parameters)
        exact, constant = quality(parameters, y, margins)
        ((rounds, told),) = curve
        assert rounds == 3 and abs(told - exact) < 5e-3 * max(1, exact), (case, told, exact)
        better = told > constant if parameters["eval_metric"] == "auc" else told < constant
        assert better, (case, told, constant)
        assert margins.shape[0] == len(part(0, X, y, parameters)[0]) + (70 if "partition" not in parameters else 0)


def test_other_kernels_at_the_other_party_change_nothing(tmp_path):
    check(["counts rmse", "classes logloss"], tmp_path, HERE, ELSEWHERE)


@pytest.mark.long
def test_every_objective_and_metric_between_other_kernels(tmp_path):
    # numba also compiles for a processor without fused multiply-add at this party.
    generic = {
        **ELSEWHERE,
        "NUMBA_CPU_NAME": "sandybridge",
        "NUMBA_CPU_FEATURES": "+aes",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    check(list(CASES), tmp_path, HERE, generic)
