import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

from mpc.errors import ConfigError, DataError, PeerVanished, ProtocolDesync
from protocols.baselines.federated.engine import HELPER, LocalFederation
from protocols.baselines.federated.objectives import sigmoid
from protocols.baselines.federated.secure_sum import OpenSum, SharedSum
from protocols.baselines.federated.virtual_samples import boundaries
from protocols.baselines.federated.virtual_samples.boundaries import agree, every_value, pooled_boundaries
from protocols.baselines.federated.virtual_samples.clusters import (
    assign,
    cluster_sums,
    merge_small_groups,
    smallest_group,
)
from protocols.baselines.federated.virtual_samples.config import VirtualSamplesConfig
from protocols.baselines.federated.virtual_samples.forest import Forest
from protocols.baselines.federated.virtual_samples.metrics import evaluate
from protocols.baselines.federated.virtual_samples.node import VirtualSamplesNode, predict
from protocols.baselines.federated.virtual_samples.server import Server
from protocols.baselines.federated.virtual_samples.split import best_splits
from tests.protocols.baselines.federated.tables import GROUP_KEY, SMALL_VS, summation, table, vs_nodes

CLUSTERS = SMALL_VS.clusters


def trained(participants, secure=False, config=SMALL_VS, absent=lambda step, client: False, minimum=2):
    federation = LocalFederation(participants, minimum, absent)
    agree(federation)
    server = Server(federation, 5, config, summation(secure))
    server.fit()
    return server


def test_the_nodes_agree_on_the_quantiles_of_the_pooled_rows_bit_for_bit():
    nodes = vs_nodes()
    agree(LocalFederation(nodes))
    expected = pooled_boundaries(table()[0], CLUSTERS)
    for node in nodes.values():
        np.testing.assert_array_equal(node.memory["boundaries"], expected)


def test_the_server_of_the_agreement_sees_words_that_do_not_repeat():
    seen = []

    class Watching(LocalFederation):
        def _deliver(self, step, messages):
            replies = super()._deliver(step, messages)
            seen.append(replies)
            return replies

    for _ in range(2):
        agree(Watching(vs_nodes()))
    first, second = seen[1][0]["masked"], seen[11][0]["masked"]
    assert not np.intersect1d(first, second).size
    assert abs(np.unpackbits(first.view(np.uint8)).mean() - 0.5) < 0.02


def test_a_node_that_drops_out_of_the_agreement_ends_it_with_a_sentence():
    federation = LocalFederation(vs_nodes(), 1, lambda step, client: client == 2)
    with pytest.raises(PeerVanished, match="node 2 dropped out while cluster boundaries were being agreed on"):
        agree(federation)


def test_keys_keep_the_order_of_floats():
    values = np.array([-np.inf, -3.5, -1e-40, 0.0, 1e-40, 2.0, np.inf], np.float32)
    keys = boundaries.ordered_keys(values)
    assert (np.diff(keys.astype(np.int64)) > 0).all()
    np.testing.assert_array_equal(boundaries.values_of_keys(keys), values)
    assert boundaries.ordered_keys(np.float32([-0.0])) == boundaries.ordered_keys(np.float32([0.0]))


def test_clusters_are_half_open_at_their_lower_boundary():
    edges = np.array([[0.0, 1.0, 1.0]], np.float32)
    X = np.array([[-1.0], [0.0], [0.5], [1.0], [1.5]], np.float32)
    np.testing.assert_array_equal(assign(edges, X)[:, 0], [0, 0, 1, 1, 3])


def test_cluster_sums_are_algorithm_1():
    rng = np.random.default_rng(0)
    clusters, slot, g = rng.integers(4, size=(50, 3)), rng.integers(2, size=50), rng.normal(size=50)
    (sums,) = cluster_sums(clusters, slot, 2, 4, [g])
    for node in range(2):
        for j in range(3):
            for c in range(4):
                assert sums[node, j, c] == pytest.approx(g[(slot == node) & (clusters[:, j] == c)].sum())


@pytest.mark.parametrize("least", [2, 5, 17])
def test_merged_groups_keep_totals_and_are_never_small(least):
    rng = np.random.default_rng(least)
    counts = rng.integers(0, 6, size=(3, 4, 12)).astype(float)
    counts[2, 0] = 0
    counts[2, 0, 5] = least - 1
    sums = rng.normal(size=(2, 3, 4, 12)) * (counts > 0)
    merged, sizes = merge_small_groups(sums, counts, least)
    assert smallest_group(sizes) >= least
    whole = counts.sum(axis=-1) >= least
    np.testing.assert_allclose(merged.sum(axis=-1), sums.sum(axis=-1) * whole, atol=1e-12)
    np.testing.assert_allclose(sizes.sum(axis=-1), counts.sum(axis=-1) * whole)
    assert not merged[:, sizes == 0].any()


def test_the_split_is_the_one_of_the_highest_gain_over_all_features_and_clusters():
    rng = np.random.default_rng(3)
    g, h = rng.normal(size=(1, 3, 6)), rng.uniform(0.5, 2, size=(1, 3, 6))
    g[:, 1:] += (g[:, :1].sum(axis=-1) - g[:, 1:].sum(axis=-1))[..., None] / 6
    h[:, 1:] *= h[:, :1].sum(axis=-1, keepdims=True) / h[:, 1:].sum(axis=-1, keepdims=True)
    config = VirtualSamplesConfig.of()

    def gain(j, c):
        sides = [(g[0, j, : c + 1].sum(), h[0, j, : c + 1].sum()), (g[0, j, c + 1 :].sum(), h[0, j, c + 1 :].sum())]
        if min(side[1] for side in sides) < config.min_child_weight:
            return -np.inf
        return sum(a * a / (b + 1) for a, b in sides)

    best = max(((j, c) for j in range(3) for c in range(5)), key=lambda at: gain(*at))
    splits = best_splits(g, h, config)
    assert (int(splits.feature[0]), int(splits.threshold[0])) == best


@pytest.mark.parametrize("nodes", [1, 3])
def test_one_cluster_per_value_is_exact_xgboost_for_any_number_of_nodes(nodes):
    X, y = table(600)
    edges = every_value(X)
    config = VirtualSamplesConfig.of(clusters=edges.shape[1] + 1, min_group=1, n_estimators=6, update_estimators=0)
    members = {}
    for i, part in enumerate(np.array_split(np.arange(len(X)), nodes)):
        members[i] = VirtualSamplesNode(i, X[part], y[part], config, OpenSum(), GROUP_KEY)
        members[i].memory["boundaries"] = edges
    server = Server(LocalFederation(members), 5, config, OpenSum())
    server.fit()
    parameters = {"objective": "binary:logistic", "max_depth": 4, "eta": 0.1, "tree_method": "exact"}
    booster = xgb.train(parameters | {"base_score": y.mean()}, xgb.DMatrix(X, label=y), 6)
    ours = server.base_margin + server.forest.margin(assign(edges, X))
    np.testing.assert_allclose(ours, booster.predict(xgb.DMatrix(X), output_margin=True), atol=1e-4)


def test_secure_sums_give_the_forest_of_open_ones():
    forests = [trained(vs_nodes(secure), secure).forest for secure in (False, True)]
    np.testing.assert_array_equal(forests[0].feature, forests[1].feature)
    np.testing.assert_array_equal(forests[0].threshold, forests[1].threshold)
    np.testing.assert_allclose(forests[0].value, forests[1].value, atol=1e-4)


def test_with_secure_sums_no_message_to_the_server_has_a_nodes_own_sums():
    nodes = vs_nodes(secure=True)
    server = trained(nodes, secure=True)
    del nodes[HELPER]
    order = server._model() | {f"growing_{k}": a for k, a in Forest.empty(1, 3).pack().items()}
    order |= {
        "updating": np.array(False),
        "level": np.array(0),
        "active": np.array([0]),
        "label": np.frombuffer(b"x", np.uint8),
    }
    reply = nodes[0].answer("sums", order)
    assert set(reply) == {"share", "sealed"}
    assert abs(np.unpackbits(reply["share"].view(np.uint8)).mean() - 0.5) < 0.05


def test_under_secure_sums_the_server_is_sent_only_shares_in_every_step():
    seen = {}

    class Watching(LocalFederation):
        def _deliver(self, step, messages):
            replies = super()._deliver(step, messages)
            for reply in replies.values():
                seen.setdefault(step, set()).update(reply)
            return replies

    federation = Watching(vs_nodes(secure=True), 2)
    agree(federation)
    server = Server(federation, 5, SMALL_VS, summation(True))
    server.fit()
    server.update()
    server.finish()
    shares = {"share", "sealed"}
    assert seen == {
        "rank": {"masked", "nonce"},
        **{step: shares for step in ("prior", "sums", "check")},
        "unmask": {"masks"},
        "finish": {"smallest"},
    }


class Opening(SharedSum):
    """The server's side of a secure sum that records every sum it opens: {label: figures}."""

    def __init__(self):
        super().__init__(None, 3)
        self.opened = {}

    def total(self, federation, replies, label, length):
        self.opened[label] = super().total(federation, replies, label, length)
        return self.opened[label]


def opened_until_a_drop_out(after, config=SMALL_VS):
    """Train until node 2 leaves after `after` sums; return nodes, federation, opened sums, and the error."""
    nodes, summed = vs_nodes(True, config=config), []

    def absent(step, client):
        summed.append(step == "sums" and client == 0)
        return step == "sums" and client == 2 and sum(summed) > after

    federation, opening = LocalFederation(nodes, 2, absent), Opening()
    agree(federation)
    try:
        Server(federation, 5, config, opening).fit()
    except PeerVanished as error:
        return nodes, federation, opening.opened, str(error)
    return nodes, federation, opening.opened, "trained"


@pytest.mark.parametrize("min_group", [1, 10])
def test_the_server_cannot_subtract_a_level_without_a_node_from_the_level_above_with_it(min_group):
    """Children partition their parent's rows: the difference would be node 2's own contribution to the root."""
    nodes, _, opened, _ = opened_until_a_drop_out(1, SMALL_VS.model_copy(update={"min_group": min_group}))
    root, children = opened["tree 0 level 0"], opened.get("tree 0 level 1")
    if children is not None:
        difference = root.reshape(2, 5, CLUSTERS) - children.reshape(2, -1, 5, CLUSTERS).sum(axis=1)
        clusters, (y, base) = nodes[2]._clusters()[:80], (nodes[2]._y[:80], table()[1].mean())
        weights = [base - y, np.full(80, base * (1 - base))]
        own = np.stack(cluster_sums(clusters, np.zeros(80, np.int64), 1, CLUSTERS, weights))[:, 0]
        pytest.fail(f"{np.mean(np.abs(difference - own) < 1e-5):.0%} of node 2's own sums by subtraction")


@pytest.mark.parametrize("after", [0, 1, 3, 4, 8])
def test_a_drop_out_ends_a_training_under_secure_sums_before_any_sum_over_fewer_nodes(after):
    nodes, federation, opened, end = opened_until_a_drop_out(after)
    assert "node 2 dropped out, and a secure sum without it would give its own figures by subtraction" in end
    assert len(opened) == 1 + after
    for label in opened:
        with pytest.raises(ProtocolDesync, match="already answered for sum"):
            federation.ask_helper("unmask", request_of(nodes, label))


def request_of(nodes, label):
    """Return a server's request to the helper about the shares of the first two nodes."""
    sealed = [nodes[i].answer("prior", {})["sealed"] for i in (0, 1)]
    return {"label": np.frombuffer(label.encode(), np.uint8), "length": np.array(2), "sealed": np.stack(sealed)}


@pytest.mark.parametrize("step", ["prior", "check"])
def test_rows_and_wrong_rows_too_are_summed_over_all_nodes_or_not_at_all(step):
    federation = LocalFederation(vs_nodes(True), 2, lambda asked, client: (asked, client) == (step, 1))
    agree(federation)
    server = Server(federation, 5, SMALL_VS, summation(True))
    with pytest.raises(PeerVanished, match=f"step '{step}': node 1 dropped out"):
        server.fit()
        server.update()


@pytest.mark.parametrize("level", [0, 1, 2])
def test_with_open_sums_a_tree_is_grown_again_without_a_node_that_drops_out(level):
    asked = []

    def absent(step, client):
        asked.append(step == "sums" and client == 0)
        return step == "sums" and client == 2 and sum(asked) > level

    server = trained(vs_nodes(), absent=absent)
    without = trained(vs_nodes(), absent=lambda step, client: step == "sums" and client == 2)
    for got, wanted in zip(server.forest.pack().values(), without.forest.pack().values(), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert not np.array_equal(server.forest.value, trained(vs_nodes()).forest.value)


def test_a_helper_that_drops_out_ends_the_training_with_a_sentence():
    rounds = []

    def absent(step, client):
        rounds.append(step)
        return client == HELPER and rounds.count("unmask") > 3

    with pytest.raises(PeerVanished, match="step 'unmask': the helper did not answer"):
        trained(vs_nodes(secure=True), secure=True, absent=absent)


def test_the_least_group_is_enforced_at_every_level_and_reported():
    config = SMALL_VS.model_copy(update={"min_group": 7})
    for smallest_allowed, given in ((1, SMALL_VS), (7, config)):
        nodes = vs_nodes(config=given)
        server = trained(nodes, config=given)
        smallest = min(node.smallest_sent for node in nodes.values())
        assert (smallest >= 7) == (smallest_allowed == 7)
    assert (server.forest.feature >= 0).any()


def test_a_node_keeps_the_model_and_reports_its_smallest_group(tmp_path):
    X, y = table()
    node = VirtualSamplesNode(0, X, y, SMALL_VS, OpenSum(), GROUP_KEY, out=tmp_path / "model.npz")
    server = trained({0: node}, minimum=1)
    assert server.finish() == node.smallest_sent > 0
    expected = sigmoid(server.base_margin + server.forest.margin(assign(node.memory["boundaries"], X)))
    np.testing.assert_array_equal(predict(tmp_path / "model.npz", X), expected)


def with_options(**options):
    return SMALL_VS.model_copy(update=options)


@pytest.mark.parametrize("rechoose", [False, True])
def test_only_wrongly_classified_new_rows_join_and_pull_the_forest_towards_them(rechoose):
    config = with_options(update_check=0, rechoose=rechoose)
    nodes = vs_nodes(config=config)
    server = trained(nodes, config=config)
    X, y = table(90, seed=1)
    clusters = assign(nodes[0].memory["boundaries"], X)

    def wrong():
        return (server.base_margin + server.forest.margin(clusters) > 0) != (y == 1)

    first = wrong()
    each = []
    server._progress = lambda trees, forest: each.append(wrong())
    joined = server.update()
    # After the last tree the model is finished: no tree uses the rows that this model gets wrong.
    chosen = np.any([first, *each[:-1]], axis=0) if rechoose else first
    assert joined == chosen.sum() > 0

    longer = with_options(n_estimators=SMALL_VS.n_estimators + SMALL_VS.update_estimators)
    without = trained(vs_nodes(config=longer), config=longer)
    assert len(server.forest) == len(without.forest)
    towards = np.where(y == 1, 1, -1) * (server.forest.margin(clusters) - without.forest.margin(clusters))
    assert towards[first].mean() > 0


def test_a_tree_of_the_update_uses_the_rows_that_the_model_before_it_gets_wrong():
    config = with_options(update_check=0, update_estimators=4, learning_rate=0.8)
    nodes = vs_nodes(config=config)
    server = trained(nodes, config=config)
    taken = []
    takes_part = VirtualSamplesNode._takes_part

    class Watched(VirtualSamplesNode):
        def _takes_part(self, margin, updating):
            rows = takes_part(self, margin, updating)
            taken.append((rows, self._wrong(margin)))
            return rows

    nodes[0].__class__ = Watched
    server.update()
    base = np.arange(len(nodes[0]._X)) < nodes[0]._base_rows
    assert len({rows.tobytes() for rows, _ in taken}) > 1
    for rows, wrong in taken:
        np.testing.assert_array_equal(rows, base | wrong)


@pytest.mark.parametrize("secure", [False, True])
def test_rows_that_are_held_out_never_join_and_end_an_update_that_hurts(secure):
    """The labels of new rows are flipped, except for held-out rows: every tree of the update makes the model worse."""
    config = with_options(update_check=0.5, update_estimators=6, learning_rate=0.5)
    nodes = vs_nodes(secure, config=config)
    for node in (nodes[i] for i in range(3)):
        joining = np.setdiff1d(np.arange(node._base_rows, len(node._y)), node._held)
        assert len(node._held) == len(joining) == 15
        node._y[joining] = 1 - node._y[joining]
    server = trained(nodes, secure, config)
    assert server.update() > 0
    assert len(server.forest) < config.n_estimators + config.update_estimators
    for node in (nodes[i] for i in range(3)):
        assert not node.memory["joined"][node._held].any()


def test_the_trees_of_the_update_that_are_kept_have_the_least_loss_on_held_out_rows():
    config = with_options(update_check=0.4, update_estimators=8, learning_rate=0.6)
    nodes = vs_nodes(config=config)
    server = trained(nodes, config=config)
    forests = [server.forest]
    server._progress = lambda trees, forest: forests.append(forest)
    server.update()
    held = [(node._clusters()[node._held], node._y[node._held]) for node in nodes.values()]
    losses = []
    for forest in forests:
        margins = [(server.base_margin + forest.margin(clusters), y) for clusters, y in held]
        losses.append(sum(np.sum(np.logaddexp(0, margin) - y * margin) for margin, y in margins))
    assert len(server.forest) == len(forests[int(np.argmin(losses))])


def test_an_update_without_new_rows_adds_trees_of_the_base_rows():
    X, y = table()
    node = VirtualSamplesNode(0, X, y, SMALL_VS, OpenSum(), GROUP_KEY)
    server = trained({0: node}, minimum=1)
    assert server.update() == 0
    longer = with_options(n_estimators=5)
    expected = trained({0: VirtualSamplesNode(0, X, y, longer, OpenSum(), GROUP_KEY)}, config=longer, minimum=1)
    np.testing.assert_array_equal(server.forest.value, expected.forest.value)


def test_new_rows_may_have_clusters_of_their_own():
    """S^L of algorithm 1: the nodes agree on quantiles of the new rows too, and sum these rows by them."""
    config = with_options(update_boundaries="new", update_check=0)
    nodes = vs_nodes(config=config)
    for node in nodes.values():
        node._X[node._base_rows :] += np.float32(3)
    server = trained(nodes, config=config)
    agree(LocalFederation(nodes), new=True)
    new = np.concatenate([node._X[node._base_rows :] for node in nodes.values()])
    for node in nodes.values():
        np.testing.assert_array_equal(node.memory["boundaries"], pooled_boundaries(table()[0], CLUSTERS))
        np.testing.assert_array_equal(node.memory["new_boundaries"], pooled_boundaries(new, CLUSTERS))
        clusters = node._growing_clusters()
        np.testing.assert_array_equal(clusters[: node._base_rows], node._clusters()[: node._base_rows])
        moved = node._X[node._base_rows :]
        np.testing.assert_array_equal(clusters[node._base_rows :], assign(node.memory["new_boundaries"], moved))
        assert not np.array_equal(clusters, node._clusters())
    server.update()
    assert len(server.forest) == config.n_estimators + config.update_estimators


def test_clusters_of_new_rows_need_new_rows():
    X, y = table()
    nodes = {i: VirtualSamplesNode(i, X, y, SMALL_VS, OpenSum(), GROUP_KEY) for i in range(2)}
    with pytest.raises(DataError, match="no node has rows for the update: update_boundaries must be 'base'"):
        agree(LocalFederation(nodes), new=True)


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("objective", ["reg:squarederror", "count:poisson"])
def test_numbers_and_counts_are_exact_xgboost_too(nodes, objective, tmp_path):
    X, _ = table(600)
    y = 40 + 9 * X[:, 0] - 5 * X[:, 1] * X[:, 2]
    if objective == "count:poisson":
        y = np.random.default_rng(1).poisson(np.exp(X[:, 0])).astype(float)
        y[:3] = 40  # so that a weight is limited to the largest step
    edges = every_value(X)
    config = VirtualSamplesConfig.of(
        objective=objective, clusters=edges.shape[1] + 1, min_group=1, n_estimators=6, update_estimators=0
    )
    members = {}
    for i, part in enumerate(np.array_split(np.arange(len(X)), nodes)):
        members[i] = VirtualSamplesNode(i, X[part], y[part], config, OpenSum(), GROUP_KEY, out=tmp_path / f"{i}.npz")
        members[i].memory["boundaries"] = edges
    server = Server(LocalFederation(members), 5, config, OpenSum())
    server.fit()
    server.finish()
    parameters = {"objective": objective, "max_depth": 4, "eta": 0.1, "tree_method": "exact"}
    booster = xgb.train(parameters | {"base_score": y.mean()}, xgb.DMatrix(X, label=y), 6)
    np.testing.assert_allclose(predict(tmp_path / "0.npz", X), booster.predict(xgb.DMatrix(X)), atol=1e-3)


def test_a_missing_value_is_below_all_others(tmp_path):
    X, _ = table(400)
    X[::3, 0] = np.nan
    y = (np.isnan(X[:, 0]) | (X[:, 1] > 1)).astype(float)
    config = with_options(update_estimators=0, n_estimators=20)
    node = VirtualSamplesNode(0, X, y, config, OpenSum(), GROUP_KEY, out=tmp_path / "0.npz")
    trained({0: node}, config=config, minimum=1).finish()
    called = predict(tmp_path / "0.npz", X) > 0.5
    assert called[np.isnan(X[:, 0])].all() and (called == y).mean() > 0.9
    with pytest.raises(DataError, match="every value must be finite, or NaN where it is missing"):
        predict(tmp_path / "0.npz", np.full((1, 5), np.inf))


def test_under_squared_error_rows_with_large_errors_join():
    config = with_options(objective="reg:squarederror", update_check=0)
    X, _ = table()
    node = VirtualSamplesNode(0, X, X[:, 0], config, OpenSum(), GROUP_KEY, (X[:2], np.array([X[0, 0], 50.0])))
    server = trained({0: node}, config=config, minimum=1)
    assert server.update() == 1
    assert node.memory["joined"].nonzero()[0].tolist() == [len(X) + 1]


def test_a_node_that_missed_rounds_is_up_to_date_with_its_next_message():
    nodes = vs_nodes()
    rounds = []

    def absent(step, client):
        if step == "sums" and client == 0:
            rounds.append(step)
        return step == "sums" and client == 1 and 2 <= len(rounds) <= 4

    server = trained(nodes, absent=absent)
    server.update()
    for node in nodes.values():
        rows = assign(node.memory["boundaries"], node._X)
        known = server.forest[: int(node.memory["applied"])]
        np.testing.assert_allclose(node.memory["margin"], server.base_margin + known.margin(rows))
    everyone = trained(vs_nodes())
    assert not np.array_equal(server.forest.value[:3], everyone.forest.value)


def test_too_many_drop_outs_end_the_training_with_a_sentence():
    with pytest.raises(PeerVanished, match="step 'sums': 1 clients answered"):
        trained(vs_nodes(), absent=lambda step, client: step == "sums" and client > 0)


def test_a_node_that_missed_the_agreement_says_so():
    with pytest.raises(ProtocolDesync, match="node 0 has no boundaries: it missed an earlier step"):
        Server(LocalFederation(vs_nodes()), 5, SMALL_VS, OpenSum()).fit()


MIN_121 = SMALL_VS.model_copy(update={"min_group": 121})


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"y": np.full(240, 2)}, DataError, "node 0: y: row 0: label must be 0 or 1, got 2"),
        ({"X": np.full((240, 2), np.inf)}, DataError, "node 0: column 'f0', row 0: value is infinite"),
        ({"y": np.full(240, "yes")}, DataError, "node 0: y: labels must be numbers"),
        (
            {"update": (np.zeros((3, 4)), np.zeros(3))},
            DataError,
            "node 0, update: its feature columns or their order differ",
        ),
        ({"config": MIN_121}, DataError, "node 0: min_group must be at most half of the rows, got 121 for 240 rows"),
        ({"X": np.zeros((0, 2)), "y": []}, DataError, "got 0 labels for 0 rows"),
        ({"group_key": b"short"}, ConfigError, "group key must have 32 bytes, got 5"),
    ],
)
def test_bad_input_of_a_node_is_one_sentence(change, error, sentence):
    X, y = table()
    given = {"X": X, "y": y, "config": SMALL_VS, "group_key": GROUP_KEY} | change
    with pytest.raises(error, match=sentence):
        VirtualSamplesNode(0, summation=OpenSum(), **given)


def test_a_node_has_at_least_as_many_rows_as_clusters_and_does_not_say_how_many():
    config = with_options(clusters=242)
    VirtualSamplesNode(0, *table(242), config, OpenSum(), GROUP_KEY)
    with pytest.raises(DataError) as refused:
        VirtualSamplesNode(0, *table(241), config, OpenSum(), GROUP_KEY, update=table(90))
    assert str(refused.value) == "node 0: clusters must be at most the number of its rows, got 242"


def test_min_group_may_be_half_of_a_nodes_rows():
    VirtualSamplesNode(0, *table(242), MIN_121, OpenSum(), GROUP_KEY)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"group_key": bytes(32)}, "the nodes' group keys differ"),
        ({"X": pd.DataFrame(table()[0], columns=["f1", "f0", "f2", "f3", "f4"])}, "or their columns or the order"),
        ({"X": table()[0][:, 1:]}, "or their columns or the order"),
    ],
)
def test_nodes_that_do_not_fit_together_are_one_sentence(change, sentence):
    X, y = table()
    given = {"X": X, "y": y, "group_key": GROUP_KEY}
    nodes = [
        VirtualSamplesNode(i, config=SMALL_VS, summation=OpenSum(), **given | {0: {}, 1: change}[i]) for i in (0, 1)
    ]
    with pytest.raises(DataError, match=sentence):
        agree(LocalFederation(dict(enumerate(nodes))))


def test_counts_are_checked():
    X, y = table()
    config = with_options(objective="count:poisson")
    with pytest.raises(DataError, match=r"row 0: label must be a count, got 0\.5"):
        VirtualSamplesNode(0, X, y + 0.5, config, OpenSum(), GROUP_KEY)
    nodes = {0: VirtualSamplesNode(0, X, 0 * y, config, OpenSum(), GROUP_KEY)}
    with pytest.raises(DataError, match="all 240 labels are 0: training needs a count above 0"):
        trained(nodes, config=config, minimum=1)


def test_one_class_is_one_sentence():
    X, y = table()
    nodes = {0: VirtualSamplesNode(0, X, 0 * y, SMALL_VS, OpenSum(), GROUP_KEY)}
    with pytest.raises(DataError, match="0 of 240 labels are 1: training needs both classes"):
        trained(nodes, minimum=1)


def test_a_model_file_of_another_version_is_one_sentence(tmp_path):
    np.savez(tmp_path / "old.npz", base=0.0, boundaries=np.zeros((5, 3)))
    with pytest.raises(DataError, match=r"old\.npz must have feature, objective, threshold, value"):
        predict(tmp_path / "old.npz", table()[0])


def test_a_received_tree_of_an_unknown_feature_is_refused():
    message = Forest.empty(1, 3).pack()
    message["feature"][0, 0] = 5
    with pytest.raises(ProtocolDesync, match=r"must split on features 0\.\.4 only"):
        Forest.unpack(message, 3, 5)


@pytest.mark.parametrize("parameters", [{"clusters": 1}, {"max_depth": 0}, {"learning_rates": 0.1}])
def test_bad_parameters_are_one_sentence(parameters):
    with pytest.raises(ConfigError, match=next(iter(parameters))):
        VirtualSamplesConfig.of(**parameters)


def test_metrics_on_a_table_by_hand():
    y, p = np.array([1, 1, 0, 0, 0]), np.array([0.9, 0.4, 0.8, 0.1, 0.2])
    measured = evaluate(y, p)
    assert [measured[k] for k in ("tp", "fp", "fn", "tn")] == [1, 1, 1, 2]
    assert [measured[k] for k in ("accuracy", "f1", "auc")] == pytest.approx([0.6, 0.5, 5 / 6])
    assert measured["auprc"] == pytest.approx((1 + 2 / 3) / 2)


def test_sigmoid():
    np.testing.assert_allclose(sigmoid(np.array([0.0, np.log(3)])), [0.5, 0.75])
