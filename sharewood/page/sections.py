"""Sections that the reports share: learning, quality, cost, memory, configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np

from secure_tree.public.config import Parameters
from sharewood.page.charts import Chart, ChartLine, Whose, bars, lines, some, spans
from sharewood.page.document import CellTable, Section
from sharewood.page.units import number, seconds, size
from sharewood.report.figures import MEASURES, Phase, Run, merge_texts
from sharewood.report.shards import Peak, ShardCosts, by_process

_WHOSE: dict[str, Whose] = {"Sharewood": "ours", "XGBoost": "theirs"}
_STEPS = 200
# Groups of rows of a calibration curve, and shares of rows above a cut-off.
_GROUPS = 10
_FLAGGED = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)


def about(run: Run) -> str:
    """Identify the run of a report."""
    date = datetime.fromisoformat(run.date)
    files = "".join(f"; {role.replace('_', ' ')}: {name}" for role, name in run.files.items())
    return f"{date:%Y-%m-%d %H:%M %Z}; Sharewood {run.version}; id of the model: {run.id}{files}."


def files(run: Run) -> Section:
    """List the files of a run with their digests."""
    rows = [[role.replace("_", " "), run.files.get(role, ""), digest] for role, digest in run.digests.items()]
    sentences = [
        f"Id of the run: {run.run}. Equal digests mean equal files. Digests are HMAC-SHA256 under a key of this "
        "user, whose id precedes the colon, and reveal nothing about the files to anybody else."
    ]
    return Section("Files", sentences, table=CellTable(["role", "file", "digest"], rows, texts=3))


def ranking_charts(labels: np.ndarray, margins: Mapping[str, np.ndarray]) -> list[Chart]:
    """Draw ROC and precision-recall curves of margins, one line per name. Labels are 0 and 1, and both occur."""
    from sklearn import metrics

    roc, recall = [], []
    for name, margin in margins.items():
        false, true, _ = metrics.roc_curve(labels, margin)
        area = metrics.roc_auc_score(labels, margin)
        roc.append(ChartLine(f"{name}, area {area:.4f}", *_thinned(false, true), _WHOSE[name], name != "Sharewood"))
        precision, recalled, _ = metrics.precision_recall_curve(labels, margin)
        area = metrics.average_precision_score(labels, margin)
        points = _thinned(recalled[::-1], precision[::-1])
        recall.append(ChartLine(f"{name}, average precision {area:.4f}", *points, _WHOSE[name], name != "Sharewood"))
    share = float(np.mean(labels))
    roc.append(ChartLine("by chance", [0, 1], [0, 1], "chance"))
    recall.append(ChartLine(f"by chance, {share:.3f}", [0, 1], [share, share], "chance"))
    axes = "false positive rate", "true positive rate"
    return [
        lines("roc", "ROC: true positive rate against false positive rate.", roc, *axes, axes="unit"),
        lines("recall", "Precision against recall.", recall, "recall", "precision", "unit"),
    ]


def decisions(labels: np.ndarray, margins: Mapping[str, np.ndarray]) -> Section:
    """Show what predictions are worth for decisions: calibration, and cut-offs. Labels are 0 and 1, and both occur."""
    from sklearn import metrics

    share = float(np.mean(labels))
    worth = []
    for name, margin in margins.items():
        false, true, _ = metrics.roc_curve(labels, margin)
        average, area = metrics.average_precision_score(labels, margin), metrics.roc_auc_score(labels, margin)
        worth.append(f"{name}: average precision {average:.4f}, KS {max(true - false):.4f}, Gini {2 * area - 1:.4f}.")
    sentences = [
        f"{share:.2%} of these rows are positive: the same answer for all is right in {max(share, 1 - share):.2%}.",
        *worth,
        "The table flags the rows with the highest probabilities of Sharewood's model, down to each cut-off.",
    ]
    drawn = [_calibration(name, labels, 1 / (1 + np.exp(-margin))) for name, margin in margins.items()]
    most = max(value for line in drawn for value in (*line.x, *line.y))
    drawn.append(ChartLine("perfect", [0, most], [0, most], "chance"))
    caption = "Share of positive rows against the mean predicted probability, in ten groups of equally many rows."
    chart = lines("calibration", caption, drawn, "predicted probability", "share of positive rows", "values")
    columns = ["flagged rows", "cut-off", "precision", "recall"]
    return Section(
        "Calibration and cut-offs", sentences, [chart], CellTable(columns, _cut_offs(labels, margins["Sharewood"]))
    )


def _calibration(name: str, labels: np.ndarray, probability: np.ndarray) -> ChartLine:
    groups = np.array_split(np.argsort(probability, kind="stable"), min(_GROUPS, len(labels)))
    predicted, observed = ([float(v[rows].mean()) for rows in groups] for v in (probability, labels))
    return ChartLine(name, predicted, observed, _WHOSE[name], name != "Sharewood", marked=True)


def _cut_offs(labels: np.ndarray, margin: np.ndarray) -> list[list[str]]:
    probability = np.sort(1 / (1 + np.exp(-margin)))[::-1]
    caught = np.cumsum(labels[np.argsort(-margin, kind="stable")])
    counts = sorted({max(1, round(share * len(labels))) for share in _FLAGGED})
    return [
        [
            f"{n / len(labels):.1%}",
            f"{probability[n - 1]:.4f}",
            f"{caught[n - 1] / n:.1%}",
            f"{caught[n - 1] / caught[-1]:.1%}",
        ]
        for n in counts
    ]


def _thinned(x: np.ndarray, y: np.ndarray) -> tuple[list[float], list[float]]:
    kept = some(len(x), _STEPS)
    return x[kept].tolist(), y[kept].tolist()


def cost(phases: list[list[str]], note: str) -> Section:
    """Make a table of phases with seconds, rounds, bytes between the parties, and bytes from the dealer."""
    columns = ["phase", "time", "rounds", "between the parties", "from the dealer"]
    return Section("Time and traffic by phase", [note], table=CellTable(columns, phases))


def phase(name: str, spent: Phase) -> list[str]:
    """Return a row of `cost`."""
    dealt = "" if spent.bytes_dealt is None else size(spent.bytes_dealt)
    return [name, seconds(spent.seconds), f"{spent.rounds:,.0f}", size(spent.bytes), dealt]


def tree_parts(parts: Mapping[str, Phase], rounds: int | None) -> Section:
    """Show online time, messages and bytes of trees by stage: the mean per round of trees, or the sum for None."""
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
    what += " Dealt ahead: what the dealer sent for the stage in the offline phase."
    table = CellTable(["stage", name_of_unit, "share", "rounds", "bytes", "dealt ahead"], rows)
    return Section("Trees online, stage by stage", [what], charts, table)


def memory(peaks: Mapping[str, Peak]) -> Section:
    """Show the peak resident memory of each process."""
    rows = [[name, size(peak)] for name, peak in by_process(peaks).items()]
    return Section(
        "Memory",
        ["Peak resident memory of each process, including libraries."],
        table=CellTable(["process", "peak"], rows),
    )


_WORK = {"setup": "set-up", "offline": "offline", "online": "online", "predict": "prediction"}


def shards(workers: Mapping[str, Sequence[ShardCosts]]) -> Section:
    """Show the work of every worker of a party over time."""
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
    caption = "When each worker had work from its lead, including waiting for its peer and the dealer."
    chart = spans("shards", caption, {name: each.busy for name, each in named.items()}, _WORK)
    columns = ["worker", *_WORK.values(), "CPU time", "with its peer", "peak memory"]
    what = "Seconds of work by phase. Replaced workers are not included. Clocks of a party's machines may differ."
    return Section("Work by shard", [what], [chart], CellTable(columns, rows))


def configuration(config: Parameters) -> Section:
    """List all parameters, which are public and the same at both parties."""
    rows = [[name, _shown(value)] for name, value in config]
    return Section(
        "Configuration",
        ["Public, and the same at both parties."],
        table=CellTable(["parameter", "value"], rows, texts=2),
    )


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "not set" if value is None else str(value)


def disclosure(revealed: Mapping[str, list[str]], facts: list[str], dealer: bool = True) -> Section:
    """List what was public, what each party and the dealer learned, and what nobody saw."""
    rows = [["everybody", "; ".join(facts)]]
    for name, learned in revealed.items():
        rows.append([name, "; ".join(merge_texts(learned)) or "nothing"])
    rows += [
        ["only their owner", "rows, labels, bin edges unless they are joint"],
        *([["dealer", "the shapes of the computation, but no data, and nothing of the model"]] if dealer else []),
        ["nobody", "gradients, histograms, which feature a node splits on, thresholds, leaf weights, the model"],
    ]
    return Section(
        "What was public, and what was revealed",
        ["Each party's process records every value that it reveals; these are the records."],
        table=CellTable(["who", "learned"], rows, texts=2),
    )


def named(measure: str) -> str:
    """Format the value of a metric."""
    return MEASURES.get(measure, measure)


def learning(metric: str, evaluated: str, drawn: list[ChartLine]) -> Chart:
    """Draw the metric by the number of rounds."""
    name = named(metric)
    return lines(f"curve-{metric}", f"{name[0].upper()}{name[1:]} on {evaluated}.", drawn, "rounds of trees", name)


def measured(value: float | None) -> str:
    """A measure of quality."""
    return "undefined" if value is None else f"{value:.4f}" if abs(value) < 10 else number(value, 5)
