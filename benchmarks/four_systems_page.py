"""The page and the figure of the four systems side by side, from only their JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.attacks import KNOWN
from benchmarks.complexity import table
from benchmarks.figures import save, small_multiples

ASKED = {"labels": "labels", "values": "values", "members": "membership"}
COLOURS = {"columns": "#0072B2", "rows": "#D55E00"}
OWN = "XGBoost of"
MARKS = ("o", "s", "^", "D", "v", "P")


def advantage(found: float, guessing: float) -> float:
    """How far an attack is from guessing, 0, to certainty, 1; not above guessing counts as 0."""
    return max(0.0, (found - guessing) / (1 - guessing)) if guessing < 1 else 0.0


def guessing(study: dict[str, Any], division: str, question: str) -> dict[str, float]:
    """By set: 0.5 where pairs are put in order, else what an attacker without the training gets right."""
    firsts = {each["name"]: each["divisions"][division][0]["found"] for each in study["sets"]}
    return {name: found.get(question, 0.0) if question == "values" else 0.5 for name, found in firsts.items()}


def draw(study: dict[str, Any], path: Path) -> None:
    """A panel for each question: how far the attack on each system is above guessing, a mark for each set."""
    figure, axes = small_multiples(1, len(ASKED))
    figure.set_size_inches(7.2, 2.5)
    lines = [
        (division, run["system"])
        for division in COLOURS
        for run in study["sets"][0]["divisions"][division]
        if run["found"]
    ]
    for axis, (question, title) in zip(axes[0], ASKED.items(), strict=True):
        for place, (division, system) in enumerate(lines):
            level = guessing(study, division, question)
            for mark, each in zip(MARKS, study["sets"], strict=False):
                run = next(run for run in each["divisions"][division] if run["system"] == system)
                if question in run["found"]:
                    shown = advantage(run["found"][question], level[each["name"]])
                    axis.plot(shown, place, marker=mark, color=COLOURS[division], markersize=4, linestyle="none")
        axis.set(title=title, xlim=(-0.05, 1.05), ylim=(len(lines) - 0.5, -0.5), xlabel="0: guessing, 1: certainty")
        first = axis is axes[0, 0]
        axis.set_yticks(range(len(lines)), [_name(s, d) if first else "" for d, s in lines])
    for mark, each in zip(MARKS, study["sets"], strict=False):
        axes[0, 0].plot([], [], marker=mark, color="#444444", markersize=4, linestyle="none", label=each["name"])
    handles, words = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, words, loc="outside upper center", ncols=len(words), frameon=False)
    save(figure, path)


def _name(system: str, division: str) -> str:
    return f"{'own data only' if system.startswith(OWN) else system}, by {division}"


def _table(each: dict[str, Any], division: str) -> str:
    first, *_ = runs = each["divisions"][division]
    rows = []
    for run in runs:
        found = [f"{run['found'][q]:.2f}" if q in run["found"] else "" for q in ASKED]
        cost = [f"{run['seconds']:.1f}" if run["seconds"] else ""]
        cost += [f"{run[what] / 1e6:,.1f}" if run[what] else "" for what in ("bytes", "dealt")]
        cost += [f"{run['rounds']:,.0f}" if run["rounds"] else ""]
        digits = 2 if each["numbers"] else 4
        name = f"own data only ({run['system']})" if run is first else run["system"]
        rows.append([name, f"{run['quality']:.{digits}f}", *cost, *found])
    measure = "RMSE" if each["numbers"] else "AUC"
    return table(["system", measure, "s", "MB", "dealt MB", "rounds", *ASKED.values()], rows, words_first=1)


def _sections(study: dict[str, Any]) -> str:
    parts = []
    for each in study["sets"]:
        size = f"{each['rows']:,} rows to train on, {each['held']:,} held out, {each['features']} features"
        parts.append(f"### {each['name']}\n\n{size[0].upper()}{size[1:]}. By columns:\n\n{_table(each, 'columns')}")
        parts.append(f"By rows:\n\n{_table(each, 'rows')}")
    return "\n\n".join(parts)


def page(study: dict[str, Any]) -> str:
    b = study["boosting"]
    trees, depth, rate, bins = (b[name] for name in ("n_estimators", "max_depth", "learning_rate", "max_bin"))
    return f"""# The four systems side by side

Written by `python -m benchmarks.four_systems` from what it measured, `figures/four_systems.json`: edit nothing here.

Sharewood's own training, [SecureBoost](secureboost.md), [virtual samples](virtual_samples.md) and
[FedXGBllr](fedxgbllr.md) on the same tables, divided between two parties by columns or by rows as each system allows,
beside XGBoost on the pooled table and on one party's own part. The figure shows what a party that follows the
protocol can infer from what it saw, by the same attacks on each system:

![how far each attack is above guessing](figures/four_systems.png)

**The three other systems show a party's values to the other one**, as bins of its rows or as numbers of its table.
FedXGBllr's trees may also reveal who was in the training. **On what a party of Sharewood receives, the same attacks do
no better than guessing.**

## The attacks

`benchmarks/attacks.py` turns what one party saw into guesses, with the same score for all systems.

* **Labels.** The share of pairs of rows with different labels that are put into the right order: of two classes the
  AUC. A coin gives 0.5. By columns the attacker is the party without labels. It knows those of {KNOWN} rows, and
  learns from what it saw of each row: of SecureBoost the node of the row in every question, of Sharewood every word
  and bit that it received for the row. By rows the attacker knows the features of the other party's rows, and has
  what the system gives it: the other's trees, or the common model. Of Sharewood, again, it has the words that it
  received for each row. "Own data only" learns from the attacker's own columns, or is XGBoost on its own rows.
* **Values.** By columns the attacker is the party with the labels. It names the bin of each row in each of the
  other's columns, by least squares over the sums that it saw, as on [SecureBoost's page](secureboost.md): the share
  that is right. With Sharewood it is even given every gradient and node of a training, and takes words that it received
  for the sums. "Own data only" names the fullest bin. By rows it names numbers: thresholds, boundaries that are not
  its own values, or words in the range of its own column. The score is the share of them that are exactly a value of
  the other's rows. "Own data only" names its own values.
* **Membership**, by rows. Half of the candidates are rows of the other party, half are rows that nobody trained on.
  The attacker knows their features and labels, and ranks them by their loss: the AUC, where a coin gives 0.5. Nobody
  has a model of Sharewood's that gives a loss: there the attacker learns from {KNOWN} known rows and from all that it
  received while the candidates were predicted for the other party. By columns both parties know the rows.

In the figure the baseline for values is "own data only", and a coin for the rest.

We did not make attacks on Sharewood through its predictions: whoever gets predictions of rows of its choice, or a
revealed model, can do what is done to the pooled XGBoost here. Nor did we attack from what the server of virtual
samples sees: [counts of rows and of positives](virtual_samples.md#what-leaks).

## Measured

{trees} trees of depth {depth}, learning rate {rate}, {bins} bins or clusters; FedXGBllr at its own defaults, 500 trees
of depth 8; virtual samples without an update; SecureBoost with Okamoto-Uchiyama. Means over {study["seeds"]} splits:
with so few held-out rows, AUCs that differ by less than 0.01 cannot be told apart. Seconds are of the whole training
with its set-up, both parties on the same two cores. MB are those in both directions, between the parties or with the
server. Sharewood and SecureBoost run as processes with TLS. Virtual samples and FedXGBllr run in one process: rounds
and bytes are those over Flower, seconds are computation only, and Flower adds seconds to each round.

{_sections(study)}
"""
