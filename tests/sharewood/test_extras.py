"""Without an optional package, a command prints one sentence with the extra to install, before any work."""

import subprocess
import sys

import pytest

from mpc.host.extras import install

# The package is hidden in a separate process, because this one may have loaded it.
HIDDEN = """
import sys
sys.modules[{package!r}] = None
from sharewood.cli import main
from mpc.host.extras import install
sys.argv = ["sharewood", *{words!r}]
main()
"""


def without(package, *words, cwd):
    """Return exit status and messages of a command if a package is not installed."""
    program = HIDDEN.format(package=package, words=words)
    done = subprocess.run([sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, timeout=300)
    return done.returncode, " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("package", "extra", "words"),
    [
        ("pandas", "tables", ["demo", "--data", "a.csv", "b.csv"]),
        ("pandas", "tables", ["schema", "a.csv"]),
        ("pyarrow", "parquet", ["demo", "--data", "a.parquet", "b.parquet"]),
        ("adbc_driver_postgresql", "sources", ["schema", "postgresql:///loans", "--query", "SELECT 1"]),
        ("adbc_driver_duckdb", "sources", ["schema", "duckdb:a.parquet", "--query", "SELECT 1"]),
        ("s3fs", "sources", ["schema", "s3://loans/a.parquet"]),
        ("pyarrow", "sources", ["schema", "s3://loans/a.parquet"]),
        ("xgboost", "xgboost", ["fed", "secureboost"]),
        ("ray", "cluster", ["demo", "--shards", "2"]),
        ("sklearn", "report", ["demo"]),
    ],
)
def test_a_package_that_is_not_installed_is_named_with_its_extra(tmp_path, package, extra, words):
    for name in ("a.parquet", "b.parquet"):
        (tmp_path / name).write_bytes(b"PAR1")
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("id,x,label\n1,0.5,0\n2,1.5,1\n")
    status, said = without(package, *words, cwd=tmp_path)
    assert status == 2 and "Traceback" not in said
    assert install(extra) in said


def test_csv_tables_need_no_pyarrow(tmp_path):
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from pathlib import Path\n"
        "from sharewood.tables.files import count_rows, read_cells, write_frame\n"
        "table = read_cells(Path('a.csv'), {'shop'})\n"
        "write_frame(Path('b.csv'), table)\n"
        "assert list(table['shop']) == ['north', '007'] and count_rows(Path('b.csv')) == 2\n"
    )
    (tmp_path / "a.csv").write_text("x,shop\n1.5,north\n,007\n")
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=300)
    assert (tmp_path / "b.csv").read_text() == "x,shop\n1.5,north\n,007\n"


def test_services_and_estimators_need_neither_metrics_nor_charts(tmp_path):
    program = (
        "import sys\n"
        "for name in ('sklearn', 'scipy', 'matplotlib', 'xgboost'): sys.modules[name] = None\n"
        "import sharewood, sharewood.serving.service, sharewood.commands.hosts.serve\n"
        "from mpc.errors import DataError\n"
        "from secure_tree.interface.conventions import not_fitted\n"
        "from sharewood.page.charts import bars\n"
        "from sharewood.report.quality import without_metrics\n"
        "assert type(not_fitted()) is DataError\n"
        "for said in (str(bars('b', 'Bars.', {'a': 1.0}).svg), without_metrics()): print(said)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300
    )
    chart, metrics = done.stdout.splitlines()
    assert "Not drawn" in chart and "[report]" in chart
    assert install("report") in metrics


def test_arrays_need_no_pandas(tmp_path):
    """Training, prediction, contributions, a revealed model and its export; the schema of a service's rows."""
    program = (
        "import sys; sys.modules['pandas'] = None\n"
        "import json\n"
        "import numpy as np\n"
        "from sharewood import SecureXGBClassifier, cross_validate, run_local\n"
        "from secure_tree.exchange.plain_model import reveal_model\n"
        "from secure_tree.exchange.xgboost import to_xgboost\n"
        "from secure_tree.public.config import TrainConfig\n"
        "from sharewood.serving.schema import RequestSchema\n"
        "from sharewood.tables.columns import Column, Columns\n"
        "def job(party):\n"
        "    X = np.random.default_rng(party.rank).normal(size=(40, 3))\n"
        "    y = X[:, 0] > 0\n"
        "    model = SecureXGBClassifier(n_estimators=2, max_depth=2, max_bin=4).fit(party, X, y, eval_set=(X, y))\n"
        "    right = ((model.predict_proba(party, X)[:, 1] > 0.5) == y).mean()\n"
        "    assert len(model.contributions(party, X)) == 40\n"
        "    plain = reveal_model(party, model.model, to=0)\n"
        "    assert party.rank or 'learner' in to_xgboost(plain)\n"
        "    cross_validate(party, SecureXGBClassifier(n_estimators=1, max_depth=1, max_bin=4), X, y, folds=2)\n"
        "    return right\n"
        "assert min(run_local(job)) > 0.8\n"
        "columns = Columns({'shop': Column(type='categorical', categories=('n', 's'), missing=True)})\n"
        "names = ('age', 'shop=n', 'shop=s')\n"
        "asked = RequestSchema(names, columns, TrainConfig.of(missing='all'), None, 5)\n"
        "rows = [{'age': 1.5, 'shop': 's'}, {'age': None, 'shop': None}]\n"
        "print(asked.read(json.dumps({'rows': rows}).encode())[0].tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.stdout == "[[1.5, 0.0, 1.0], [nan, nan, nan]]\n", done.stderr
