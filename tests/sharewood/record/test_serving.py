"""Records of services: one per day and one at the end, with the rows of each client, beside answers that go on."""

import logging
import threading
import time

import numpy as np
import pytest

from mpc.errors import DataError
from mpc.host.ledger import Ledger
from protocols.testing import run_both
from secure_tree import SecureXGBClassifier
from sharewood.job.config import HostsConfig
from sharewood.record import keeping
from sharewood.record.verify import certificates_in, check_equal, verified
from sharewood.serving.jobs import Job
from sharewood.serving.service import Service
from tests.sharewood.commands.hosting import ROLES, write_job


@pytest.fixture
def services(tmp_path, monkeypatch):
    """Two services without a dealer, in threads of this process over TLS; their clock is `clock[0]` seconds ahead."""
    X = np.random.default_rng(2).normal(size=(60, 2)).astype(np.float32)

    def fit(party):
        model = SecureXGBClassifier(n_estimators=1, max_depth=1, max_bin=4)
        model.fit(party, X, (X[:, 0] > 0).astype(int)).save(tmp_path / f"{party.rank}.npz")

    run_both(fit)
    sections = {name: {"model": f"{p}.npz", "ledger": f"{name}.jsonl"} for p, name in enumerate(ROLES[:2])}
    write_job(tmp_path, sections)
    clock, real = [0], time.time
    monkeypatch.setattr(keeping.time, "time", lambda: real() + clock[0])
    found = []
    for name in ROLES[:2]:
        path = tmp_path / f"{name}.toml"
        text = 'offline = "pairwise"\not = "softspoken"\n' + path.read_text().split("[dealer]")[0]
        text += "".join(f"[parties{part}" for part in path.read_text().split("[parties")[1:])
        path.write_text(text + '[serve]\naddress = "127.0.0.1:1"\nlargest_batch = 4\nahead = 0\n')
        found.append(Service(HostsConfig.read(path), name))
    for service in found:
        service.start()
    wait(lambda: all(service.waits is None for service in found))
    yield found, clock, tmp_path
    stop(found)


def wait(done):
    until = time.monotonic() + 100
    while not done():
        assert time.monotonic() < until
        time.sleep(0.02)


def stop(services):
    threads = [threading.Thread(target=service.stop) for service in services]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for service in services:
        service._thread.join(30)


def ask(service, client, rows):
    job = Job(np.zeros((rows, 2), np.float32), client=client)
    service.ask(job)
    return job.margins.result(60)


def records(folder):
    found = [verified(folder / f"{name}.jsonl", certificates_in(folder.glob("party_?.*.crt"))) for name in ROLES[:2]]
    check_equal(found)
    return found[0].records


def test_a_record_per_day_and_one_at_the_end(services):
    (a, b), clock, folder = services
    for rows, client in ((3, "shop"), (2, "desk"), (1, "shop")):
        ask(a, client, rows)
    ask(b, "branch", 5)
    clock[0] = 86_400
    ask(a, "shop", 1)  # the turn of this answer says that the day is over
    wait(lambda: Ledger(folder / "party_b.jsonl").lines and Ledger(folder / "party_a.jsonl").lines)
    ask(b, "branch", 4)
    stop([a, b])
    day, last = records(folder)
    assert day["job"] == "serve" and day["run"] != last["run"] and day["results"] == last["results"]
    answered = [{name: own["answered"] for name, own in each["parties"].items()} for each in (day, last)]
    total = {"party_a": {"shop": 5, "desk": 2}, "party_b": {"branch": 9}}
    both = {p: {c: sum(each[p].get(c, 0) for each in answered) for c in total[p]} for p in total}
    assert both == total and answered[1]["party_a"] == {} and answered[1]["party_b"] == {"branch": 4}
    assert day["parties"]["party_b"]["learned"] == ["predictions of the rows that its clients asked for"]
    assert last["parties"]["party_a"]["learned"] == [] and last["parties"]["party_a"]["rows"] == 0
    assert b'signed="true"} 2.0' in a.measures.text()


def test_answers_go_on_if_a_ledger_cannot_be_written(services, monkeypatch, caplog):
    (a, b), clock, folder = services
    ask(a, "shop", 2)
    append = Ledger.append

    def full(self, line, again=False):
        if self.path.name == "party_a.jsonl":
            raise DataError(f"{self.path}: the ledger cannot be written (No space left on device)")
        append(self, line, again)

    with monkeypatch.context() as patched, caplog.at_level(logging.ERROR):
        patched.setattr(Ledger, "append", full)
        for day in (1, 2):
            clock[0] = 86_400 * day
            ask(a, "shop", 1)
            wait(lambda: caplog.text.count("the ledger has no record of the last answers") >= day)  # noqa: B023
            assert len(ask(b, "branch", 4)) == 4 and len(ask(a, "shop", 3)) == 3
    assert "No space left on device" in caplog.text and "party_a does not sign" in caplog.text
    stop([a, b])
    # The disk has room again: b had the first line, a refused to sign another, and the last record has the rest.
    first, last = records(folder)
    rows = [[sum(own["answered"].values()) for own in each["parties"].values()] for each in (first, last)]
    assert rows == [[3, 0], [7, 8]]
