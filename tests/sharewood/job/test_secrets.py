"""Sources of keys and passphrases; marks planted in data, keys and passphrases appear nowhere else."""

import base64
import contextlib

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from mpc.errors import ConfigError, DataError
from mpc.host.encryption import is_encrypted
from secure_tree.model.shared_model import SharedModel
from sharewood.commands.hosts.predict import predict_rows
from sharewood.commands.hosts.train import train_half
from sharewood.job import session
from sharewood.job.config import HostsConfig
from sharewood.job.secrets import SecretSource, parse_source
from tests.sharewood.commands.hosting import ROLES, complaint, in_threads, start, write_job

SMALL = {"n_estimators": 2, "max_depth": 2, "max_bin": "exact"}
PLANTED = 7.104735821, 5.394017263
_LONG = 7
PHRASE, DIGITS = "a passphrase planted here", "c0ffee17" * 8


def write_secret(path, text, mode=0o600):
    path.write_text(text + "\n")
    path.chmod(mode)


@pytest.fixture
def place(tmp_path):
    """A job with checkpoints; marked values are in both tables, in the key of files, and in a passphrase."""
    sections = {
        f"party_{p}": {
            "train_data": f"{p}.csv",
            "label": "y",
            "model": f"model_{p}.json",
            "checkpoints": f"kept_{p}",
            "predict_data": f"{p}.csv",
            "predictions": f"out_{p}.csv",
        }
        for p in "ab"
    }
    write_job(tmp_path, sections, train=SMALL)
    for p, planted in zip("ab", PLANTED, strict=True):
        x = [float(n * n % 17) for n in range(20)]
        x[7] = planted
        pd.DataFrame({"x": x, "z": range(20), "y": [n % 2 for n in range(20)]}).to_csv(
            tmp_path / f"{p}.csv", index=False
        )
    write_secret(tmp_path / "files.key", DIGITS)
    write_secret(tmp_path / "phrase", PHRASE)
    for role in ROLES:
        path = tmp_path / "keys" / f"{role}.key"
        key = load_pem_private_key(path.read_bytes(), None)
        encrypted = BestAvailableEncryption(PHRASE.encode())
        path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encrypted))
        config = tmp_path / f"{role}.toml"
        config.write_text('passphrase = "file:phrase"\nfiles_key = "file:files.key"\n' + config.read_text())
    return tmp_path


def forms(secret):
    """Return the forms of a secret that a log, dump or report might contain, except those short enough for chance."""
    raw = secret if isinstance(secret, bytes) else secret.encode()
    inner = base64.b64encode(raw)[4 : 4 * (len(raw) // 3)]
    shifted = [base64.b64encode(bytes(k) + raw)[4 : 4 * ((len(raw) + k) // 3)] for k in (1, 2)]
    found = {raw, raw.hex().encode(), raw.hex().upper().encode(), repr(raw)[2:-1].encode(), inner, *shifted}
    return {form for form in found if len(form) >= _LONG}


def values(number):
    """Return the forms of a table's number in the clear: its digits and its words."""
    digits = {form for text in (repr(number), f"{number:.6f}") for form in forms(text)}
    return digits | {f for t in (np.float64, np.float32) for f in forms(t(number).tobytes())}


def commands(processes):
    """Command lines, which anybody on a machine may read."""
    found = []
    for process in processes:
        try:
            with open(f"/proc/{process.pid}/cmdline", "rb") as file:
                found.append(file.read())
        except OSError:
            continue
    return b"\n".join(found)


def running(stack, *arguments, cwd):
    """Start a process that ends with the test."""
    process = start(*arguments, cwd=cwd)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def test_nothing_planted_is_found_again(place):
    private = [load_pem_private_key((place / "keys" / f"{r}.key").read_bytes(), PHRASE.encode()) for r in ROLES]
    numbers = [k.private_numbers().private_value.to_bytes(32, "big") for k in private]
    wanted = forms(PHRASE) | forms(DIGITS) | forms(bytes.fromhex(DIGITS)) | {f for n in numbers for f in forms(n)}
    rows = values(PLANTED[0]) | values(PLANTED[1])
    given = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    said = b""
    with contextlib.ExitStack() as stack:
        dealer = running(stack, "dealer", "--config", "dealer.toml", "--sessions", 2, cwd=place)
        for command in ("train", "predict"):
            work = [
                running(
                    stack, "--log-level", "debug", command, "--config", f"{role}.toml", "--party", role,
                    "--json", f"{command}_{role}.json", cwd=place,
                )
                for role in ROLES[:2]
            ]  # fmt: skip
            said += commands([*work, dealer])
            for process in work:
                texts = process.communicate(timeout=300)
                assert process.returncode == 0, texts
                said += "".join(texts).encode()
        said += "".join(dealer.communicate(timeout=60)).encode()
    made = {path: path.read_bytes() for path in place.rglob("*") if path.is_file() and path not in given}
    assert len(made) > 10 and any(is_encrypted(data) for data in made.values())
    halves = [path for path in made if path.match("model_?.json") or path.parent.name.startswith("kept")]
    assert all(is_encrypted(made[path]) for path in halves if path.name != "key")
    for path, data in [*made.items(), ("what was said", said)]:
        assert not [form for form in wanted | rows if form in data], path
    # The search finds the marks where they are expected.
    assert any(form in given[place / "a.csv"] for form in rows) and DIGITS.encode() in given[place / "files.key"]
    key = HostsConfig.read(place / "party_a.toml").file_key()
    cuts = SharedModel.load(place / "model_a.json", key).cuts
    assert np.float32(PLANTED[0]) in cuts.astype(np.float32)


def test_wrong_and_missing_keys_are_sentences(place, monkeypatch, capsys):
    in_threads(monkeypatch, place, train_half, False, None)
    monkeypatch.undo()
    monkeypatch.setattr(session, "decline", lambda *_: None)  # nobody waits
    plain = (place / "model_a.json").read_bytes()

    def told(*more):
        return complaint(monkeypatch, capsys, *more, "--config", place / "party_a.toml", "--party", "party_a")

    write_secret(place / "other.key", "0f" * 32)
    monkeypatch.setenv("OTHER", "0f" * 32)
    for source in (f"file:{place / 'other.key'}", "env:OTHER"):
        assert f"model_a.json: cannot be decrypted with the key of {source}" in told("predict", "--files-key", source)
    assert "env:MISSING: the environment has no variable MISSING" in told("predict", "--files-key", "env:MISSING")
    assert "must be file:PATH or env:NAME, not the secret itself" in told("predict", "--passphrase", "a secret")
    (place / "model_a.json").write_bytes((place / "kept_a" / "round_00001.npz").read_bytes())
    assert "encrypted as checkpoint, must be half of a model" in told("predict")
    (place / "model_a.json").write_bytes(plain[:-1])
    assert "cut short" in told("predict")
    (place / "model_a.json").write_bytes(plain)
    (place / "files.key").chmod(0o644)
    assert "files.key: a file with a secret must be readable only by its owner, got mode 0644" in told("predict")
    (place / "files.key").chmod(0o600)
    write_secret(place / "phrase", "another")
    assert "the passphrase does not open the private key" in told("predict")


def test_a_training_goes_on_from_encrypted_rounds(place, monkeypatch):
    in_threads(monkeypatch, place, train_half, False, None)
    report, _ = in_threads(monkeypatch, place, train_half, True, None)
    assert report.rounds_of_trees.resumed_after == 2
    in_threads(monkeypatch, place, predict_rows, None)
    assert len(pd.read_csv(place / "out_a.csv")) == 20
    config = place / "party_a.toml"
    config.write_text(config.read_text().replace("files_key", "# files_key"))
    with pytest.raises(DataError, match=r"round_00001.npz: encrypted, but no key is set"):
        in_threads(monkeypatch, place, train_half, True, None)


def test_sources():
    assert parse_source("file:a:b") == SecretSource("file", "a:b")
    for wrong in ("", "file", "file:", "env:", "pass:secret", "secret", 7, None, ["file:x"]):
        with pytest.raises(ValueError, match="must be file:PATH or env:NAME") as said:
            parse_source(wrong)
        assert "secret" not in str(said.value).replace("the secret itself", "")
    with pytest.raises(ConfigError, match="the file with a secret cannot be read"):
        SecretSource("file", "/nowhere/at/all").read()
