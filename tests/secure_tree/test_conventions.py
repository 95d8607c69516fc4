"""What scikit-learn's own functions may expect of the estimators."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score

from mpc.errors import ConfigError, DataError
from secure_tree import SecureXGBClassifier, SecureXGBRegressor
from tests.mpc.twoparty import run_both
from tests.secure_tree.test_twin import halves, table
from tests.secure_tree.training import train_both


@pytest.mark.parametrize("kind", [SecureXGBClassifier, SecureXGBRegressor])
def test_parameters_and_clone(kind):
    estimator = kind(learning_rate=0.2, max_bin="exact")
    copy = clone(estimator)
    assert type(copy) is kind and copy is not estimator and copy.get_params() == estimator.get_params()
    assert copy.set_params(max_depth=5, learning_rate=0.7) is copy
    assert copy.get_params()["max_depth"] == 5 and estimator.get_params()["max_depth"] == 3
    with pytest.raises(ConfigError, match="unknown parameter depth"):
        copy.set_params(depth=2)


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
