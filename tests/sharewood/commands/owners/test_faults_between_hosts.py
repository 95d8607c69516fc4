"""Faults of owners and parties while contributions are collected between hosts: what is kept, and whom errors name.

A trial runs `collect` at both parties and `contribute` at two owners, in processes over TLS, and kills, stops or cuts
off one of them at one message with one peer; or it lets an owner come twice, an impostor come, or a disk fill up. No
role hangs; every failure is one sentence that names who was hit; a contribution is kept by both parties or by neither,
and by both if its owner has a receipt. SHAREWOOD_FAULTS=n runs the first n trials only. A failed trial is printed, and
the run goes on.
"""

import json
import os
import shutil
import signal
import time
from collections import Counter
from dataclasses import dataclass

import pytest

from protocols.transport.channel import Channel
from secure_tree.model.storage import read_arrays
from sharewood.commands.setup.keygen import keygen
from sharewood.warming_up import warm_up
from tests.attacks.disturbed import Role, finish
from tests.ports import free_port
from tests.sharewood.commands.hosting import ROLES, both, write_job, write_owner
from tests.sharewood.commands.owners.test_owners_between_hosts import OWNERS, TRAIN, table

PARTIES = ROLES[:2]
PATIENCE, TIMEOUT = 4, 5
# Messages at which an owner or a party is hit, by what the one that is hit does.
OF_OWNERS = [("receive", "owner.terms"), ("send", "owner.labels"), ("send", "owner.counts"),
             ("receive", "owner.edges"), ("send", "owner.bins"), ("receive", "owner.receipt")]  # fmt: skip
OF_PARTIES = [("send", "owner.terms"), ("receive", "owner.labels"), ("receive", "owner.counts"),
              ("send", "owner.edges"), ("receive", "owner.bins"), ("exchange_public", "owners.kept"),
              ("send", "owner.receipt")]  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """`hit` is hit at a message with `peer`; `least`: whether one owner is enough."""

    what: str
    hit: str
    least: bool
    how: str = ""
    tag: str = ""
    peer: str = ""

    def __str__(self):
        at = f" at {self.how} {self.tag} with {self.peer}" if self.tag else ""
        return (
            f"{self.what} of {self.hit}{at}, {'one owner is enough' if self.least else 'both owners must contribute'}"
        )

    def install(self):
        """Let this process hit itself; called in the process of `hit`."""
        original = getattr(Channel, self.how)

        def faulty(channel, tag, *rest, **more):
            if tag == self.tag and channel.peer == self.peer:
                if self.what == "cut":
                    channel.close()
                else:
                    os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[self.what])
            return original(channel, tag, *rest, **more)

        setattr(Channel, self.how, faulty)


def every_fault():
    """Return 60 faults: every message of an owner with either party, every one of a party, and others."""
    found = [
        Fault(what, OWNERS[k % 2], (k + p) % 3 > 0, how, tag, peer)
        for k, (how, tag) in enumerate(OF_OWNERS)
        for p, peer in enumerate(PARTIES)
        for what in ("kill", "stop", "cut")
    ]
    for k, (how, tag) in enumerate(OF_PARTIES):
        for what in ("kill", "stop"):
            hit = (k + (what == "stop")) % 2
            peer = PARTIES[1 - hit] if how == "exchange_public" else OWNERS[k % 2]
            found.append(Fault(what, PARTIES[hit], k % 2 > 0, how, tag, peer))
    for least in (False, True):
        found += [Fault("full disk", party, least) for party in PARTIES]
        found += [Fault(what, "bank_c", least) for what in ("twice", "another's name", "a stranger's certificate")]
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with everyone's files, among them keys of one who is no owner, and of another authority."""
    folder = tmp_path_factory.mktemp("owners")
    ports = [free_port() for _ in PARTIES]
    sections = {
        name: {"train_data": f"{name}.csv", "model": f"{name}.npz", "owners_address": f"127.0.0.1:{port}",
               "contributed": f"{name}.given"}
        for name, port in zip(PARTIES, ports, strict=True)
    }  # fmt: skip
    write_job(folder, sections, [*OWNERS, "mallory"], train=TRAIN, owners={"names": OWNERS, "patience": PATIENCE})
    shutil.copytree(folder / "keys", folder / "renamed")
    for kind in ("crt", "key"):
        shutil.copy(folder / "keys" / f"mallory.{kind}", folder / "renamed" / f"bank_c.{kind}")
    keygen(folder / "strange", "bank_c", [])
    keys = {"bank_c": "keys", "bank_d": "keys", "renamed": "renamed", "strange": "strange"}
    for file, tls in keys.items():
        name = file if file in OWNERS else "bank_c"
        write_owner(folder, file, ports, {"name": name}, tls=tls, patience=PATIENCE, timeout=3 * TIMEOUT)
    for role in ROLES:
        path = folder / f"{role}.toml"
        waits = f"patience = {PATIENCE}\ntimeout = {TIMEOUT}\n"
        path.write_text(waits + path.read_text())
        (folder / f"{role}.strict").write_text(path.read_text())
        (folder / f"{role}.least").write_text(path.read_text().replace("[owners]", "[owners]\nleast = 1"))
    for name, seed, rows in (("party_a", 1, 60), ("party_b", 2, 50), ("bank_c", 3, 70), ("bank_d", 4, 40)):
        table(rows, seed).to_csv(folder / f"{name}.csv", index=False)
    warm_up()
    dealer = Role(folder, "dealer", "--config", "dealer.toml")
    yield folder
    dealer.process.kill()
    dealer.process.join()


def started(place, fault):
    """Start the commands of all roles, with the fault."""
    roles = {}

    def begin(name, *arguments, file=None):
        first = fault.install if fault.tag and name == fault.hit else None
        limit = 1200 if fault.what == "full disk" and name == fault.hit else None
        roles[name] = Role(place, *arguments, "--config", f"{file or name}.toml", first=first, limit=limit)

    impostor = {"twice": "bank_c", "another's name": "renamed", "a stranger's certificate": "strange"}.get(fault.what)
    for name in PARTIES:
        begin(name, "collect", "--party", name)
    if impostor and fault.what != "twice":
        begin("impostor", "contribute", file=impostor)
        time.sleep(0.5)
    for name in OWNERS:
        begin(name, "contribute")
    if fault.what == "twice":
        begin("impostor", "contribute", file=impostor)
    return roles


def kept(place):
    """Return {owner: id} of the contributions that each party has."""
    files = {name: sorted((place / f"{name}.given").glob("*.npz")) for name in PARTIES}
    return [
        {path.stem: read_arrays(path, "a half", None, "contribution")[0]["id"] for path in files[name]}
        for name in PARTIES
    ]


def check_sentences(fault, ends, outcomes):
    """Check that every role that was not hit itself ends in order, and that errors name nobody else."""
    innocent = {*OWNERS, *PARTIES} - {fault.hit}
    for name, (status, said) in ends.items():
        if name == fault.hit and fault.what != "full disk":
            continue
        last = [line for line in said.splitlines() if line.startswith("sharewood: ")]
        assert "Traceback" not in said and status in (0, 2, 3), (str(fault), name, status, said)
        assert len(last) == (status != 0), (str(fault), name, said)
        left_out = [line for line in said.splitlines() if "is left out:" in line or "goes on without" in line]
        for line in left_out:
            assert fault.hit in line and not any(other in line for other in innocent & {*OWNERS}), (
                str(fault),
                name,
                line,
            )
        if status and name not in (fault.hit, "impostor"):
            assert fault.hit in last[0], (str(fault), name, said)
            if fault.hit in PARTIES:
                assert not any(other in last[0] for other in OWNERS if other != name), (str(fault), name, said)
            outcomes["sentences"] += 1
        outcomes["ended well"] += status == 0


def trial(place, fault, outcomes):
    for name in PARTIES:
        shutil.rmtree(place / f"{name}.given", ignore_errors=True)
        shutil.copy(place / f"{name}.{'least' if fault.least else 'strict'}", place / f"{name}.toml")
    for name in OWNERS:
        (place / f"{name}.json").unlink(missing_ok=True)
    roles = started(place, fault)
    waiting = {name: role for name, role in roles.items() if (fault.what, name) != ("stop", fault.hit)}
    hanging = finish(waiting)
    if fault.what == "stop":
        roles[fault.hit].process.kill()
    ends = {name: (role.process.exitcode, role.said()) for name, role in roles.items()}
    assert not hanging, (str(fault), hanging, ends)
    ends = {name: (roles[name].process.exitcode, said) for name, (_, said) in ends.items()}
    check_sentences(fault, ends, outcomes)
    first, second = kept(place)
    assert first == second, (str(fault), first, second, ends)
    for name in OWNERS:
        if (path := place / f"{name}.json").exists():
            assert first.get(name) == json.loads(path.read_text())["id"], (str(fault), name, ends)
    expected = {*OWNERS}
    if fault.tag or fault.what == "twice":  # each of the two may be with one party, and then neither contributes
        expected = {*OWNERS} - {fault.hit} if fault.least else set()
    if fault.hit in OWNERS and fault.tag != "owner.receipt":
        assert expected <= first.keys(), (str(fault), first, ends)
        assert not fault.tag or first.keys() <= expected, (str(fault), first, ends)
    elif fault.tag != "owner.receipt":
        assert first == {}, (str(fault), first, ends)
    leftovers = [path.name for name in PARTIES for path in (place / f"{name}.given").glob("*") if path.suffix != ".npz"]
    if fault.what not in ("kill", "stop") or fault.hit in OWNERS:
        assert not leftovers, (str(fault), leftovers)
    outcomes["kept"] += len(first)
    return [f"    {name} {status}: {(said.strip().splitlines() or [''])[-1]}" for name, (status, said) in ends.items()]


def goes_on(place):
    """Check that an undisturbed collection and a training succeed."""
    fault = Fault("nothing", "", False)
    trial_roles = started_again(place, fault)
    assert all(role.process.exitcode == 0 for role in trial_roles.values())
    both("train", "--json", "{}.train.json", cwd=place)
    report = json.loads((place / "party_a.train.json").read_text())
    assert report["data"]["owners"] == {"bank_c": 70, "bank_d": 40}


def started_again(place, fault):
    for name in PARTIES:
        shutil.copy(place / f"{name}.strict", place / f"{name}.toml")
    roles = started(place, fault)
    assert finish(roles) == []
    for role in roles.values():
        role.said()
    return roles


FAULTS = every_fault()
SAMPLE = [
    next(f for f in FAULTS if (f.what, f.tag, f.peer, f.least) == ("kill", "owner.bins", "party_b", True)),
    next(f for f in FAULTS if (f.what, f.tag, f.peer, f.least) == ("cut", "owner.edges", "party_b", True)),
    next(f for f in FAULTS if f.what == "full disk" and f.least),
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", SAMPLE, ids=str)
def test_a_few_faults(place, fault):
    trial(place, fault, Counter())


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
def test_every_fault(place, capsys):
    outcomes, failed = Counter(), {}
    assert len(FAULTS) == len(set(FAULTS)) == 60
    with capsys.disabled():
        for number, fault in enumerate(FAULTS[: int(os.environ.get("SHAREWOOD_FAULTS", "60"))]):
            print(f"\n{number}: {fault}", flush=True)
            try:
                lines = trial(place, fault, outcomes)
            except AssertionError as error:
                failed[number] = str(error)
                lines = [f"    FAILED {error}"]
            print("\n".join(lines), flush=True)
            outcomes["trials"] += 1
        goes_on(place)
        print(f"\n{dict(outcomes)}; hangs, half-counted contributions or wrong names: {len(failed)} {list(failed)}")
    assert not failed
