"""The progress of a training, printed for notebooks and terminals (`fit(..., verbose=...)`)."""

from __future__ import annotations

from time import monotonic

from mpc.errors import ConfigError
from secure_tree.model.ensemble import TreeShares
from secure_tree.public.context import TrainingContext
from secure_tree.training.train import LearningCurves, Observer
from secure_tree.tree.rows import TreeRows


def check_verbose(verbose: bool | int) -> None:
    """Raise ConfigError unless it is a flag or a number of rounds."""
    if not isinstance(verbose, int) or verbose < 0:
        raise ConfigError(f"verbose must be True, False or a number of rounds, got {verbose!r}")


class Verbose:
    """An observer that prints rounds of trees, their metrics on held-out rows, and seconds per round.

    verbose: the number of rounds from line to line; True: `eval_epochs` with held-out rows, otherwise a tenth of all.
    """

    def __init__(
        self,
        verbose: int,
        rank: int,
        context: TrainingContext,
        curves: LearningCurves,
        observer: Observer | None = None,
    ) -> None:
        config = context.config
        held_out = any(context.facts.validation_rows)
        by_itself = config.eval_epochs if held_out else max(1, config.n_estimators // 10)
        self._every = by_itself if verbose is True else verbose
        self._rank, self._of_round, self._curves, self._observer = rank, config.trees_of_round, curves, observer
        self._rounds = self._grown = self._printed = 0
        self._began = monotonic()

    def __call__(self, number: int, tree: TreeShares, rows: TreeRows) -> None:
        """Count a tree. A round is printed once the next one has grown, since it is evaluated in between."""
        if self._observer:
            self._observer(number, tree, rows)
        if (number + 1) % self._of_round == 0:
            if self._rounds and self._rounds % self._every == 0:
                self._print()
            self._rounds = (number + 1) // self._of_round
            self._grown += 1

    def end(self) -> None:
        """Print the last round, whatever its number."""
        if self._rounds != self._printed:
            self._print()

    def _print(self) -> None:
        self._printed = self._rounds
        found = {name: dict(curve).get(self._rounds) for name, curve in self._curves.items()}
        metrics = "".join(f"\t{name}:{value:.5f}" for name, value in found.items() if value is not None)
        seconds = (monotonic() - self._began) / self._grown
        # One write, so that the lines of two processes on one terminal stay whole.
        print(f"party {self._rank}\t[{self._rounds}]{metrics}\t{seconds:.2f} s per round\n", end="", flush=True)
