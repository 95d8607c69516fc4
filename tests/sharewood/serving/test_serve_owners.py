"""Services of models that have columns, or labels, of owners who are no party: clients ask, or a party by its rows."""

import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError
from mpc.shares import AShare
from protocols.testing import run_both
from secure_tree.data.bins import keys_of
from secure_tree.prediction.answering import released_margins
from secure_tree.prediction.client import divide
from secure_tree.prediction.predict import cost_of_rows, fix_model
from secure_tree.twin.boost import PlainEnsemble
from sharewood.client import Client
from sharewood.job.config import HostsConfig
from sharewood.serving.service import Service
from tests.secure_tree.opened import train_both
from tests.sharewood.commands.hosting import write_job
from tests.sharewood.serving.test_serve import records
from tests.sharewood.serving.test_serve_clients import NAMES, check_errors, ready, served

PARAMETERS = {
    "n_estimators": 3, "max_depth": 3, "max_bin": 8, "partition": "vertical", "learning_rate": 0.5, "missing": ("x",)
}  # fmt: skip
PARTIES = (["u"], ["v"])


def people(n, seed):
    frame = pd.DataFrame(np.random.default_rng(seed).normal(size=(n, 5)).astype(np.float32), columns=list("uvwxy"))
    frame.loc[::6, "x"] = np.nan
    return frame, (frame[["u", "w", "y"]].sum(axis=1) + frame["x"].fillna(1) > 0).astype(float).to_numpy()


@pytest.fixture(scope="module")
def trainings(tmp_path_factory):
    """Train with columns of bank_c and labels of bank_d, and with labels only of bank_d; return sections and the truth
    about 70 further rows.
    """
    frame, y = people(120, 1)
    new, _ = people(70, 2)
    made = {}
    for kind, given in (("columns", list("wx")), ("labels", None)):
        folder = tmp_path_factory.mktemp(kind)
        owners = {"bank_d": (frame[["y"]] if given else frame[[]], y)}
        if given:
            owners["bank_c"] = frame[given], None
        tables = [frame[own if given else own + more] for own, more in zip(PARTIES, (["w"], ["x", "y"]), strict=True)]
        training = train_both(tuple(tables), (None, None), owners=owners, **PARAMETERS)
        for rank, model in enumerate(training.models):
            model.save(folder / f"{rank}.npz")
        names = training.models[0].model.facts.names
        plain = PlainEnsemble(training.data, training.config, training.twins(), np.zeros(0), float(training.base[0]))
        truth = 1 / (1 + np.exp(-plain.predict_margin(new[list(names)].to_numpy())))
        sections = {name: {"model": str(folder / f"{rank}.npz")} for rank, name in enumerate(NAMES)}
        made[kind] = sections, new, truth, training.models
    return made


def refused(http, urls, sentence):
    """Rows that a party has are refused at both services, whatever is sent, and their schemas say so."""
    for url in urls:
        for body in ({"rows": [{"id": "p0", "u": 1.0}]}, {"rows": 7}, []):
            answer = http.post(f"{url}/v1/predict", json=body)
            assert (answer.status_code, answer.json()) == (404, {"detail": sentence})
        operation = http.get(f"{url}/openapi.json").json()["paths"]["/v1/predict"]["post"]
        assert operation["description"] == sentence and list(operation["responses"]) == ["404"]


@pytest.mark.parametrize("pairwise", [False, pytest.param(True, marks=pytest.mark.long)])
def test_clients_are_answered_by_a_model_with_columns_of_owners(trainings, tmp_path, pairwise):
    sections, frame, truth, _ = trainings["columns"]
    urls = served(tmp_path, sections, pairwise=pairwise)
    with ready(tmp_path, urls, pairwise) as (_, http), Client(tmp_path / "client.toml") as client:
        for count in (1, 3, 70):
            np.testing.assert_allclose(client.predict_proba(frame[:count])[:, 1], truth[:count], atol=1e-3)
        refused(
            http,
            [urls[name] for name in NAMES],
            "the model has columns of bank_c, bank_d, which no party has, so only clients who send halves of rows with "
            "all features are answered",
        )
        check_errors(client, http, urls, frame[list(client.offer().names)], truth)
        np.testing.assert_allclose(client.predict_proba(frame)[:, 1], truth, atol=1e-3)


@pytest.mark.parametrize("mac", [False, True], ids=["", "macs"])
def test_labels_of_an_owner_need_a_receiver(trainings, tmp_path, mac):
    sections, frame, truth, _ = trainings["labels"]
    ids = [f"p{k}" for k in range(len(frame))]
    frame[["v", "x", "y"]].assign(id=ids)[::-1].to_csv(tmp_path / "b.csv", index=False)
    schema = 'id = "id"\nv = "numeric"\nx = { type = "numeric", missing = true }\ny = "numeric"\n'
    (tmp_path / "schema.toml").write_text(schema)
    sections = {**sections, "party_b": {**sections["party_b"], "predict_data": "b.csv", "columns": "schema.toml"}}
    urls = served(tmp_path, sections, halves=not mac, predict={"to": "party_a", "mac": mac})
    rows = [{"id": one, **row} for one, row in zip(ids, records(frame[["u", "w"]]), strict=True)]
    with ready(tmp_path, urls) as (_, http):
        got = http.post(f"{urls['party_a']}/v1/predict", json={"rows": rows}).json()["predictions"]
        np.testing.assert_allclose(got, truth, atol=1e-3)
        refused(http, [urls["party_b"]], "party_a learns the predictions: send rows to its service")
        if not mac:
            with Client(tmp_path / "client.toml") as client:
                np.testing.assert_allclose(client.predict_proba(frame)[:, 1], truth, atol=1e-3)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("columns", "the model has columns of bank_c, bank_d, which no party has, so only clients who send halves"),
        ("labels", "an owner had the labels, and predict.to names no party, so only clients who send halves"),
    ],
)
def test_models_that_answer_clients_only(trainings, tmp_path, kind, sentence):
    write_job(tmp_path, trainings[kind][0], serve={"halves": False})
    with pytest.raises(ConfigError, match=f"{sentence}.*: set serve.halves, or use sharewood predict"):
        Service(HostsConfig.read(tmp_path / "party_a.toml"), "party_a")
    for name in NAMES:
        path = tmp_path / f"{name}.toml"
        path.write_text(path.read_text().replace("halves = false", "halves = true"))
        assert Service(HostsConfig.read(tmp_path / f"{name}.toml"), name).refusal.startswith(sentence)


def test_rounds_and_bytes_are_those_of_rows(trainings):
    """The services' own steps, on a model with columns of owners: what `cost_of_rows` states, which is 6 rounds."""
    _, frame, _, models = trainings["columns"]
    names = models[0].model.facts.names
    halves = divide(keys_of(frame[list(names)].to_numpy()[:4], [names.index("x")]))

    def measured(party):
        own = models[party.rank].model
        operand, before = party.run(fix_model(party, own.ensemble, 4, 1)), party.meter.total
        rounds, sent = before.rounds, before.sent
        released_margins(party, own, operand, AShare(halves[party.rank], party.rank))
        return party.meter.total.rounds - rounds, party.meter.total.sent - sent

    stated = cost_of_rows(4, len(names) + 1, 3, 3)
    assert run_both(measured)[0] == [(6, stated.bits[0])] * 2 and stated.rounds == 6
