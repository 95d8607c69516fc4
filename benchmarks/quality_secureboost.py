"""Compare SecureBoost, its plaintext twin and XGBoost on the training rows of the shared vertical data sets.

    python -m benchmarks.quality_secureboost [breast student default_credit]

Twenty trees of depth 3, 32 bins, learning rate 0.3, Okamoto-Uchiyama with 2048-bit keys, guest_only "none".
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score, root_mean_squared_error
from xgboost import XGBClassifier, XGBRegressor

from benchmarks.program import parse
from protocols.baselines.secureboost import SecureBoostConfig
from tests.protocols.baselines.secureboost.parties import hetero, run, twin

OBJECTIVES = {"breast": "binary:logistic", "student": "reg:squarederror", "default_credit": "binary:logistic"}
SHARED = {"max_depth": 3, "learning_rate": 0.3, "max_bin": 32, "min_child_weight": 1}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=list(OBJECTIVES))
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--rows", type=int, help="use at most these first rows of a set")
    options = parse(parser, arguments, sets=["breast"], trees=1, rows=60)
    parameters = {**SHARED, "n_estimators": options.trees}
    table = Table("set", "rows", "measure", "SecureBoost", "twin", "XGBoost", "trees equal the twin's")
    for name in options.sets:
        guest, host, y = (np.asarray(part)[: options.rows] for part in hetero(name))
        joined = np.hstack([guest, host])
        objective = OBJECTIVES[name]
        config = SecureBoostConfig.of(objective=objective, guest_only="none", encryption="ou", **parameters)
        predicted, splits = run(config, [guest, host], y, timeout=3600)
        expected, twin_splits = twin(config, [joined], y)
        if config.classifies:
            measure, score = "AUC", roc_auc_score
            plain = XGBClassifier(**parameters, base_score=0.5).fit(joined, y).predict_proba(joined)[:, 1]
        else:
            measure, score = "RMSE", root_mean_squared_error
            plain = XGBRegressor(**parameters, base_score=0.5).fit(joined, y).predict(joined)
        scores = (f"{score(y, values):.6f}" for values in (predicted, expected, plain))
        table.add_row(name, str(len(y)), measure, *scores, "yes" if splits == twin_splits else "no")
    Console().print(table)


if __name__ == "__main__":
    main()
