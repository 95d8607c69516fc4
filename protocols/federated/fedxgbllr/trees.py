"""Local XGBoost ensembles, and what each of their trees says of a row."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from mpc.errors import ProtocolDesync
from protocols.federated.fedxgbllr.config import FedXGBllrConfig


def fit_ensemble(X: np.ndarray, y: np.ndarray, trees: int, config: FedXGBllrConfig) -> bytes:
    """One client's ensemble on float32[n, d] and float[n] labels, as XGBoost's UBJ.

    The base margin is zero, so that the sum of the trees is the whole prediction. Under reg:squarederror the labels
    are standardised already.
    """
    import xgboost as xgb

    parameters = {
        "objective": config.objective,
        "max_depth": config.max_depth,
        "eta": config.eta,
        "alpha": config.reg_alpha,
        "gamma": config.min_split_loss,
        "subsample": config.subsample,
        "base_score": 0.5 if config.classification else 0.0,
        "seed": config.seed,
        "nthread": 1,
    }
    return bytes(xgb.train(parameters, xgb.DMatrix(X, label=y, nthread=1), trees).save_raw("ubj"))


def tree_outputs(ensembles: Sequence[bytes], X: np.ndarray) -> np.ndarray:
    """float32[n, d] -> float32[n, sum of trees]: the leaf weight eta f_t(x) of every tree, ensembles in order.

    Raises ProtocolDesync for bytes that are no ensemble of tables of this width.
    """
    return np.concatenate([_outputs_of(ensemble, X) for ensemble in ensembles], axis=1)


def _outputs_of(ensemble: bytes, X: np.ndarray) -> np.ndarray:
    import xgboost as xgb

    booster = xgb.Booster({"nthread": 1})
    try:
        booster.load_model(bytearray(ensemble))
        # XGBoost itself takes rows that are narrower or wider than those of the training.
        if booster.num_features() != X.shape[1]:
            raise ValueError("another number of features")
        leaves = booster.predict(xgb.DMatrix(X, nthread=1), pred_leaf=True, strict_shape=True)
        model = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]
    except (xgb.core.XGBoostError, ValueError, KeyError):
        raise ProtocolDesync(f"a received ensemble is no XGBoost model of {X.shape[1]} features") from None
    # XGBoost keeps the weight of a leaf in the place of its split condition.
    weights = [np.asarray(tree["split_conditions"], np.float32) for tree in model["trees"]]
    leaf = leaves.reshape(len(X), len(weights)).astype(np.intp)
    return np.stack([table[leaf[:, t]] for t, table in enumerate(weights)], axis=1)
