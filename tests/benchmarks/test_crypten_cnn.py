"""The network trained inside CrypTen follows the same steps in plaintext."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch

from benchmarks.crypten_cnn import CLIENTS, batches, compare, in_plaintext
from protocols.baselines.federated.fedxgbllr import cnn
from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig

SMALL = FedXGBllrConfig.of(total_trees=10, max_depth=3, channels=8)


@pytest.mark.skipif(find_spec("crypten") is None, reason="CrypTen is not installed")
def test_two_processes_follow_the_plaintext_and_learn():
    report = compare(SMALL, steps=6, size=64, rate=0.5, every=3)
    assert [line["step"] for line in report["curve"]] == [0, 3, 6]
    for line in report["curve"]:
        assert line["largest_weight_difference"] < 2e-3
        assert abs(line["crypten_train"]["loss"] - line["plaintext_train"]["loss"]) < 2e-3
    losses = [line["crypten_train"]["loss"] for line in report["curve"]]
    assert losses[2] < losses[1] < losses[0]
    assert report["rounds_per_step"] > 0 and report["bytes_per_step"] > 64 * SMALL.channels * 8


def test_the_plaintext_steps_are_those_of_the_network():
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=(40, 10)).astype(np.float32)
    labels = (outputs[:, 0] > 0).astype(np.float32)
    start = cnn.initial_weights(CLIENTS, 5, SMALL)
    plan = batches(40, 3, 16, 0)
    model = cnn.build(CLIENTS, 5, SMALL)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(start.copy()), model.parameters())
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    for batch in plan:
        optimizer.zero_grad()
        margin = model(torch.from_numpy(outputs[batch])).squeeze(1)
        torch.nn.functional.binary_cross_entropy_with_logits(margin, torch.from_numpy(labels[batch])).backward()
        optimizer.step()
    expected = torch.nn.utils.parameters_to_vector(model.parameters()).detach().numpy()
    (weights,) = in_plaintext(start, outputs, labels, plan, 0.5, 3, SMALL)
    np.testing.assert_allclose(weights, expected, atol=1e-6)


def test_batches_pass_over_all_rows():
    plan = batches(10, 5, 4, 0)
    assert [len(batch) for batch in plan] == [4, 3, 3, 4, 3]
    np.testing.assert_array_equal(np.sort(np.concatenate(plan[:3])), np.arange(10))
