"""The small network over the outputs of all trees, and one client's training of it.

A network is handled as one flat float32 vector of its weights, in the order of `torch`'s parameters: that vector is
what travels, is summed and is averaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import numpy as np

from protocols.federated.fedxgbllr.config import FedXGBllrConfig

if TYPE_CHECKING:
    from torch import Tensor, nn

FCNN_WIDTH = 256


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
    """Kaiming initialisation (He et al. 2015) with zero biases, from `config.seed`: float32[parameters]."""
    import torch
    from torch import nn

    model = build(clients, trees, config)
    generator = torch.Generator().manual_seed(config.seed)
    for layer in model:
        if isinstance(layer, nn.Linear | nn.Conv1d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
            nn.init.zeros_(cast("Tensor", layer.bias))
    return _flat(model)


def parameters(clients: int, trees: int, config: FedXGBllrConfig) -> int:
    """How many weights the network has."""
    return sum(weight.numel() for weight in build(clients, trees, config).parameters())


def train_locally(
    weights: np.ndarray,
    outputs: np.ndarray,
    targets: np.ndarray,
    clients: int,
    config: FedXGBllrConfig,
    rng: np.random.Generator,
) -> np.ndarray:
    """ClientUpdate of algorithm 1: E passes of Adam from `weights`; returns the new float32[parameters].

    outputs float32[n, clients * trees], targets float[n]. Cross-entropy or squared error; batches are shuffled by
    `rng`; Adam starts afresh each round.
    """
    import torch
    from torch.nn import functional

    model = _loaded(weights, outputs.shape[1], clients, config)
    x, y = torch.from_numpy(outputs), torch.from_numpy(targets.astype(np.float32))
    loss_of = functional.binary_cross_entropy_with_logits if config.classification else functional.mse_loss
    optimizer = torch.optim.Adam(model.parameters(), config.learning_rate, config.betas, fused=True)
    for batch in _batches(len(x), config, rng):
        optimizer.zero_grad()
        loss_of(model(x[batch]).squeeze(1), y[batch]).backward()
        optimizer.step()
    return _flat(model)


def _batches(rows: int, config: FedXGBllrConfig, rng: np.random.Generator) -> Iterator[Tensor]:
    """Row indices of each batch of one round; every pass is shuffled anew."""
    import torch

    size, limit = config.batch_size, config.local_batches
    per_pass = -(-rows // size)
    total = limit if limit is not None else config.local_epochs * per_pass
    for first in range(0, total, per_pass):
        yield from torch.from_numpy(rng.permutation(rows)).split(size)[: total - first]


def predict(weights: np.ndarray, outputs: np.ndarray, clients: int, config: FedXGBllrConfig) -> np.ndarray:
    """Margins, or standardised predictions, float32[n]."""
    import torch

    model = _loaded(weights, outputs.shape[1], clients, config)
    with torch.no_grad():
        return np.concatenate([model(part).squeeze(1).numpy() for part in torch.from_numpy(outputs).split(4096)])


def _loaded(weights: np.ndarray, inputs: int, clients: int, config: FedXGBllrConfig) -> nn.Sequential:
    import torch

    model = build(clients, inputs // clients, config)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(weights.astype(np.float32)), model.parameters())
    return model


def _flat(model: nn.Sequential) -> np.ndarray:
    import torch

    vector: Tensor = torch.nn.utils.parameters_to_vector(model.parameters())
    return vector.detach().numpy().copy()
