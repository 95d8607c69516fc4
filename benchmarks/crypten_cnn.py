"""Train FedXGBllr's network inside CrypTen between two processes, beside the same steps in plaintext.

    python -m benchmarks.crypten_cnn --steps 100 --out docs/figures/fedxgbllr_crypten.json

Two clients have grown 500 trees (scikit-learn's breast cancer, 75:25), and each secret-shares the outputs of all trees
on its own rows, and their labels. The weights are secret throughout; they are opened after every `--every` steps only
for the comparison. Differences from docs/fedxgbllr.md:

- one training on all shared rows, instead of FedAvg between rounds of local training
- plain gradient descent: CrypTen has no Adam, whose square roots of squared gradients are below its 16 fraction bits
- the convolution, kernel = stride, is the matrix product that it is exactly (`fedxgbllr.cnn.build`)
- the gradient starts from sigmoid(margin) - y, so that no logarithm of the loss is computed on shares

CrypTen's default provider deals its triples at party 0, which could read every share; this is not secure, and the bytes
do not include the triples. The experiment measures the computation and the online messages of the training.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.crypten_pair import start
from benchmarks.program import parse
from protocols.baselines.federated.fedxgbllr import cnn
from protocols.baselines.federated.fedxgbllr.config import FedXGBllrConfig
from protocols.baselines.federated.fedxgbllr.trees import fit_ensemble, tree_outputs

CLIENTS = 2


def tree_tables(config: FedXGBllrConfig) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray, np.ndarray]:
    """Return each client's outputs of all trees float32[n, 500] and labels float32[n], and those of the test rows."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    X, y = X.astype(np.float32), y.astype(np.float32)
    order = np.random.default_rng(config.seed).permutation(len(X))
    training, test = np.split(order, [len(X) * 3 // 4])
    parts = np.array_split(training, CLIENTS)
    ensembles = [fit_ensemble(X[part], y[part], config.trees_per_client(CLIENTS), config) for part in parts]
    return (
        [tree_outputs(ensembles, X[part]) for part in parts],
        [y[p] for p in parts],
        tree_outputs(ensembles, X[test]),
        y[test],
    )


def batches(rows: int, steps: int, size: int, seed: int) -> list[np.ndarray]:
    """Return the public rows of every step: passes over all rows, each newly shuffled."""
    rng = np.random.default_rng(seed)
    per_pass = -(-rows // size)
    passes = [np.array_split(rng.permutation(rows), per_pass) for _ in range(-(-steps // per_pass))]
    return [batch for one in passes for batch in one][:steps]


def layers(weights: np.ndarray, config: FedXGBllrConfig) -> list[np.ndarray]:
    """Split the flat vector of `cnn`: kernel [channels, trees], bias, output weights [1, clients * channels], bias."""
    trees, channels = config.trees_per_client(CLIENTS), config.channels
    shapes = [(channels, trees), (channels,), (1, CLIENTS * channels), (1,)]
    ends = np.cumsum([np.prod(shape) for shape in shapes])
    return [part.reshape(shape) for part, shape in zip(np.split(weights, ends[:-1]), shapes, strict=True)]


def in_plaintext(
    weights: np.ndarray,
    outputs: np.ndarray,
    labels: np.ndarray,
    plan: list[np.ndarray],
    rate: float,
    every: int,
    config: FedXGBllrConfig,
) -> list[np.ndarray]:
    """Run gradient descent in float32, and return the flat weights after every `every` steps."""
    import torch

    kernel, bias, last, last_bias = (torch.tensor(part, requires_grad=True) for part in layers(weights, config))
    parameters = [kernel, bias, last, last_bias]
    x, y = torch.from_numpy(outputs), torch.from_numpy(labels)
    optimizer = torch.optim.SGD(parameters, rate)
    kept = []
    for number, batch in enumerate(plan, 1):
        optimizer.zero_grad()
        hidden = (x[batch].reshape(len(batch) * CLIENTS, -1) @ kernel.t() + bias).relu()
        margin = hidden.reshape(len(batch), -1) @ last.t() + last_bias
        torch.nn.functional.binary_cross_entropy_with_logits(margin.squeeze(1), y[batch]).backward()
        optimizer.step()
        if number % every == 0:
            kept.append(torch.cat([p.detach().reshape(-1) for p in parameters]).numpy())
    return kept


def in_crypten(
    rank: int,
    port: int,
    weights: np.ndarray,
    outputs: list[np.ndarray],
    labels: list[np.ndarray],
    plan: list[np.ndarray],
    rate: float,
    every: int,
    config: FedXGBllrConfig,
    report: Any,
) -> None:
    """Run one of the two processes, which shares `outputs` and `labels` of its rank, and knows the other's shapes."""
    start(rank, port)
    import crypten
    import torch

    crypten.cfg.communicator.verbose = True
    traffic = crypten.comm.get()

    def shared(parts: list[np.ndarray]) -> Any:
        own = [torch.from_numpy(part if owner == rank else np.zeros_like(part)) for owner, part in enumerate(parts)]
        return crypten.cat([crypten.cryptensor(part, src=owner) for owner, part in enumerate(own)])

    x, y = shared(outputs), shared(labels)
    parameters = [crypten.cryptensor(torch.from_numpy(p.copy()), requires_grad=True) for p in layers(weights, config)]
    kept, seconds, cost = [], [], []
    for number, batch in enumerate(plan, 1):
        traffic.reset_communication_stats()
        begin = time.perf_counter()
        rows = torch.from_numpy(batch)
        kernel, bias, last, last_bias = parameters
        hidden = (x[rows].reshape(len(batch) * CLIENTS, -1).matmul(kernel.t()) + bias).relu()
        margin = hidden.reshape(len(batch), -1).matmul(last.t()) + last_bias
        with crypten.no_grad():
            gradient = (margin.sigmoid() - y[rows].reshape(len(batch), 1)) / len(batch)
        margin.backward(gradient)
        with crypten.no_grad():
            parameters = [p - p.grad * rate for p in parameters]
        for p in parameters:
            p.requires_grad = True
        seconds.append(time.perf_counter() - begin)
        stats = traffic.get_communication_stats()
        cost.append((stats["rounds"], stats["bytes"]))
        if number % every == 0:
            kept.append(np.concatenate([p.get_plain_text().numpy().reshape(-1) for p in parameters]))
    report.send((kept, seconds, cost))


def train_in_crypten(*task: Any) -> tuple[list[np.ndarray], list[float], np.ndarray]:
    """Run both processes of `in_crypten`: kept weights, seconds of each step, [steps, 2] rounds and bytes of both."""
    spawn = multiprocessing.get_context("spawn")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    pipes = [spawn.Pipe(duplex=False) for _ in range(2)]
    processes = [spawn.Process(target=in_crypten, args=(r, port, *task, pipes[r][1]), daemon=True) for r in range(2)]
    for process, (_, reply) in zip(processes, pipes, strict=True):
        process.start()
        reply.close()
    try:
        (kept, seconds, first), (_, _, second) = (report.recv() for report, _ in pipes)
    finally:
        for process in processes:
            process.terminate()
            process.join()
    costs = np.array(first), np.array(second)
    return kept, seconds, np.stack([costs[0][:, 0], costs[0][:, 1] + costs[1][:, 1]], axis=1)


def evaluated(
    weights: np.ndarray, outputs: np.ndarray, labels: np.ndarray, config: FedXGBllrConfig
) -> dict[str, float]:
    """Return the cross-entropy in nats, and the accuracy in percent."""
    margin = cnn.predict(weights.astype(np.float32), outputs, CLIENTS, config).astype(np.float64)
    loss = np.mean(np.logaddexp(0, margin) - labels * margin)
    return {"loss": round(float(loss), 6), "accuracy": round(100 * float(np.mean((margin > 0) == (labels == 1))), 3)}


def compare(config: FedXGBllrConfig, steps: int, size: int, rate: float, every: int) -> dict[str, Any]:
    """Run both trainings from the same weights over the same batches, and return the report."""
    outputs, labels, test_outputs, test_labels = tree_tables(config)
    pooled, pooled_labels = np.concatenate(outputs), np.concatenate(labels)
    weights = cnn.initial_weights(CLIENTS, config.trees_per_client(CLIENTS), config)
    plan = batches(len(pooled), steps, size, config.seed)
    plain = in_plaintext(weights, pooled, pooled_labels, plan, rate, every, config)
    secret, seconds, cost = train_in_crypten(weights, outputs, labels, plan, rate, every, config)
    curve = []
    for number, (ours, theirs) in enumerate(zip([weights, *secret], [weights, *plain], strict=True)):
        line: dict[str, Any] = {"step": number * every}
        for name, w in (("crypten", ours), ("plaintext", theirs)):
            line[f"{name}_train"] = evaluated(w, pooled, pooled_labels, config)
            line[f"{name}_test"] = evaluated(w, test_outputs, test_labels, config)
        curve.append(line | {"largest_weight_difference": round(float(np.abs(ours - theirs).max()), 6)})
    return {
        "rows": [len(part) for part in labels],
        "test_rows": len(test_labels),
        "trees": config.total_trees,
        "parameters": len(weights),
        "steps": steps,
        "batch": size,
        "rate": rate,
        "seed": config.seed,
        "seconds_per_step": round(float(np.median(seconds[1:])), 4),
        "rounds_per_step": int(np.median(cost[1:, 0])),
        "bytes_per_step": int(np.median(cost[1:, 1])),
        "curve": curve,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--out", type=Path, required=True)
    given = parse(parser, arguments, trees=10, steps=2, batch=8, every=1)
    report = compare(FedXGBllrConfig.of(total_trees=given.trees), given.steps, given.batch, given.rate, given.every)
    given.out.write_text(json.dumps(report, indent=1) + "\n")
    last = report["curve"][-1]
    print(
        f"{report['seconds_per_step']} s, {report['rounds_per_step']} rounds, {report['bytes_per_step']} bytes per step"
    )
    print(f"crypten {last['crypten_test']}, plaintext {last['plaintext_test']} after {last['step']} steps")


if __name__ == "__main__":
    main()
