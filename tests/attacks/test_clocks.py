"""Hosts whose clocks differ: this affects only certificates, and the error gives this host's time.

A host with a slow or fast clock sees certificates that are not valid yet, or no longer. Here the clock that makes the
certificates is off instead.
"""

import ast
import datetime as dt
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from mpc.errors import PeerFailure, PeerTimeout, PeerVanished
from protocols.transport import certificates
from protocols.transport.certificates import Authority, make_credentials
from sharewood.commands.setup.check import findings
from sharewood.job.config import HostsConfig
from tests.protocols.runtime.meeting import CREDENTIALS, NAMES, SQUARES, both, dealing, squares
from tests.sharewood.commands.hosting import write_job

ROOT = Path(__file__).parents[2]
# Dates on certificates, logs, pages, reports, ledgers and records, which no other host compares with its own, and the
# last days of owners' terms.
READ_THE_DATE = {
    "protocols/runtime/workers/busy.py",
    "protocols/runtime/loopback.py",
    "protocols/transport/certificates.py",
    "protocols/transport/tls.py",
    "secure_tree/agreement/releases.py",
    "secure_tree/public/bounds.py",
    "sharewood/commands/setup/check.py",
    "sharewood/record/keeping.py",
    "sharewood/serving/served.py",
    "sharewood/sources/copies.py",
    "sharewood/report/figures.py",
    "sharewood/logs.py",
    "sharewood/commands/local/purge.py",
}
OFF = {"slow": (dt.timedelta(days=3), "is not yet valid"), "fast": (dt.timedelta(days=-3), "has expired")}
NOW = r"this host's clock is at 20\d\d-\d\d-\d\d \d\d:\d\d UTC"


def made_at(monkeypatch, offset, authority):
    """Issue credentials for a day, on a host whose clock is off."""

    class Clock(dt.datetime):
        @classmethod
        def now(cls, zone):
            return dt.datetime.now(zone) + offset

    with monkeypatch.context() as patched:
        patched.setattr(certificates, "dt", SimpleNamespace(datetime=Clock, timedelta=dt.timedelta, UTC=dt.UTC))
        return make_credentials([*NAMES, "dealer"], authority=authority)


@pytest.mark.parametrize("clock", OFF)
@pytest.mark.parametrize("off", [0, 1])
def test_a_party_whose_certificate_is_not_valid_now(tmp_path, monkeypatch, clock, off):
    """Party 0 listens, and party 1 connects: each reports what is wrong, and its own time."""
    authority = Authority.new(dt.timedelta(days=9))
    offset, reason = OFF[clock]
    wrong, good = made_at(monkeypatch, offset, authority), make_credentials(NAMES, authority=authority)
    for name in NAMES:
        monkeypatch.setitem(CREDENTIALS, name, (wrong if name == NAMES[off] else good)[name])
    with dealing(tmp_path) as dealer:
        at_a, at_b = both(dealer.network(patience=3.0))
    assert type(at_a) is PeerTimeout and type(at_b) is PeerFailure
    # The party that verifies the wrong certificate gives the reason; the other learns that its own is refused.
    refuses, refused = (at_b, at_a) if off == 0 else (at_a, at_b)
    assert re.search(f"TLS with {NAMES[off]} failed in TLS handshake: certificate {reason}; {NOW}", str(refuses))
    assert re.search(f"ALERT_[A-Z_]*CERTIFICATE[A-Z_]*: it refuses this host's certificate; {NOW}", str(refused))
    assert "the last one that came was turned away: " in str(at_a)


@pytest.mark.parametrize("clock", OFF)
def test_a_dealer_whose_certificate_is_not_valid_now(tmp_path, monkeypatch, clock):
    authority = Authority.new(dt.timedelta(days=9))
    offset, reason = OFF[clock]
    credentials = make_credentials(NAMES, authority=authority)
    credentials["dealer"] = made_at(monkeypatch, offset, authority)["dealer"]
    for name, each in credentials.items():
        monkeypatch.setitem(CREDENTIALS, name, each)
    with dealing(tmp_path) as dealer:
        ends = both(dealer.network(patience=3.0))
    assert all(type(end) in (PeerFailure, PeerVanished) for end in ends)
    assert any(re.search(f"TLS with dealer failed .*certificate {reason}; {NOW}", str(end)) for end in ends)
    assert all("dealer" in str(end) for end in ends)


@pytest.mark.parametrize("clock", OFF)
def test_check_finds_a_clock_that_is_off(tmp_path, monkeypatch, clock):
    write_job(tmp_path, {name: {} for name in NAMES})
    offset, reason = OFF[clock]
    made_at(monkeypatch, offset, Authority.new(dt.timedelta(days=9)))["party_a"].save(tmp_path / "off", "party_a")
    config = HostsConfig.read(tmp_path / "party_a.toml").model_copy(update={"tls": tmp_path / "off"})
    [found] = [f.text for f in findings(config, "party_a", 0.2) if f.error and f.what == "certificate"]
    assert re.search(f"does not hold against authority.crt: certificate {reason}; {NOW}", found)


def test_a_clock_that_is_set_in_the_middle_of_a_run_changes_nothing(tmp_path, monkeypatch):
    real = time.time
    with dealing(tmp_path, timeout=5.0) as dealer:

        def job(party):
            monkeypatch.setattr(time, "time", lambda: real() + 1e6 * (2 * party.rank - 1))
            return squares(party)

        assert both(dealer.network(timeout=5.0, patience=5.0), job) == [SQUARES] * 2


def test_nothing_else_reads_the_date():
    """Waits and time-outs use the monotonic clock; certificates, logs, files and spans of work by shard have dates."""
    found = set()
    for folder in ("mpc", "protocols", "secure_tree", "sharewood"):
        for path in (ROOT / folder).rglob("*.py"):
            calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
            named = {ast.unparse(func) for func in calls}
            if named & {"time.time", "time.time_ns", "time.localtime", "time.gmtime"} or any(
                name.endswith(("datetime.now", "datetime.utcnow", "datetime.fromtimestamp", "date.today"))
                for name in named
            ):
                found.add(path.relative_to(ROOT).as_posix())
    assert found == READ_THE_DATE
