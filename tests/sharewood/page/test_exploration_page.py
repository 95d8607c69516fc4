"""The page of an exploration: its numbers are those of the result, hidden cells are hatched, names are text."""

import html
import re
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest

from secure_tree.explore.config import ExploreConfig
from secure_tree.explore.own_table import QUANTILES, OwnTable
from secure_tree.explore.result import Exploration, Screened
from sharewood.page import exploration_page
from sharewood.page.charts import bars, boxes, heat
from sharewood.page.exploration import PagedExploration
from sharewood.page.units import number
from tests.sharewood.page.pages import check_page

NAMES = "party_a", "party_b"


def exploration(features=4, bins=3, name="income {}", **parameters):
    """A result as party_b sees it, with the labels; the numbers are as different as they can be."""
    given = {"partition": "vertical", "bins": bins, "reveal": "woe", "statistics": ("iv", "auc", "correlation")}
    config = ExploreConfig.of(**given | parameters)
    of_each = [(f % 2, name.format(f)) for f in range(features)]
    rng = np.random.default_rng(6)
    woe = rng.normal(size=(config.groups, features, bins + 1)).round(3)
    woe[0, 0, 1] = woe[0, 1, 2] = np.nan
    own = pd.DataFrame(rng.uniform(1, 99, (features // 2, 3)), columns=["missing", "mean", "deviation"])
    own.index = [f for p, f in of_each if p == 1]
    quantiles = pd.DataFrame(np.sort(rng.uniform(1, 99, (features // 2, 5))), own.index, list(QUANTILES))
    mixed = rng.uniform(-1, 1, (features, features)).round(3)
    return Exploration(
        run="0badcafe" * 4,
        config=config,
        rows=(2600, 2600),
        screened=Screened(tuple(tuple(f for p, f in of_each if p == r) for r in (0, 1)), 1, "iv", 300, 7),
        features=of_each,
        numbers={s: rng.uniform(0.1, 0.9, (config.groups, features)).round(3) for s in config.shown},
        woe=woe,
        moments={},
        correlation=(mixed + mixed.T) / 2,
        label_rate=None,
        starts={},
        own=own,
        quantiles=quantiles,
        counts=[2000, 600],
        bits={"names": 31, "iv": 44, "woe": 120},
        spent=100,
        budget=1000.9,
        privacy=None,
        ledger=7,
        revealed=["which 4 of 300 features have the largest iv", "the iv of 4 features, to 0.0039"],
    )


def page_of(found, party="party_b"):
    document = exploration_page(found, party, NAMES)
    return check_page(document), document


def hatched(document):
    """Count the cells that are filled with a pattern of lines."""
    patterns = re.findall(r'<pattern[^>]* id="([^"]+)"', document)
    return sum(len(re.findall(rf"fill: url\(#{name}\)", document)) for name in patterns)


def drawn(document, chart):
    """Return the texts of one chart."""
    (svg,) = re.findall(rf'<svg(?:(?!<svg)[\s\S])*?aria-labelledby="{chart}-caption"[\s\S]*?</svg>', document)
    return [html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]


def test_what_was_told_and_the_budget_come_first():
    found = exploration()
    text, _ = page_of(found)
    first = text[text.index("Exploration at party_b") : text.index("Numbers")]
    for said in (
        "told about the labels 195 bits",
        "budget left 705 bits of 1,001; earlier: 100",
        "own label rate 23.08% of 2,600 own rows, not revealed",
        "line 7 of the ledger",
        "everybody 2,600 rows; the names of 300 features",
        "party_b which 4 of 300 features have the largest iv; the iv of 4 features, to 0.0039",
        "party_a the same nobody",
        "information value at most 44 bits",
        "weight of evidence by bin at most 120 bits",
        "marks a single row",
    ):
        assert said in first, said
    assert "floors rows=1000 class_rows=100" in text


def test_numbers_are_those_of_the_result():
    found = exploration(7)
    text, document = page_of(found)
    for statistic in ("iv", "auc"):
        values = found.by_name(statistic)
        expected = sorted(values, key=values.get, reverse=True)
        shown = drawn(document, statistic)
        assert [t for t in shown if t in values] == expected
        assert [t for t in shown if t in {number(v) for v in values.values()}][-7:] == [
            number(values[f]) for f in expected
        ]
        assert all(f"{f} {number(found.iv[f])} {number(found.by_name('auc')[f])}" in text for f in values)
    cells = [t for t in drawn(document, "correlation") if "income" not in t]
    ranked = sorted(np.argsort(-found.numbers["iv"][0])[:20])
    assert cells == [number(found.correlation[i, j], 2) for i in ranked for j in ranked if j < i]
    for feature, line in found.quantiles.iterrows():
        shown = drawn(document, "quantiles")
        assert feature in shown and {number(line.iloc[0]), number(line.iloc[-1])} <= set(shown)
        assert f"{feature} {' '.join(number(v) for v in (*found.own.loc[feature], line[0.5]))}" in text


def test_hidden_cells_are_hatched_and_no_others():
    found = exploration()
    text, document = page_of(found)
    assert hatched(document) == 2 and "2 of 16 bins are hidden" in text
    order = np.argsort(-found.numbers["iv"][0])
    values = [number(v, 2) for v in found.woe[0, order].ravel() if v == v]
    assert drawn(document, "woe-0")[-len(values) :] == values
    shown = replace(found, woe=np.where(np.isnan(found.woe), 0.5, found.woe))
    assert hatched(page_of(shown)[1]) == 0
    nothing = replace(found, woe=np.full_like(found.woe, np.nan))
    assert hatched(page_of(nothing)[1]) == found.woe.size


def test_several_classes_have_evidence_each():
    text, document = page_of(exploration(classes=3))
    assert "Weight of evidence of class 2 by bin" in text and len(drawn(document, "woe-2")) > 16


@pytest.mark.parametrize("to", [0, 1])
def test_numbers_for_one_party(to):
    found = exploration(to=to)
    if to == 0:
        found = replace(found, numbers={}, woe=None, correlation=None)
    text, document = page_of(found)
    kinds = "information value, AUC of a single feature, weight of evidence by bin"
    assert f"party_a the same, {'but not' if to else 'and in addition'} {kinds}" in text
    assert ("iv-caption" in document) == ("woe-0-caption" in document) == bool(to)


def test_names_from_tables_are_text_and_no_formulas():
    hostile = '$\\frac{{$<script>alert("x")</script>&{}' + "y" * 60
    name = hostile.format(2)
    text, document = page_of(exploration(name=hostile))
    assert name in text and "<script" not in document
    shortened = f"{name[:13]}\N{HORIZONTAL ELLIPSIS}{name[-14:]}"
    for chart in ("iv", "woe-0", "correlation"):
        assert shortened in drawn(document, chart)
    plain, _ = page_of(exploration(name="$x_{}$"))
    assert "$x_1$" in plain


def test_a_page_of_names_alone_has_no_numbers():
    found = exploration(reveal="names", statistics=("iv",))
    text, document = page_of(replace(found, numbers={}, woe=None, correlation=None, counts=[], budget=None))
    assert "Features, in the order of the tables party feature party_a income 0 party_b income 1" in text
    assert "budget left" not in text and "label rate" not in text and document.count("<figure") == 1, "the quantiles"


def test_noise_and_a_revealed_label_rate():
    text, _ = page_of(replace(exploration(), privacy=(0.25, 3.97, 1e-6), label_rate=0.125))
    assert "epsilon of the labels 3.97 at delta 1e-06; rho 0.25" in text
    assert "label rate 12.50% of all rows, revealed to both" in text


def test_a_page_of_1500_features_is_light():
    found = exploration(1500, 10)
    text, document = page_of(found)
    assert len(document) < 500_000
    assert text.count("The first 200 of") == 2
    best = max(found.iv, key=found.iv.get)
    assert f"the largest number first The first 200 of 1,500. party feature iv auc party_a {best}" in text or (
        f"the largest number first The first 200 of 1,500. party feature iv auc party_b {best}" in text
    )


def test_a_result_saves_its_page(tmp_path):
    found = exploration()
    PagedExploration(**{f.name: getattr(found, f.name) for f in fields(found)}).save_page(tmp_path / "x.html")
    text = check_page((tmp_path / "x.html").read_text())
    assert "Exploration at this party" in text and "the other party the same" in text


def test_charts_of_odd_numbers():
    assert "0.1" in drawn(bars("b", "", {"1": -0.5, "2": 0.1, "3": 0.0}).svg, "b")
    assert drawn(heat("h", "", {"row": [0.0, -0.25]}, ["x", "z"]).svg, "h") == ["x", "z", "row", "0", "-0.25"]
    assert drawn(boxes("q", "", {"same": [5.0] * 5}).svg, "q") == ["same", "5", "5"]


def test_quantiles_are_of_named_numbers():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"a": rng.normal(size=200), "b": 1, "kind": pd.Categorical(["x", "y"] * 100)})
    frame.loc[:20, "a"] = np.nan
    found = OwnTable.read(frame, None, None, None, ExploreConfig.of()).quantiles(("a", "kind"))
    assert list(found.index) == ["a"]
    assert np.allclose(found.loc["a"], np.nanquantile(frame["a"], QUANTILES))
