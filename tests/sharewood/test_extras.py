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
