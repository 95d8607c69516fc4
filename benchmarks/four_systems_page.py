"""Write the page and the figure of the four systems side by side from their JSON."""

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
    """Return how far an attack is from guessing (0) to certainty (1); anything below guessing counts as 0."""
    return max(0.0, (found - guessing) / (1 - guessing)) if guessing < 1 else 0.0


def guessing(study: dict[str, Any], division: str, question: str) -> dict[str, float]:
    """Return by set 0.5 if pairs are ordered, and otherwise the score of an attacker without the training."""
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

`python -m benchmarks.four_systems` writes this page from its measurements in `figures/four_systems.json`; do not edit
it by hand.

This page compares Sharewood's own training, [SecureBoost](secureboost.md), [virtual samples](virtual_samples.md) and
[FedXGBllr](fedxgbllr.md) on the same tables, divided between two parties by columns or by rows as each system allows,
with XGBoost on the pooled table and on one party's own part. The figure shows what a party that follows the protocol
can infer from what it sees, by the same attacks on each system:

![how far each attack is above guessing](figures/four_systems.png)

**The three other systems reveal a party's values to the other party**, as bins of its rows or as numbers of its table.
FedXGBllr's trees may also reveal which rows were in the training. **On the messages of Sharewood, the same attacks are
no better than guessing.**

## The attacks

`benchmarks/attacks.py` turns the view of one party into guesses, with the same score for all systems.

* **Labels.** The score is the fraction of pairs of rows with different labels that are ordered correctly; for two
  classes, this is the AUC. A coin gives 0.5. By columns, the attacker is the party without labels. It knows the labels
  of {KNOWN} rows, and learns from what it saw of each row: for SecureBoost the node of the row in every request, for
  Sharewood every word and bit that it received for the row. By rows, the attacker knows the features of the other
  party's rows, and has what the system gives it: the other party's trees, or the common model. For Sharewood it has,
  again, the words that it received for each row. "Own data only" learns from the attacker's own columns, or is XGBoost
  on its own rows.
* **Values.** By columns, the attacker is the party with the labels. It guesses the bin of each row in each of the other
  party's columns, by least squares over the sums that it saw, as on [SecureBoost's page](secureboost.md). The score is
  the fraction of correct guesses. For Sharewood, the attacker is even given every gradient and node of a training, and
  uses words that it received as the sums. "Own data only" guesses the fullest bin. By rows, the attacker guesses
  numbers: thresholds, boundaries that are not its own values, or words in the range of its own column. The score is the
  fraction of them that equal a value of the other party's rows. "Own data only" guesses its own values.
* **Membership**, by rows. Half of the candidates are rows of the other party, and half are rows that nobody trained on.
  The attacker knows their features and labels, and ranks them by their loss; the score is the AUC, and a coin gives
  0.5. In Sharewood, nobody has a model that gives a loss: there, the attacker learns from {KNOWN} known rows and from
  everything that it received while the candidates were predicted for the other party. By columns, both parties know the
  rows.

In the figure, the baseline is "own data only" for values, and a coin for the rest.

We did not attack Sharewood through its predictions: whoever gets predictions for rows of its choice, or a revealed
model, can do what is done here to the pooled XGBoost model. Nor did we attack from the view of the server of virtual
samples: [counts of rows and of positives](virtual_samples.md#what-leaks).

## Measured

Models have {trees} trees of depth {depth}, learning rate {rate}, and {bins} bins or clusters. FedXGBllr has its own
defaults, 500 trees of depth 8; virtual samples have no update; SecureBoost uses Okamoto-Uchiyama. Figures are means
over {study["seeds"]} splits: with the small number of held-out rows, differences of less than 0.01 in AUC are not
significant. Seconds are those of the whole training with its set-up, with both parties on the same two cores. MB are
those in both directions, between the parties or with the server. Sharewood and SecureBoost run as processes with TLS.
Virtual samples and FedXGBllr run in one process: rounds and bytes are those over Flower, seconds are computation only,
and Flower adds seconds to each round.

{_sections(study)}
"""
