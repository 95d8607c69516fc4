"""Sections that the reports share: learning, quality, cost, memory, configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np

from secure_tree.config import TrainConfig
from sharewood.figures import MEASURES, Phase, Run
from sharewood.page.charts import Chart, Line, Whose, bars, lines, some, spans
from sharewood.page.document import Section, Table
from sharewood.page.units import number, seconds, size
from sharewood.shard_costs import Peak, ShardCosts, by_process

_WHOSE: dict[str, Whose] = {"Sharewood": "ours", "XGBoost": "theirs"}
_STEPS = 200


def about(run: Run) -> str:
    """Which run a report is of."""
    date = datetime.fromisoformat(run.date)
    files = "".join(f"; {role.replace('_', ' ')}: {name}" for role, name in run.files.items())
    return f"{date:%Y-%m-%d %H:%M %Z}; Sharewood {run.version}; id of the model: {run.id}{files}."


def files(run: Run) -> Section:
    """The files of a run with their digests."""
    rows = [[role.replace("_", " "), run.files.get(role, ""), digest] for role, digest in run.digests.items()]
    sentences = [
        f"Id of the run: {run.run}. Equal digests mean equal files. They are keyed (HMAC-SHA256) by a key of this "
        "user, the part before the colon, and tell nobody else anything about what the files hold."
    ]
    return Section("Files", sentences, table=Table(["role", "file", "digest"], rows, texts=3))


def ranking_charts(labels: np.ndarray, margins: Mapping[str, np.ndarray]) -> list[Chart]:
    """ROC and precision-recall of margins, a line for each name. Labels are 0 and 1, and both are there."""
    from sklearn import metrics

    roc, recall = [], []
    for name, margin in margins.items():
        false, true, _ = metrics.roc_curve(labels, margin)
        area = metrics.roc_auc_score(labels, margin)
        roc.append(Line(f"{name}, area {area:.4f}", *_thinned(false, true), _WHOSE[name], name != "Sharewood"))
        precision, recalled, _ = metrics.precision_recall_curve(labels, margin)
        area = metrics.average_precision_score(labels, margin)
        points = _thinned(recalled[::-1], precision[::-1])
        recall.append(Line(f"{name}, average precision {area:.4f}", *points, _WHOSE[name], name != "Sharewood"))
    share = float(np.mean(labels))
    roc.append(Line("by chance", [0, 1], [0, 1], "chance"))
    recall.append(Line(f"by chance, {share:.3f}", [0, 1], [share, share], "chance"))
    axes = "false positive rate", "true positive rate"
    return [
        lines("roc", "ROC: positives found against negatives taken for positives.", roc, *axes, unit=True),
        lines(
            "recall", "Precision-recall: how many of those found are positives.", recall, "recall", "precision", True
        ),
    ]


def _thinned(x: np.ndarray, y: np.ndarray) -> tuple[list[float], list[float]]:
    kept = some(len(x), _STEPS)
    return x[kept].tolist(), y[kept].tolist()


def cost(phases: list[list[str]], note: str) -> Section:
    """Rows of phase, seconds, rounds, bytes between the parties, bytes from the dealer."""
    columns = ["phase", "time", "rounds", "between the parties", "from the dealer"]
    return Section("Time and traffic by phase", [note], table=Table(columns, phases))


def phase(name: str, spent: Phase) -> list[str]:
    """A row of `cost`."""
    dealt = "" if spent.bytes_dealt is None else size(spent.bytes_dealt)
    return [name, seconds(spent.seconds), f"{spent.rounds:,.0f}", size(spent.bytes), dealt]


def tree_parts(parts: Mapping[str, Phase], rounds: int | None) -> Section:
    """Where trees spend time, messages and bytes online: the mean of so many rounds of trees, or with None the sum."""
    each = {name: spent.per(rounds or 1) for name, spent in parts.items()}
    total = max(sum(spent.seconds for spent in each.values()), 1e-12)
    unit, name_of_unit = (1e3, "ms") if rounds else (1, "s")
    rows = [
        [
            name,
            number(unit * s.seconds),
            f"{s.seconds / total:.0%}",
            f"{s.rounds:,.0f}",
            size(s.bytes),
            size(s.bytes_dealt or 0),
        ]
        for name, s in each.items()
    ]
    time = "Milliseconds." if rounds else "Seconds."
    charts = [
        bars("parts-time", time, {name: unit * s.seconds for name, s in each.items()}),
        bars("parts-rounds", "Rounds of messages.", {name: s.rounds for name, s in each.items()}),
        bars("parts-traffic", "MB in both directions.", {name: s.bytes / 1e6 for name, s in each.items()}),
    ]
    what = "One round of trees: the mean over the training." if rounds else "All rounds of trees of this run."
    what += " Dealt ahead: what the dealer had sent, offline, for the stage to use."
    table = Table(["stage", name_of_unit, "share", "rounds", "bytes", "dealt ahead"], rows)
    return Section("Trees online, stage by stage", [what], charts, table)


def memory(peaks: Mapping[str, Peak]) -> Section:
    """The largest resident memory of each process."""
    rows = [[name, size(peak)] for name, peak in by_process(peaks).items()]
    return Section(
        "Memory", ["The most that a process ever held, libraries included."], table=Table(["process", "peak"], rows)
    )


_WORK = {"setup": "set-up", "offline": "offline", "online": "online", "predict": "prediction"}


def shards(workers: Mapping[str, Sequence[ShardCosts]]) -> Section:
    """What every worker of a party has done, and when."""
    named = {f"{name}, shard {each.shard}": each for name, some in workers.items() for each in some}
    rows = [
        [
            name,
            *(seconds(each.busy_seconds.get(phase, 0.0)) for phase in _WORK),
            seconds(each.cpu_seconds),
            size(each.bytes),
            size(each.memory_peak_bytes),
        ]
        for name, each in named.items()
    ]
    caption = "When each worker had work of its lead, waiting for its peer and the dealer included."
    chart = spans("shards", caption, {name: each.busy for name, each in named.items()}, _WORK)
    columns = ["worker", *_WORK.values(), "CPU time", "with its peer", "peak memory"]
    what = "Seconds of work by phase. A worker that was replaced is not in it. Clocks of a party's machines may differ."
    return Section("Work by shard", [what], [chart], Table(columns, rows))


def configuration(config: TrainConfig) -> Section:
    """Every parameter; all are public and the same at both parties."""
    rows = [[name, _shown(value)] for name, value in config]
    return Section(
        "Configuration", ["Public, and the same at both parties."], table=Table(["parameter", "value"], rows, texts=2)
    )


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "not set" if value is None else str(value)


def disclosure(revealed: Mapping[str, list[str]], facts: list[str], dealer: bool = True) -> Section:
    """What was public, what each party learned, a dealer if there was one, and what nobody saw."""
    rows = [["everybody", "; ".join(facts)]]
    for name, learned in revealed.items():
        rows.append([name, "; ".join(_alike(learned)) or "nothing"])
    rows += [
        ["only their owner", "rows, labels, bin edges unless they are joint"],
        *([["dealer", "the shapes of the computation; no data, and nothing of the model"]] if dealer else []),
        ["nobody", "gradients, histograms, which feature a node splits on, thresholds, leaf weights, the model"],
    ]
    return Section(
        "What was public, and what was revealed",
        ["Each line of a party is what its own process recorded at the one exit that shares have."],
        table=Table(["who", "learned"], rows, texts=2),
    )


def _alike(texts: list[str]) -> list[str]:
    """Each text once; those that differ only in one number as one text with all the numbers."""
    groups: dict[str, list[str]] = {}
    for text in dict.fromkeys(texts):
        numbers = re.findall(r"\d+", text)
        form = text.replace(numbers[0], "\0", 1) if len(numbers) == 1 else text
        groups.setdefault(form, []).extend(numbers[:1])
    return [form.replace("\0", ", ".join(numbers)) for form, numbers in groups.items()]


def named(measure: str) -> str:
    """A measure of quality in words."""
    return MEASURES.get(measure, measure)


def learning(metric: str, evaluated: str, drawn: list[Line]) -> Chart:
    """The metric by the number of rounds."""
    name = named(metric)
    return lines(f"curve-{metric}", f"{name[0].upper()}{name[1:]} on {evaluated}.", drawn, "rounds of trees", name)


def measured(value: float | None) -> str:
    """A measure of quality."""
    return "undefined" if value is None else f"{value:.4f}" if abs(value) < 10 else number(value, 5)
