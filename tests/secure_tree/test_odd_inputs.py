"""Odd inputs of every objective: right beside XGBoost, or refused in one sentence before anything is trained."""

import numpy as np
import pytest

from mpc.errors import SharewoodError
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from secure_tree.public.config import TrainConfig
from secure_tree.public.objectives import TRAITS

xgboost = pytest.importorskip("xgboost")
N, CUT = 60, 25
COMMON = {"n_estimators": 2, "max_depth": 2, "max_bin": 8, "learning_rate": 0.3, "min_child_weight": 1.0}
PARAMETERS = {"multi:softprob": {"num_class": 3}, "multi:ova": {"num_class": 3}}
QUICK = ("multi:softprob", "reg:pseudohubererror", "reg:tweedie")
MOST = [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in TRAITS]
# What is done to labels; some of it suits some objectives only.
LABELS = {
    "as they are": lambda y: y,
    "all 0": lambda y: y * 0,
    "all 1": lambda y: y * 0 + 1,
    "one 0": lambda y: at(y, 0),
    "one negative": lambda y: at(y, -1),
    "one 1e9": lambda y: at(y, 1e9),
    "one -1e9": lambda y: at(y, -1e9),
    "one 1e-9": lambda y: at(y, 1e-9),
    "one 1e38": lambda y: at(y, 1e38),
    "one half": lambda y: at(y, 0.5),
    "one NaN": lambda y: at(y, np.nan),
    "one infinite": lambda y: at(y, np.inf),
    "times 1e6": lambda y: y * 1e6,
    "times 1e-6": lambda y: y * 1e-6,
    "plus 1e6": lambda y: y + 1e6,
    "text": lambda y: y.astype(str) + "x",
    "too short": lambda y: y[:3],
}
OTHERS = {
    "no weight": {"sample_weight": lambda n: np.zeros(n)},
    "weights of 1e9": {"sample_weight": lambda n: np.full(n, 1e9)},
    "one weight of 1e9": {"sample_weight": lambda n: at(np.ones(n), 1e9)},
    "one negative weight": {"sample_weight": lambda n: at(np.ones(n), -1.0)},
    "one weight that is NaN": {"sample_weight": lambda n: at(np.ones(n), np.nan)},
    "most weights 0": {"sample_weight": lambda n: at(np.zeros(n), 1.0)},
    "offsets of 1e6": {"base_margin": lambda n: np.full(n, 1e6)},
    "offsets of -1e6": {"base_margin": lambda n: np.full(n, -1e6)},
    "offsets of 0": {"base_margin": lambda n: np.zeros(n)},
    "one offset that is NaN": {"base_margin": lambda n: at(np.zeros(n), np.nan)},
    "one offset of 30": {"base_margin": lambda n: at(np.zeros(n), 30.0)},
    "a base score of 0": {"base_score": 0.0},
    "a base score of 1e9": {"base_score": 1e9},
    "a base score of NaN": {"base_score": np.nan},
    "no regularisation": {"reg_lambda": 0.0, "min_child_weight": 0.0},
    "a lambda of 1e6": {"reg_lambda": 1e6},
    "a step of 1e-3": {"max_delta_step": 1e-3},
    "every rate": {"learning_rate": 1.0},
    "a tiny rate": {"learning_rate": 1e-6},
    "one tree of depth 9": {"max_depth": 9},
    "leaf-wise growth": {"grow_policy": "lossguide"},
    "DART": {"booster": "dart"},
    "one row per party": {"rows": 2},
}


def at(y, value, place=3):
    out = np.array(y, float)
    out[place % len(out)] = value
    return out


def data(objective, n=N):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    signal = X[:, 0] + 0.3 * rng.normal(size=n)
    if TRAITS[objective].classes:
        return X, np.digitize(signal, [-0.4, 0.4] if objective in PARAMETERS else [0]).astype(float)
    if objective == "reg:logistic":
        return X, 1 / (1 + np.exp(-signal))
    if TRAITS[objective].link == "log":
        y = np.exp(signal)
        return X, np.round(2 * y) if objective == "count:poisson" else y
    return X, signal


def outcome(objective, X, y, **more):
    """Train and return the margins of all rows, or the sentence of the refusal."""
    n, shape = len(X), (3,) if objective in PARAMETERS else ()
    cut = CUT if n == N else n // 2
    given = {name: more.pop(name)(n) for name in ("sample_weight", "base_margin") if name in more}
    if "base_margin" in given:
        given["base_margin"] = np.broadcast_to(given["base_margin"].reshape(n, *[1] * len(shape)), (n, *shape))
    kind = SecureXGBClassifier if TRAITS[objective].classes else SecureXGBRegressor
    parts = [slice(0, cut), slice(cut, n)]

    def job(party):
        mine = parts[party.rank]
        model = kind(objective=objective, edges="joint", **{**COMMON, **PARAMETERS.get(objective, {}), **more})
        own = {name: values[mine] for name, values in given.items()}
        model.fit(party, X[mine], y[mine], **own)
        offsets = {"base_margin": own["base_margin"]} if "base_margin" in own else {}
        return model.predict_margin(party, X[mine], **offsets)

    try:
        return np.concatenate(run_both(job)[0])
    except SharewoodError as error:
        return str(error)


def loss_of(objective, X, y, margins, weight=None):
    """Evaluate margins by XGBoost's default metric."""
    from tests.secure_tree.test_objectives import evaluate

    metric = {
        "log": {"count:poisson": "poisson-nloglik", "reg:gamma": "gamma-nloglik", "reg:tweedie": "tweedie-nloglik@1.5"}
    }
    link = TRAITS[objective].link
    name = metric["log"][objective] if link == "log" else "mphe" if "huber" in objective else "rmse"
    name = "logloss" if link == "logit" else name
    return evaluate({"objective": objective}, [name], xgboost.DMatrix(X, y, weight=weight, base_margin=margins))[name]


def beside(objective, X, y, margins, **more):
    """Require a loss that is not above XGBoost's with the same parameters, but for a few percent."""
    n = len(X)
    weight = more.pop("sample_weight")(n) if "sample_weight" in more else None
    offset = more.pop("base_margin")(n) if "base_margin" in more else None
    theirs = {**COMMON, "objective": objective, "gamma": 0.0, **more}
    try:
        booster = xgboost.train(
            theirs, xgboost.DMatrix(X, y, weight=weight, base_margin=offset), theirs.pop("n_estimators")
        )
    except xgboost.core.XGBoostError:
        return  # It has no base score, because all weights are 0, or refuses a parameter.
    others = booster.predict(xgboost.DMatrix(X, base_margin=offset), output_margin=True)
    ours, alike = (loss_of(objective, X, y, m, weight) for m in (margins, others))
    assert np.isnan(alike) or ours <= alike + 0.05 * abs(alike) + 0.02, f"a loss of {ours}, and of {alike} in XGBoost"


def right_or_a_sentence(objective, X, y, **more):
    found = outcome(objective, X, y, **more)
    if isinstance(found, str):
        assert 20 < len(found) < 400 and "\n" not in found and "Traceback" not in found
        return
    assert np.isfinite(found).all()
    if objective not in PARAMETERS and np.isfinite(np.asarray(y, float)).all():
        more.pop("rows", None)
        beside(objective, X, y, found, **more)


@pytest.mark.parametrize("objective", MOST)
@pytest.mark.parametrize("change", LABELS)
def test_labels(objective, change):
    X, y = data(objective)
    right_or_a_sentence(objective, X, LABELS[change](y))


@pytest.mark.parametrize("objective", MOST)
@pytest.mark.parametrize("change", OTHERS)
def test_weights_offsets_and_parameters(objective, change):
    more = dict(OTHERS[change])
    X, y = data(objective, more.pop("rows", N))
    right_or_a_sentence(objective, X, y, **more)


@pytest.mark.parametrize("objective", TRAITS)
def test_what_is_as_it_should_be_is_trained(objective):
    X, y = data(objective)
    for more in ({}, {"base_margin": lambda n: np.zeros(n)}, {"sample_weight": lambda n: np.full(n, 2.0)}):
        assert not isinstance(found := outcome(objective, X, y, **more), str), found


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"objective": "rank:ndcg"}, "objective rank:ndcg is not available: it compares rows with each other; use bin"),
        ({"objective": "rank:map"}, "objective rank:map is not available: it compares rows with each other"),
        ({"objective": "reg:quantileerror"}, "objective reg:quantileerror is not available: .*; use reg:pseudohuber"),
        ({"objective": "reg:absoluteerror"}, "objective reg:absoluteerror is not available: .*; use reg:pseudohuber"),
        ({"objective": "survival:cox"}, "objective survival:cox is not available: .*; use binary:logistic with"),
        ({"objective": "survival:aft"}, "objective survival:aft is not available: .*"),
        ({"booster": "dart"}, "booster is not supported: .*"),
        ({"rate_drop": 0.1}, "rate_drop is not supported: trees are never dropped; use learning_rate and subsample"),
        ({"grow_policy": "lossguide"}, "grow_policy is not supported: trees are grown level by level; use max_depth"),
        ({"max_leaves": 31}, "max_leaves is not supported: trees are grown level by level; use max_depth"),
        ({"max_depth": 9}, "max_depth must be at most 8, got 9"),
        ({"max_depth": 0}, "max_depth must be at least 1, got 0"),
        ({"quantile_alpha": 0.5}, "quantile_alpha is not supported: it belongs to reg:quantileerror, which is not"),
        ({"aft_loss_distribution": "normal"}, "aft_loss_distribution is not supported: it belongs to survival:aft"),
    ],
)
def test_what_is_refused_by_xgboosts_name(parameters, sentence):
    with pytest.raises(SharewoodError, match=sentence):
        TrainConfig.of(**parameters)
