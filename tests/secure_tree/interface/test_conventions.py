"""What scikit-learn's functions expect of the estimators."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score

from mpc.errors import ConfigError, DataError
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.data.categories import dictionary
from secure_tree.data.table import read_features
from secure_tree.interface.parameters import DEFAULTS
from secure_tree.public import refused
from secure_tree.public.config import ALIASES, TrainConfig
from tests.secure_tree.opened import train_both
from tests.secure_tree.test_twin import halves, table


@pytest.mark.parametrize("kind", [SecureXGBClassifier, SecureXGBRegressor])
def test_parameters_and_clone(kind):
    estimator = kind(learning_rate=0.2, max_bin="exact", missing=["f0"])
    assert repr(estimator) == f"{kind.__name__}(learning_rate=0.2, max_bin='exact', missing=['f0'])"
    copy = clone(estimator)
    assert type(copy) is kind and copy is not estimator and copy.get_params() == estimator.get_params()
    assert copy.set_params(max_depth=5, learning_rate=0.7) is copy
    assert copy.get_params()["max_depth"] == 5 and estimator.get_params()["max_depth"] == 3
    with pytest.raises(ConfigError, match="unknown parameter max_dept: did you mean max_depth"):
        copy.set_params(max_dept=2)
    with pytest.raises(ConfigError, match="learning_rate"):
        copy.set_params(max_depth=4, learning_rate=2)
    assert copy.get_params()["max_depth"] == 5


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"n_estimators": 0}, "n_estimators must be at least 1, got 0"),
        ({"n_estimators": 2.5}, r"n_estimators must be a whole number, got 2\.5"),
        ({"max_depth": 9}, "max_depth must be at most 8, got 9"),
        ({"learning_rate": "fast"}, "learning_rate must be a number, got 'fast'"),
        ({"learning_rate": 0}, "learning_rate must be above 0, got 0"),
        ({"partition": "rows"}, "partition must be 'horizontal' or 'vertical', got 'rows'"),
        ({"missing": np.nan}, r'missing must be "none", "all" or a list of columns, got nan: .* use missing="all"'),
        ({"missing": -999.0}, r"missing must be .*, got -999\.0: only NaN is a missing value; .*"),
        ({"random_state": None}, "random_state must be a whole number, got None: both parties draw by the same .*"),
        ({"callbacks": []}, "callbacks is not supported: pass observer or verbose to fit"),
        ({"quantile_alpha": 0.5}, "quantile_alpha is not supported: it belongs to reg:quantileerror, .*"),
        ({"objective": "multi:softmax"}, "num_class must be set for multi:ova and multi:softprob, and only for them"),
        ({"objective": "binary:logitraw"}, "objective binary:logitraw is not available: use binary:logistic, .*"),
        ({"objective": len}, "objective must be a name: a function has no protocol .*"),
        (
            {"objective": "classes"},
            "objective must be binary:logistic, multi:ova, multi:softprob, .* or reg:tweedie, got 'classes'",
        ),
        ({"missing": ["x" * 100] * 2 + [1]}, r"missing must be 'none' or 'all', got \['x{58}\.\.\."),
        ({"tree_method": "hist"}, "tree_method is not supported: leave it out; trees are always grown from histograms"),
    ],
)
def test_a_refused_parameter_is_named_with_what_it_must_be_and_was(parameters, sentence):
    with pytest.raises(ConfigError, match=rf"^{sentence}$"):
        SecureXGBClassifier(**parameters)


def test_all_mistakes_are_told_at_once():
    said = "2 mistakes: n_estimators must be a whole number, got 'x'; max_depth must be at most 8, got 9"
    with pytest.raises(ConfigError, match=f"^{said}$"):
        SecureXGBClassifier(n_estimators="x", max_depth=9, max_bin=16)
    with pytest.raises(ConfigError, match=r"^3 mistakes: objective must be .*; missing must be .*; .* did you mean"):
        TrainConfig.of(objective="rank:x", missing=["x", 1], max_dept=9)


def test_every_refusal_of_an_objective_or_parameter_of_xgboost_says_what_to_do():
    xgboost = pytest.importorskip("xgboost")
    known = set(inspect.signature(xgboost.XGBModel.__init__).parameters) - {"self", "kwargs"}
    for name in known - {*DEFAULTS, *ALIASES}:
        with pytest.raises(ConfigError, match=f"^{name} is not supported: "):
            SecureXGBClassifier(**{name: 1})
    for name in refused.OBJECTIVES:
        with pytest.raises(ConfigError, match=f"^objective {name} is not available: .*use "):
            SecureXGBRegressor(objective=name)
    assert refused.markdown() in (Path(__file__).parents[3] / "docs" / "secure_tree.md").read_text()


@pytest.mark.parametrize("kind", [SecureXGBClassifier, SecureXGBRegressor])
def test_every_parameter_has_a_name_a_default_and_a_word(kind):
    parameters = inspect.signature(kind).parameters
    names = [name for name, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    assert names == list(DEFAULTS) and set(names) == set(TrainConfig.model_fields)
    assert all(re.search(rf"\n{name} : .+, default .+\n    \w", inspect.getdoc(kind)) for name in names)
    assert '\nmissing : "none", "all" or list of str, default none (XGBoost: NaN)\n' in inspect.getdoc(kind)
    config = kind().config
    for name in names:
        assert parameters[name].default in (None, getattr(config, name))


def test_names_of_xgboost():
    params = SecureXGBClassifier(**{"eta": 0.3, "gamma": 1.0, "lambda": 2.0, "alpha": 0.5, "n_rounds": 7, "seed": 3})
    assert params.learning_rate == 0.3 and params.min_split_loss == 1.0 and params.reg_lambda == 2.0
    assert params.reg_alpha == 0.5 and params.n_estimators == 7 and params.random_state == 3
    assert params.set_params(gamma=2.0).config.min_split_loss == 2.0 and "gamma" not in params.get_params()
    assert TrainConfig.of(num_boost_round=5, n_estimators=5).n_estimators == 5
    for given in ({"eta": 0.3, "learning_rate": 0.2}, {"alpha": 0.3, "reg_alpha": 0.2}):
        for make in (SecureXGBRegressor, TrainConfig.of):
            with pytest.raises(ConfigError, match=r"is an alias of .*set only one of them"):
                make(**given)


def test_objectives_of_the_other_estimator():
    with pytest.raises(ConfigError, match="got objective reg:squarederror: use SecureXGBRegressor"):
        SecureXGBClassifier(objective="reg:squarederror")
    with pytest.raises(ConfigError, match="got objective binary:logistic: use SecureXGBClassifier"):
        SecureXGBRegressor(objective="logitraw")
    with pytest.raises(ConfigError, match="got objective multi:ova"):
        SecureXGBRegressor().set_params(objective="multi:ova", num_class=3)


def test_calls_as_of_a_plain_estimator():
    X, y = np.ones((6, 2)), np.arange(6) % 2
    with pytest.raises(ConfigError, match=re.escape("fit(party, X, y): the first argument must be the party")):
        SecureXGBClassifier().fit(X, y)
    for kind in (SecureXGBClassifier, SecureXGBRegressor):
        with pytest.raises(ConfigError, match="scikit-learn's cross-validation, searches and pipelines") as error:
            cross_val_score(kind(), X, y)
        assert "\n" not in str(error.value)


def test_tables_of_xgboost_are_refused_in_a_sentence():
    xgboost = pytest.importorskip("xgboost")
    for read in (read_features, dictionary):
        with pytest.raises(DataError, match=r"must be the array or the frame that xgboost's DMatrix was made of"):
            read(xgboost.DMatrix(np.ones((2, 2))))


def test_not_fitted():
    estimator = SecureXGBClassifier()
    with pytest.raises(NotFittedError, match="not fitted") as error:
        estimator.predict(None, np.zeros((1, 1)))
    assert isinstance(error.value, DataError)


def test_scores():
    X, y = table(60, 2, seed=51)
    tables, labels = halves(X, y, 30)
    classes = train_both(tables, labels, n_estimators=2)
    values = [3 * x[:, 0] + 1 for x in map(np.asarray, tables)]
    line = train_both(tables, values, objective="reg:squarederror", n_estimators=5)

    def ask(party):
        i = party.rank
        accuracy = classes.models[i].score(party, tables[i], labels[i])
        return accuracy, line.models[i].score(party, tables[i], values[i]), line.models[i].predict(party, tables[i])

    for i, (accuracy, r2, predicted) in enumerate(run_both(ask)[0]):
        assert accuracy > 0.7 and r2 == pytest.approx(r2_score(values[i], predicted))
