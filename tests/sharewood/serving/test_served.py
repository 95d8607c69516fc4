"""Rows that services keep, and `sharewood monitor --served` on them: equal to a monitoring of the same rows."""

import base64
import json
import re
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace

import httpx
import numpy as np
import pandas as pd
import pytest

from mpc.errors import ConfigError, DataError, SharewoodError
from mpc.host.encryption import FileKey
from sharewood.commands.hosts.monitor import Days, monitor_party
from sharewood.job.config import HostsConfig
from sharewood.serving import served
from sharewood.serving.served import Served
from sharewood.serving.service import Service
from tests.secure_tree.monitor.rows import trained as models
from tests.sharewood.commands.hosting import ROLES, complaint, in_threads
from tests.sharewood.commands.hosts.test_monitor import job, trained
from tests.sharewood.serving.test_serve import NAMES, WAIT, ask, running, until_ready, with_services

KEY = FileKey(b"k" * 32, "a test")
DAY = timedelta(days=1)
DATES = {"party_a": date(2030, 1, 1), "party_b": date(2030, 1, 2)}


def add(folder, name, key, value=None):
    """Set a key in a party's section of its file, or remove it."""
    path, section = folder / f"{name}.toml", f"[parties.{name}]\n"
    text = re.sub(rf"(?m)^{key} = .*\n", "", path.read_text())
    path.write_text(text if value is None else text.replace(section, f"{section}{key} = {json.dumps(value)}\n"))


def store(folder, key=None, partition="horizontal"):
    return Served(folder / "served", models(partition)[0], key)


def rows(count, first=0, seed=1):
    rng = np.random.default_rng(seed)
    ids = [f"customer {first + k}" for k in range(count)]
    return ids, rng.integers(-(1 << 22), 1 << 22, count) / (1 << 20), rng.normal(size=(count, 4)).astype(np.float32)


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_what_is_kept_is_read(tmp_path, key):
    ids, margins, features = rows(5)
    features[2, 1] = np.nan
    kept = store(tmp_path, key)
    kept.keep(ids[:3], margins[:3], features[:3])
    kept.keep([], margins[:0], features[:0])
    kept.keep(ids[3:], margins[3:], features[3:])
    found = store(tmp_path, key).read()
    assert found.ids == ids
    np.testing.assert_array_equal(found.margins, margins * (1 << 20))
    np.testing.assert_array_equal(found.features, features)
    [file] = (tmp_path / "served").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600 and (tmp_path / "served").stat().st_mode & 0o777 == 0o700
    assert (b"customer" in file.read_bytes()) == (key is None)


def test_the_last_answer_counts(tmp_path):
    (ids, margins, features), (_, later, others) = rows(4), rows(4, seed=2)
    kept = store(tmp_path)
    kept.keep(ids, margins, features)
    kept.keep(ids[1:2] * 2, later[:2], others[:2])
    found = kept.read()
    assert sorted(found.ids) == ids
    place = found.ids.index(ids[1])
    assert found.margins[place] == later[1] * (1 << 20) and (found.features[place] == others[1]).all()


def test_days(tmp_path, monkeypatch):
    kept, today = store(tmp_path), date(2026, 3, 1)
    for k in range(4):
        now = SimpleNamespace(now=lambda zone, k=k: datetime(2026, 3, 1, 23, 59, tzinfo=UTC) + k * DAY)
        monkeypatch.setattr(served, "datetime", now)
        kept.keep(*rows(2, first=2 * k))
    (tmp_path / "served" / "notes.txt").write_text("of the operator")

    def of(since, until):
        return sorted(int(one.split()[1]) for one in kept.read(since, until).ids)

    assert of(None, None) == [*range(8)]
    assert of(today + DAY, None) == [*range(2, 8)] and of(None, today) == [0, 1]
    assert of(today + DAY, today + 2 * DAY) == [2, 3, 4, 5] and of(today + 9 * DAY, None) == []


def test_rows_of_another_model_are_left_out(tmp_path):
    store(tmp_path).keep(*rows(2))
    other = store(tmp_path, partition="vertical")
    ids, margins, features = rows(3, first=5)
    other.keep(ids, margins, features[:, :2])
    assert len(store(tmp_path).read().ids) == 2 and other.read().ids == ids


def test_a_line_that_a_killed_service_left(tmp_path):
    kept = store(tmp_path)
    kept.keep(*rows(2))
    [file] = (tmp_path / "served").iterdir()
    whole = file.read_bytes()
    for end in (1, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole + whole[:end])
        assert len(kept.read().ids) == 2
        kept.keep(*rows(3, first=2))
        assert len(kept.read().ids) == 5
    file.write_bytes(whole[:7])
    assert kept.read().ids == []
    kept.keep(*rows(3))
    assert len(kept.read().ids) == 3


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_every_flipped_byte_is_found(tmp_path, key):
    kept = store(tmp_path, key)
    kept.keep(*rows(2))
    [file] = (tmp_path / "served").iterdir()
    whole = file.read_bytes()
    for place in range(len(whole) - 1):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(DataError):
            kept.read()


def test_keys_and_files_that_do_not_fit(tmp_path):
    store(tmp_path).keep(*rows(1))
    with pytest.raises(DataError, match=r"served, line 1: not encrypted, although a key is set"):
        store(tmp_path, KEY).read()
    [file] = (tmp_path / "served").iterdir()
    file.unlink()
    store(tmp_path, KEY).keep(*rows(1))
    with pytest.raises(DataError, match=r"line 1: encrypted, but no key is set"):
        store(tmp_path).read()
    with pytest.raises(DataError, match="cannot be decrypted"):
        store(tmp_path, FileKey(b"j" * 32, "another")).read()
    file.write_bytes(base64.b64encode(KEY.encrypt(b"{}", "served rows")) + b"\n")
    with pytest.raises(DataError, match="line 1: this line was altered"):
        store(tmp_path, KEY).read()
    file.unlink()
    file.mkdir()
    for work in (lambda: store(tmp_path).keep(*rows(1)), store(tmp_path).read):
        with pytest.raises(DataError, match="directory"):
            work()
    (tmp_path / "served").rename(tmp_path / "elsewhere")
    (tmp_path / "served").write_text("")
    with pytest.raises(DataError, match="the folder cannot be made"):
        store(tmp_path)


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_services_keep_what_is_monitored(tmp_path, monkeypatch, partition):
    """The statistics of served rows are those of the same rows predicted again, by thresholds as the services do."""
    later = job(tmp_path, partition, method="thresholds", **{"floors.bits": 0.5})
    trained(tmp_path, monkeypatch)
    vertical, asking = partition == "vertical", NAMES[1:] if partition == "vertical" else NAMES
    urls = with_services(tmp_path)
    for name in asking:
        add(tmp_path, name, "served", f"{name}_served")
    own = {name: pd.read_csv(tmp_path / f"{name[-1]}_later.csv") for name in NAMES}
    with running(tmp_path, *ROLES) as processes, httpx.Client(timeout=WAIT) as client:
        for name in NAMES:
            until_ready(client, urls[name], processes[name])
        for name in asking:
            features = [c for c in own[name] if c.startswith("x")]
            asked = own[name][["id", *features]].astype({"id": str}).to_dict("records")
            for start in range(0, len(asked), 300):
                answer = ask(client, urls[name], asked[start : start + 300])
                assert answer.status_code == 200, answer.text
            for bad in ({**asked[0], "id": "a\nb"}, {k: v for k, v in asked[0].items() if k != "id"}):
                assert ask(client, urls[name], [bad]).status_code == 422
            if vertical:
                assert ask(client, urls[name], [{**asked[0], "id": "nobody"}]).status_code == 404
    labels = tmp_path / "labels.csv"
    later[["id", "bad"]].sample(frac=1, random_state=1).to_csv(labels, index=False)
    for name in NAMES:
        add(tmp_path, name, "ledger")
    again = in_threads(monkeypatch, tmp_path, monitor_party, None, None)
    at_label = {name: labels if name in asking else None for name in NAMES}
    reports = in_threads(monkeypatch, tmp_path, lambda c, name: monitor_party(c, name, at_label[name], None, Days()))
    for one, other in zip(reports, again, strict=True):
        assert one.statistics == other.statistics and one.rows == other.rows
    with pytest.raises(SharewoodError, match="has no rows that this model was asked for on these days"):
        in_threads(monkeypatch, tmp_path, monitor_party, None, None, Days(until=date(2026, 1, 1)))


def test_what_is_refused(tmp_path, monkeypatch, capsys):
    job(tmp_path)
    trained(tmp_path, monkeypatch)
    add(tmp_path, "party_a", "served", "kept")
    with pytest.raises(ConfigError, match=r"parties.party_a.served must be left out: this party learns no predictions"):
        Service(HostsConfig.read(tmp_path / "party_a.toml"), "party_a")
    at = ["--config", str(tmp_path / "party_b.toml"), "--party", "party_b"]
    said = complaint(monkeypatch, capsys, "monitor", *at, "--since", "2026-01-01")
    assert "--since and --until must be given with --served" in said
    monkeypatch.setattr(HostsConfig, "credentials", lambda *_: None)
    with pytest.raises(ConfigError, match=r"parties.party_b.served must be set"):
        monitor_party(HostsConfig.read(tmp_path / "party_b.toml"), "party_b", None, None, Days())


def test_rows_that_the_other_party_has_no_longer(tmp_path, monkeypatch):
    later = job(tmp_path)
    trained(tmp_path, monkeypatch)
    add(tmp_path, "party_b", "served", "kept")
    config = HostsConfig.read(tmp_path / "party_b.toml")
    model = Service(config, "party_b").model
    features = later[["x2", "x3"]].to_numpy(np.float32)
    Served(tmp_path / "kept", model, None).keep([*map(str, later["id"])], np.zeros(len(later)), features)
    table = pd.read_csv(tmp_path / "a_later.csv")
    table[1:].to_csv(tmp_path / "a_later.csv", index=False)
    with pytest.raises(SharewoodError, match="predict_data has no row of id '20000', which was served"):
        in_threads(monkeypatch, tmp_path, monitor_party, None, None, Days())
    table.to_csv(tmp_path / "a_later.csv", index=False)
    with pytest.raises(SharewoodError, match=r"the parties disagree on (served|profile|since|until)"):
        in_threads(monkeypatch, tmp_path, lambda c, name: monitor_party(c, name, None, None, Days(until=DATES[name])))
