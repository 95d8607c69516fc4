"""`sharewood export --format scorecard`. tests/secure_tree/exchange has the formats themselves."""

from dataclasses import replace

import numpy as np
import pandas as pd

from secure_tree.exchange.scorecard import scorecard
from sharewood.commands.local.export import export
from tests.secure_tree.exchange.test_scorecard import MODEL
from tests.sharewood.commands.hosting import complaint


def test_a_scorecard_as_a_table(tmp_path):
    model = replace(MODEL, names=("=income", "age, years", "unused"))
    model.save(tmp_path / "m.npz")
    export(tmp_path / "m.npz", tmp_path / "card.csv", "scorecard", odds=20, double=30, digits=1)
    written = pd.read_csv(tmp_path / "card.csv", keep_default_na=False, na_values=[""])
    expected = scorecard(model, odds=20, double=30)
    assert set(written["feature"].dropna()) == {"'=income", "age, years"}
    assert written["points"].tolist() == expected["points"].round(1).tolist()
    for column in ("from", "to"):
        assert np.array_equal(written[column], expected[column], equal_nan=True)


def test_an_unknown_format_is_refused(tmp_path, monkeypatch, capsys):
    paths = ["--model", tmp_path / "m.npz", "--out", tmp_path / "card.csv"]
    assert "--format must be xgboost or scorecard, got 'pmml'" in complaint(
        monkeypatch, capsys, "export", *paths, "--format", "pmml"
    )
