"""The small network over the outputs of all trees, and one client's training of it.

A network is one flat float32 vector of its weights, in the order of `torch`'s parameters: this vector is sent, summed
and averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from mpc.errors import ConfigError
from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig
from protocols.baselines.federated.objectives import losses

if TYPE_CHECKING:
    from torch import Tensor, nn

FCNN_WIDTH = 256
# Factors for a network's output, used if held-out rows show that it is overconfident.
SCALES = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
EXCESS = 1 + 2 * len(SCALES)


def build(clients: int, trees: int, config: FedXGBllrConfig) -> nn.Sequential:
    """float32[n, clients * trees] -> float32[n, 1]: a margin, or a standardised label.

    interpretable  1D convolution with kernel = stride = trees of a client, ReLU, fully connected (section 3.3).
                   Its windows do not overlap, so it is one linear map applied to every client's trees.
    standard       1D convolution with kernel 3 and stride 1 (table 4)
    fcnn           fully connected of width 256, ReLU, fully connected (table 4)
    """
    from torch import nn

    inputs, channels = clients * trees, config.channels
    if config.architecture == "interpretable":
        first: list[nn.Module] = [nn.Unflatten(1, (clients, trees)), nn.Linear(trees, channels)]
        hidden = clients * channels
    elif config.architecture == "standard":
        first = [nn.Unflatten(1, (1, inputs)), nn.Conv1d(1, channels, kernel_size=3, padding=1)]
        hidden = inputs * channels
    else:
        first = [nn.Linear(inputs, FCNN_WIDTH)]
        hidden = FCNN_WIDTH
    return nn.Sequential(*first, nn.ReLU(), nn.Flatten(), nn.Linear(hidden, 1))


def initial_weights(clients: int, trees: int, config: FedXGBllrConfig) -> np.ndarray:
    """Return the initial weights, by `config.start`: float32[parameters]."""
    return _flat(_kaiming(clients, trees, config) if config.start == "kaiming" else _mean(clients, trees, config))


def mean_weights(clients: int, trees: int, config: FedXGBllrConfig) -> np.ndarray:
    """Return a network whose output is the mean of the clients' margins: float32[parameters]."""
    return _flat(_mean(clients, trees, config))


def _kaiming(clients: int, trees: int, config: FedXGBllrConfig) -> nn.Sequential:
    """Initialise by Kaiming (He et al. 2015) with zero biases, from `config.seed`."""
    import torch
    from torch import nn

    model = build(clients, trees, config)
    generator = torch.Generator().manual_seed(config.seed)
    for layer in model:
        if isinstance(layer, nn.Linear | nn.Conv1d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
            nn.init.zeros_(cast("Tensor", layer.bias))
    return model


def _mean(clients: int, trees: int, config: FedXGBllrConfig) -> nn.Sequential:
    """Initialise by Kaiming, except for two channels: the sum of the trees and its negative, the only ones that count.

    x = ReLU(x) - ReLU(-x), so their difference is the sum.
    """
    import torch

    model = _kaiming(clients, trees, config)
    first, last = (cast("Tensor", layer.weight) for layer in model if hasattr(layer, "weight"))
    with torch.no_grad():
        first[:2] = 0
        total = first[0, 0, 1:2] if config.architecture == "standard" else first[0]
        total.fill_(1)
        first[1] = -first[0]
        last.zero_()
        # A convolution over all trees has its channels outermost, the one of each client's trees innermost.
        by_channel = last.view(-1, len(first)).T if config.architecture != "standard" else last.view(len(first), -1)
        by_channel[0], by_channel[1] = 1 / clients, -1 / clients
    return model


def parameters(clients: int, trees: int, config: FedXGBllrConfig) -> int:
    """Return the number of weights of the network."""
    return sum(weight.numel() for weight in build(clients, trees, config).parameters())


def train_locally(
    weights: np.ndarray,
    outputs: np.ndarray,
    targets: np.ndarray,
    clients: int,
    config: FedXGBllrConfig,
    rng: np.random.Generator,
) -> np.ndarray:
    """Run ClientUpdate of algorithm 1: E passes of Adam from `weights`; return the new float32[parameters].

    outputs float32[n, clients * trees], targets float[n]. The loss is the objective's; `rng` shuffles
    the batches; Adam restarts each round.
    """
    import torch
    from torch.nn import functional

    model = _loaded(weights, outputs.shape[1], clients, config)
    x, y = torch.from_numpy(outputs), torch.from_numpy(targets.astype(np.float32))
    by_objective: dict[str, Callable[..., Tensor]] = {
        "binary:logistic": functional.binary_cross_entropy_with_logits,
        "reg:squarederror": functional.mse_loss,
        "count:poisson": functional.poisson_nll_loss,
    }
    loss_of = by_objective[config.objective]
    optimizer = torch.optim.Adam(model.parameters(), config.learning_rate, config.betas, fused=True)
    for batch in _batches(len(x), config, rng):
        optimizer.zero_grad()
        loss_of(model(x[batch]).squeeze(1), y[batch]).backward()
        optimizer.step()
    return _flat(model)


def _batches(rows: int, config: FedXGBllrConfig, rng: np.random.Generator) -> Iterator[Tensor]:
    """Yield the row indices of each batch of one round; every pass is shuffled again."""
    import torch

    size, limit = config.batch_size, config.local_batches
    per_pass = -(-rows // size)
    total = limit if limit is not None else config.local_epochs * per_pass
    for first in range(0, total, per_pass):
        yield from torch.from_numpy(rng.permutation(rows)).split(size)[: total - first]


def predict(weights: np.ndarray, outputs: np.ndarray, clients: int, config: FedXGBllrConfig) -> np.ndarray:
    """Return margins, or standardised predictions, float32[n]."""
    import torch

    model = _loaded(weights, outputs.shape[1], clients, config)
    with torch.no_grad():
        return np.concatenate([model(part).squeeze(1).numpy() for part in torch.from_numpy(outputs).split(4096)])


class LearnedRates(NamedTuple):
    """The weights of an interpretable network: section 3.3's W and Z, and the biases.

    The output is `bias` plus, for every client k, clients[k] . ReLU(trees @ x_k + channels), where x_k float[trees] are
    the outputs of its trees. All clients share `trees`.

    trees    float32[channels, trees]    W: the rate of the t-th tree of an ensemble in each channel
    clients  float32[clients, channels]  Z: the weight of each client's channels
    channels float32[channels]           bias: float
    """

    trees: np.ndarray
    clients: np.ndarray
    channels: np.ndarray
    bias: float


def learned_rates(weights: np.ndarray, clients: int, trees: int, config: FedXGBllrConfig) -> LearnedRates:
    """Return W and Z. Raises ConfigError unless the network is the interpretable one: no other has them."""
    if config.architecture != "interpretable":
        raise ConfigError(f"architecture must be 'interpretable' to have learned rates, got {config.architecture!r}")
    channels = config.channels
    first, bias, last, end = np.split(weights, np.cumsum([channels * trees, channels, clients * channels]))
    return LearnedRates(first.reshape(channels, trees), last.reshape(clients, channels), bias, float(end[0]))


def effective_rates(weights: np.ndarray, outputs: np.ndarray, clients: int, config: FedXGBllrConfig) -> np.ndarray:
    """Return the mean derivative of the network's output by each tree's output, over the rows of `outputs`.

    outputs float32[n, clients * trees] -> float64[clients, trees]. The network is linear in the trees' outputs as long
    as no ReLU changes sign, so that this is the rate with which it adds up a tree; the mean of margins has 1 / clients.
    """
    import torch

    model = _loaded(weights, outputs.shape[1], clients, config)
    total = np.zeros(outputs.shape[1])
    for part in torch.from_numpy(outputs).split(4096):
        part.requires_grad_()
        (slope,) = torch.autograd.grad(model(part).sum(), part)
        total += slope.sum(dim=0, dtype=torch.float64).numpy()
    return (total / len(outputs)).reshape(clients, -1)


def scaled(weights: np.ndarray, clients: int, trees: int, config: FedXGBllrConfig, scale: float) -> np.ndarray:
    """Return weights whose network's output is `scale` times that of `weights`: the last layer is multiplied."""
    *_, last, bias = build(clients, trees, config).parameters()
    factor = np.ones(len(weights), np.float32)
    factor[-(last.numel() + bias.numel()) :] = scale
    return weights * factor


def excess(
    weights: np.ndarray, outputs: np.ndarray, targets: np.ndarray, clients: int, config: FedXGBllrConfig
) -> np.ndarray:
    """Return how much worse the network, at each of SCALES, predicts rows than the mean of the clients' margins.

    outputs float32[n, clients * trees], targets float[n] -> float64[EXCESS]: the number of rows, and the sums over them
    of the difference of the two losses and of its square.
    """
    if not len(targets):
        return np.zeros(EXCESS)
    network = predict(weights, outputs, clients, config).astype(np.float64)
    mean = losses(config.objective, outputs.sum(axis=1) / np.float64(clients), targets)
    difference = np.stack([losses(config.objective, scale * network, targets) - mean for scale in SCALES])
    return np.concatenate([[len(targets)], difference.sum(axis=1), (difference**2).sum(axis=1)])


def _loaded(weights: np.ndarray, inputs: int, clients: int, config: FedXGBllrConfig) -> nn.Sequential:
    import torch

    model = build(clients, inputs // clients, config)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(weights.astype(np.float32)), model.parameters())
    return model


def _flat(model: nn.Sequential) -> np.ndarray:
    import torch

    vector: Tensor = torch.nn.utils.parameters_to_vector(model.parameters())
    return vector.detach().numpy().copy()
