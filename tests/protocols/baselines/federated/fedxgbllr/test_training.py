from dataclasses import replace

import numpy as np
import pytest
import xgboost as xgb

from mpc.errors import ConfigError, DataError, PeerVanished, ProtocolDesync
from protocols.baselines.federated.engine import LocalFederation, as_bytes
from protocols.baselines.federated.fedxgbllr import cnn
from protocols.baselines.federated.fedxgbllr.client import FedXGBllrClient
from protocols.baselines.federated.fedxgbllr.communication import fedxgbllr_bytes, simfl_bytes
from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig
from protocols.baselines.federated.fedxgbllr.model import FedXGBllrModel, pack_ensembles, unpack_ensembles
from protocols.baselines.federated.fedxgbllr.server import train
from protocols.baselines.federated.fedxgbllr.trees import encode, fit_booster, fit_ensemble, tree_outputs
from protocols.baselines.federated.secure_sum import OpenSum
from tests.protocols.baselines.federated.tables import SMALL_LLR, llr_clients, summation, table

PAPER = FedXGBllrConfig.of(start="kaiming", validation_share=0)
ALL_ROWS = SMALL_LLR.model_copy(update={"validation_share": 0})


@pytest.mark.parametrize("objective", ["binary:logistic", "reg:squarederror"])
def test_the_outputs_of_the_trees_add_up_to_xgboosts_margin(objective):
    X, y = table(2500)
    booster = fit_booster(X, y, 7, FedXGBllrConfig.of(objective=objective, max_depth=6))
    outputs = tree_outputs([encode(booster)] * 2, X)
    margin = booster.predict(xgb.DMatrix(X), output_margin=True)
    assert outputs.shape == (len(X), 14)
    np.testing.assert_allclose(outputs[:, :7].sum(axis=1), margin, atol=1e-5)
    np.testing.assert_array_equal(outputs[:, :7], outputs[:, 7:])


@pytest.mark.parametrize(
    ("architecture", "clients", "parameters"),
    [
        ("interpretable", 2, 16_193),
        ("interpretable", 5, 6_785),
        ("interpretable", 10, 3_905),
        ("standard", 5, 32_257),
        ("fcnn", 5, 128_513),
    ],
)
def test_the_networks_have_the_papers_number_of_parameters(architecture, clients, parameters):
    config = FedXGBllrConfig.of(architecture=architecture)
    assert len(cnn.initial_weights(clients, config.trees_per_client(clients), config)) == parameters


def test_the_interpretable_layer_is_the_convolution_with_kernel_and_stride_of_one_client():
    import torch

    clients, trees = 3, 4
    weights = cnn.initial_weights(clients, trees, PAPER)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(6, clients * trees)).astype(np.float32))
    kernel = torch.from_numpy(weights[: 64 * trees].reshape(64, 1, trees))
    convolved = torch.nn.functional.conv1d(x[:, None], kernel, stride=trees).relu()
    final = weights[64 * trees + 64 : -1].reshape(clients, 64)
    expected = np.einsum("nck,kc->n", convolved.numpy(), final)
    np.testing.assert_allclose(cnn.predict(weights, x.numpy(), clients, PAPER), expected, rtol=1e-4, atol=1e-5)


def test_kaiming_scale():
    weights = cnn.initial_weights(2, 250, PAPER)
    assert abs(weights[: 64 * 250].std() / np.sqrt(2 / 250) - 1) < 0.05


def test_local_batches_end_a_round_earlier_than_epochs():
    outputs = np.random.default_rng(0).normal(size=(130, 4)).astype(np.float32)
    start = cnn.initial_weights(2, 2, PAPER)

    def trained(**change):
        config = FedXGBllrConfig.of(**change)
        return cnn.train_locally(start, outputs, outputs[:, 0] > 0, 2, config, np.random.default_rng(1))

    # 130 rows are three batches of 64 or fewer.
    np.testing.assert_array_equal(trained(local_batches=6), trained(local_epochs=2))
    assert not np.array_equal(trained(local_batches=5), trained(local_epochs=2))


@pytest.mark.parametrize("secure", [False, True])
def test_every_client_ends_with_the_same_model_and_it_learns(secure):
    federation = LocalFederation(llr_clients(secure))
    config = SMALL_LLR
    model = train(federation, config, summation(secure))
    X, y = table(seed=0)
    assert np.mean((model.predict(X) > 0.5) == y) > 0.8
    assert [len(model.ensembles), len(model.weights)] == [3, 8 * 4 + 8 + 3 * 8 + 1]


def test_secure_sums_average_as_open_ones_do():
    models = [train(LocalFederation(llr_clients(secure)), SMALL_LLR, summation(secure)) for secure in (False, True)]
    np.testing.assert_allclose(models[0].weights, models[1].weights, atol=1e-4)


def test_fedavg_weighs_clients_by_their_rows():
    config = ALL_ROWS.model_copy(update={"rounds": 1})
    X, y = table()
    clients = {0: slice(0, 200), 1: slice(200, 240)}
    parts = {i: FedXGBllrClient(i, X[s], y[s], config, OpenSum()) for i, s in clients.items()}
    model = train(LocalFederation(parts), config, OpenSum())
    start = cnn.initial_weights(2, 6, config)
    each = [
        cnn.train_locally(
            start, tree_outputs(model.ensembles, X[s]), y[s], 2, config, np.random.default_rng((config.seed, 1, i))
        )
        for i, s in clients.items()
    ]
    np.testing.assert_allclose(model.weights, (200 * each[0] + 40 * each[1]) / 240, atol=1e-6)


def test_ensembles_are_in_the_order_of_client_ids():
    participants = llr_clients(config=ALL_ROWS)
    shuffled = {i: participants[i] for i in (2, 0, 1)}
    X, y = table()
    expected = [fit_ensemble(X[part], y[part], 4, SMALL_LLR) for part in np.array_split(np.arange(len(X)), 3)]
    assert train(LocalFederation(shuffled), ALL_ROWS, OpenSum()).ensembles == expected


def test_a_client_that_misses_the_first_update_is_sent_the_ensembles_later():
    seen = []

    def absent(step, client):
        seen.append((step, client))
        return (step, client) == ("update", 1) and seen.count(("update", 1)) == 1

    federation = LocalFederation(llr_clients(), 2, absent)
    model = train(federation, SMALL_LLR, OpenSum())
    everyone = LocalFederation(llr_clients())
    train(everyone, SMALL_LLR, OpenSum())
    assert seen.count(("update", 1)) == 2
    assert federation.sent["update"] > everyone.sent["update"] - 1
    assert federation.received["update"] < everyone.received["update"]
    assert len(model.ensembles) == 3


def test_a_client_that_has_no_ensemble_in_time_is_left_out_of_the_model():
    federation = LocalFederation(llr_clients(), 2, lambda step, client: (step, client) == ("ensemble", 0))
    assert len(train(federation, SMALL_LLR, OpenSum()).ensembles) == 2


def test_too_many_drop_outs_end_the_training_with_a_sentence():
    federation = LocalFederation(llr_clients(), 2, lambda step, client: step == "update" and client > 0)
    with pytest.raises(PeerVanished, match="step 'update': 1 clients answered, at least 2"):
        train(federation, SMALL_LLR, OpenSum())


def test_regression_predicts_in_the_labels_own_unit():
    config = FedXGBllrConfig.of(
        objective="reg:squarederror", total_trees=40, max_depth=3, rounds=2, local_epochs=10, batch_size=8, channels=16
    )
    X, _ = table()
    y = 1000 + 50 * X[:, 0] - 20 * X[:, 1]
    parts = np.array_split(np.arange(len(X)), 2)
    federation = LocalFederation({i: FedXGBllrClient(i, X[p], y[p], config, OpenSum()) for i, p in enumerate(parts)})
    error = np.mean((train(federation, config, OpenSum()).predict(X) - y) ** 2)
    assert error < 0.1 * y.var()


def test_counts_with_missing_values_are_predicted_better_than_by_their_mean():
    config = FedXGBllrConfig.of(objective="count:poisson", total_trees=60, max_depth=3, rounds=2, channels=16)
    X, _ = table(400)
    X[::4, 0] = np.nan
    rate = np.where(np.isnan(X[:, 0]), 8.0, np.exp(0.5 * X[:, 1]))
    y = np.random.default_rng(2).poisson(rate).astype(float)
    parts = np.array_split(np.arange(len(X)), 2)
    federation = LocalFederation({i: FedXGBllrClient(i, X[p], y[p], config, OpenSum()) for i, p in enumerate(parts)})
    model = train(federation, config, OpenSum())
    predicted = model.predict(X)
    assert (predicted > 0).all() and np.mean((predicted - rate) ** 2) < 0.15 * rate.var()
    again = FedXGBllrModel.unpack(model.pack(), config)
    np.testing.assert_array_equal(again.predict(X), predicted)
    assert (again.kept, again.factor) == (model.kept, model.factor)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"y": np.r_[np.zeros(239), 7]}, "client 0: y: row 239: label must be 0 or 1, got 7"),
        ({"y": np.full(240, "yes")}, "client 0: y: labels must be numbers"),
        ({"y": np.zeros(3)}, "client 0: y must have one label per row of X: got 3 labels for 240 rows"),
        ({"X": np.full((240, 2), np.inf)}, "client 0: column 'f0', row 0: value is infinite"),
    ],
)
def test_bad_rows_are_one_sentence(change, sentence):
    X, y = table()
    with pytest.raises(DataError, match=sentence):
        FedXGBllrClient(0, change.get("X", X), change.get("y", y), SMALL_LLR, OpenSum())


def test_a_regression_with_one_label_is_one_sentence():
    config = FedXGBllrConfig.of(objective="reg:squarederror")
    X, y = table()
    with pytest.raises(DataError, match="all labels are equal"):
        train(LocalFederation({0: FedXGBllrClient(0, X, 0 * y, config, OpenSum())}), config, OpenSum())


@pytest.mark.parametrize("bad", [b"not a model", b""])
def test_bytes_that_are_not_an_ensemble_are_refused(bad):
    with pytest.raises(ProtocolDesync):
        tree_outputs(unpack_ensembles(pack_ensembles([bad])), table()[0])


@pytest.mark.parametrize("features", [4, 6])
def test_an_ensemble_of_tables_of_another_width_is_refused(features):
    X, y = table(features=features)
    ensemble = fit_ensemble(X, y, 2, SMALL_LLR)
    with pytest.raises(ProtocolDesync, match=f"an ensemble must be for 5 features, got {features}"):
        tree_outputs([ensemble], table()[0])


def test_lengths_that_do_not_add_up_are_refused():
    with pytest.raises(ProtocolDesync, match="must add up"):
        unpack_ensembles({"ensembles": as_bytes(b"abc"), "lengths": np.array([2])})


@pytest.mark.parametrize("parameters", [{"eta": 0}, {"architecture": "resnet"}, {"trees": 3}])
def test_bad_parameters_are_one_sentence(parameters):
    with pytest.raises(ConfigError, match=next(iter(parameters))):
        FedXGBllrConfig.of(**parameters)


def test_formula_6_and_simfls():
    # Table 3 of the paper: 6.0 MB for 10 clients, 10 rounds, 0.03 MB of network, and trees of negligible size.
    assert fedxgbllr_bytes(10, 500, 0, 10, 30_000) == 6.0e6
    assert simfl_bytes(1, 10, 2, 3, 4) == 8 * 10 * 2 + 8 * 3 * 10


def test_measured_bytes_are_formula_6_and_every_clients_trees_once_more():
    federation = LocalFederation(llr_clients())
    model = train(federation, SMALL_LLR, OpenSum())
    trees, network = sum(map(len, model.ensembles)), len(model.weights)
    assert federation.received["ensemble"] == trees
    assert federation.received["update"] == 3 * SMALL_LLR.rounds * 8 * (network + 1 + cnn.EXCESS)
    fixed = 3 * SMALL_LLR.rounds * (8 + 16)
    assert federation.sent["update"] == 3 * SMALL_LLR.rounds * 4 * network + fixed + 3 * (trees + 3 * 8)


@pytest.mark.parametrize("architecture", ["interpretable", "standard", "fcnn"])
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_the_network_starts_as_the_mean_of_the_clients_margins(architecture, scale):
    config = FedXGBllrConfig.of(architecture=architecture, channels=4)
    outputs = np.random.default_rng(0).normal(size=(50, 12)).astype(np.float32)
    weights = cnn.scaled(cnn.initial_weights(3, 4, config), 3, 4, config, scale)
    np.testing.assert_array_equal(cnn.initial_weights(3, 4, config), cnn.mean_weights(3, 4, config))
    np.testing.assert_allclose(cnn.predict(weights, outputs, 3, config), scale * outputs.sum(axis=1) / 3, atol=1e-5)


def test_excess_is_the_networks_loss_above_that_of_the_mean():
    outputs = np.random.default_rng(0).normal(size=(50, 12)).astype(np.float32)
    targets = (outputs.sum(axis=1) > 0).astype(np.float64)
    rows, *sums = cnn.excess(cnn.mean_weights(3, 4, PAPER), outputs, targets, 3, PAPER)
    difference, squares = np.split(np.array(sums), 2)
    mean = outputs.sum(axis=1) / 3
    halved = np.logaddexp(0, mean / 2) - targets * mean / 2 - np.logaddexp(0, mean) + targets * mean
    half = cnn.SCALES.index(0.5)
    assert rows == 50 and difference[0] == pytest.approx(0, abs=1e-4)
    assert [difference[half], squares[half]] == pytest.approx([halved.sum(), (halved**2).sum()], rel=1e-4)


NOISE = {"total_trees": 20, "max_depth": 3, "rounds": 4, "local_epochs": 40, "channels": 8, "eta": 0.02}


def noise(objective, seed):
    """Return rows whose labels do not depend on the features: anything that a network learns is wrong."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 5)).astype(np.float32)
    return X, rng.integers(2, size=600).astype(float) if objective == "binary:logistic" else rng.normal(size=600)


@pytest.mark.parametrize("objective", ["binary:logistic", "reg:squarederror"])
@pytest.mark.parametrize("start", ["mean", "kaiming"])
def test_a_network_that_overfits_is_not_kept(objective, start):
    """Without held-out rows, the last round is kept and is worse than the mean of margins; with them it is not."""
    X, y = noise(objective, 0)
    fresh, labels = noise(objective, 1)

    def losses(share):
        config = FedXGBllrConfig.of(objective=objective, start=start, validation_share=share, **NOISE)
        parts = np.array_split(np.arange(len(X)), 2)
        members = {i: FedXGBllrClient(i, X[p], y[p], config, OpenSum()) for i, p in enumerate(parts)}
        model = train(LocalFederation(members), config, OpenSum())
        return [_loss(predict(fresh), labels, objective) for predict in (model.predict, model.predict_by_mean)]

    network, mean = losses(0)
    assert network > mean + 0.002
    network, mean = losses(0.3)
    assert network <= mean + 1e-4


def _loss(predicted, y, objective):
    if objective == "reg:squarederror":
        return np.mean((predicted - y) ** 2)
    return -np.mean(np.log(np.where(y == 1, predicted, 1 - predicted)))


def test_the_network_is_kept_where_held_out_rows_show_that_it_is_better():
    """One client's labels are flipped: the mean of margins is useless, but a network learns which client to follow."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3)).astype(np.float32)
    y = (X[:, 0] > 0).astype(float)
    parts = np.split(np.arange(1200), [900])
    config = SMALL_LLR.model_copy(update={"rounds": 5, "local_epochs": 20, "validation_share": 0.3})
    turned = np.where(np.arange(1200) < 900, y, 1 - y)
    members = {i: FedXGBllrClient(i, X[p], turned[p], config, OpenSum()) for i, p in enumerate(parts)}
    model = train(LocalFederation(members), config, OpenSum())
    assert model.kept > 0
    assert _loss(model.predict(X[:900]), y[:900], "") < _loss(model.predict_by_mean(X[:900]), y[:900], "")


def test_rows_that_are_held_out_train_nothing():
    X, y = table()
    config = SMALL_LLR.model_copy(update={"validation_share": 0.25})
    client = FedXGBllrClient(0, X, y, config, OpenSum())
    moments = client.answer("moments", {})["values"]
    assert moments[0] == 180 and len(client._held_y) == 60
    kept = {tuple(row) for row in np.c_[client._X, client._y]}
    assert kept <= {tuple(row) for row in np.c_[X, y]}


def test_without_held_out_rows_the_network_cannot_be_shown_to_be_better():
    X, y = table(16)
    parts = np.array_split(np.arange(16), 2)
    members = {i: FedXGBllrClient(i, X[p], y[p], SMALL_LLR, OpenSum()) for i, p in enumerate(parts)}
    assert train(LocalFederation(members), SMALL_LLR, OpenSum()).kept == 0


def test_an_empty_list_of_ensembles_is_refused():
    with pytest.raises(ProtocolDesync, match="must add up"):
        unpack_ensembles({"ensembles": as_bytes(b""), "lengths": np.zeros(0, np.int64)})


def test_penalties_of_numbers_are_those_of_xgboost_on_the_same_labels():
    """The client standardises the labels; `reg_alpha` and `min_split_loss` still count in the labels' own unit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)).astype(np.float32)
    y = 40 * X[:, 0] + 15 * np.sin(3 * X[:, 1]) + rng.normal(size=400)
    config = FedXGBllrConfig.of(
        objective="reg:squarederror",
        total_trees=6,
        max_depth=4,
        reg_alpha=30.0,
        min_split_loss=900.0,
        rounds=1,
        validation_share=0,
    )
    model = train(LocalFederation({0: FedXGBllrClient(0, X, y, config, OpenSum())}), config, OpenSum())
    own = {"objective": config.objective, "max_depth": 4, "eta": config.eta, "base_score": y.mean()}
    booster = xgb.train(own | {"alpha": 30.0, "gamma": 900.0}, xgb.DMatrix(X, label=y), 6)
    np.testing.assert_allclose(model.predict_by_mean(X), booster.predict(xgb.DMatrix(X)), atol=1e-3)
    free = xgb.train(own, xgb.DMatrix(X, label=y), 6)
    assert np.abs(model.predict_by_mean(X) - free.predict(xgb.DMatrix(X))).max() > 1


def trained_on_three(**change):
    config = SMALL_LLR.model_copy(update=change)
    return train(LocalFederation(llr_clients(config=config)), config, OpenSum())


def test_the_learned_rates_are_the_network():
    X, _ = table(seed=3)
    model = trained_on_three(validation_share=0)
    rates = model.learned_rates()
    assert (rates.trees.shape, rates.clients.shape) == ((8, 4), (3, 8))
    outputs = tree_outputs(model.ensembles, X).reshape(len(X), 3, 4)
    hidden = np.maximum(np.einsum("nkt,ct->nkc", outputs, rates.trees) + rates.channels, 0)
    margin = np.einsum("nkc,kc->n", hidden, rates.clients) + rates.bias
    np.testing.assert_allclose(1 / (1 + np.exp(-margin)), model.predict(X), atol=1e-5)

    slopes = np.einsum("nkc,kc,ct->kt", (hidden > 0) * 1.0, rates.clients, rates.trees) / len(X)
    np.testing.assert_allclose(model.effective_rates(X), slopes, atol=1e-5)
    assert model.effective_rates(X).std() > 1e-3


def test_every_tree_has_the_same_rate_in_the_mean_of_margins():
    model = trained_on_three()
    config = model.config
    mean = replace(model, weights=cnn.mean_weights(3, 4, config))
    np.testing.assert_allclose(mean.effective_rates(table(seed=3)[0]), np.full((3, 4), 1 / 3), atol=1e-6)


def test_only_the_interpretable_network_has_learned_rates():
    model = trained_on_three(architecture="fcnn")
    assert model.effective_rates(table(seed=3)[0]).shape == (3, 4)
    with pytest.raises(ConfigError, match="architecture must be 'interpretable' to have learned rates, got 'fcnn'"):
        model.learned_rates()
