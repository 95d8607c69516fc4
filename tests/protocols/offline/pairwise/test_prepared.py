"""Prepared material: each value is used once, and a file that cannot be used is refused with the reason."""

import contextlib
import os
import shutil
import signal
import stat
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass

import numpy as np
import pytest

from mpc.arithmetic.beaver import Squares, Triples, multiply
from mpc.comparison.comparison import SignMasks
from mpc.comparison.comparison_keys import SignKeys
from mpc.errors import ConfigError, DataError, ProtocolDesync
from mpc.host.encryption import FileKey
from mpc.operators import session
from mpc.party import Party
from mpc.protocol.catalogue import correlations, entries
from mpc.protocol.rehearsal import rehearsing
from mpc.rings import Z8, Z64
from protocols.offline.pairwise import client as making
from protocols.offline.pairwise import prepared as files
from protocols.offline.pairwise.client import pairwise, prepare
from protocols.offline.pairwise.known_transfers import known_transfers
from protocols.offline.pairwise.prepared import Prepared, preparable
from protocols.offline.pairwise.view import NeedsDealer, PairView
from protocols.offline.plan import decode_plan, encode_plan, in_order
from protocols.offline.sizes import Portion, request_bytes
from protocols.offline.streams import Streams
from protocols.offline.supply import numbered
from protocols.runtime.local import PARTIES
from protocols.runtime.processes import SECOND, RoleKilled, run_processes
from protocols.testing.cases import cases
from protocols.testing.two_parties import ring_half
from protocols.transport.memory import memory_pair

TRIPLES, SQUARES = Triples((40,), Z64), Squares((7,), Z64)
PLAN = [([TRIPLES, SQUARES], 3), ([TRIPLES], 2)]
MASKS = "masks"


@pytest.fixture(autouse=True)
def state(tmp_path_factory, monkeypatch):
    """The folder in which runs note what they have used."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder / "sharewood" / "prepared"


@pytest.fixture
def known(monkeypatch):
    """Use correlated transfers that both parties know, which need no set-up."""
    monkeypatch.setattr(making, "_set_up", lambda rank, channel, ot, drawn: known_transfers(rank, drawn))


def side_by_side(play):
    """Run play(rank) at both parties; return the results or failures."""

    def outcome(rank):
        try:
            return play(rank)
        except Exception as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(outcome, (0, 1)))


def made(folder, plan=PLAN, plans=None, name="material", key=None):
    """Return both parties' files, or the failures of preparing them."""
    channels = memory_pair()

    def play(rank):
        path = folder / f"{name}_{rank}"
        with channels[rank].explained() as channel:
            prepare(rank, channel, PARTIES, plans[rank] if plans else plan, path, "softspoken", key).close()
        return path

    return side_by_side(play)


def opened(path, rank=0, key=None):
    return Prepared(path, rank, PARTIES, key)


def taken(prepared, *correlations):
    """Return the values of requests, None for a request that the file does not have."""
    requests = numbered(Portion(list(correlations), [request_bytes(r) for r in correlations]), 0)
    left = prepared.fulfil(requests)
    return [None if any(r is other for other in left) else r.values for r in requests]


def in_session(paths, job, key=None):
    """Run job(party) at both parties with their files, None for a party that has none."""
    peers, seconds = memory_pair(), memory_pair()

    def play(rank):
        with peers[rank].explained() as peer, seconds[rank].explained() as channel:
            prepared = opened(paths[rank], rank, key) if paths[rank] else None
            try:
                randomness = pairwise(rank, channel, "softspoken", peer, prepared)
                with session(Party(rank, peer, randomness)) as party:
                    result = job(party)
                randomness.close()
                return result
            finally:
                if prepared:
                    prepared.close()

    return side_by_side(play)


def squares(party):
    x = ring_half(np.arange(40) - 9, party.rank)
    return party.reveal(multiply(party, x, x), what="squares").tolist()


SQUARED = [[x * x for x in range(-9, 31)]] * 2


def every_request():
    """Return the requests of the samples of all protocols."""
    asked = []
    for case in cases(entries()):
        party = rehearsing(0)
        case.protocol(party, *case.arguments(party, np.random.default_rng(1), 3), **case.named)
        asked += party.randomness.asked
    return list(dict.fromkeys(asked))


def makeable():
    """Yield the requests that two parties can make."""
    for request in every_request():
        with contextlib.suppress(NeedsDealer):
            request.deal(PairView(0, Streams(bytes(16), bytes(32)).of(0), request))
            yield request


def test_a_request_is_equal_to_itself_after_the_wire():
    plan = [([request], 2) for request in every_request()]
    assert len(plan) > 60 and {type(r) for r in in_order(plan)} >= {type(TRIPLES), SignMasks}
    assert decode_plan(encode_plan(plan)) == plan
    assert len(entries()) > 20 and len(correlations()) > 20


def test_a_file_gives_the_values_that_were_made(known, tmp_path, monkeypatch):
    """Covers every kind of request that two parties can make without a dealer."""
    plan, values = preparable([([request], 2) for request in makeable()]), ({}, {})
    assert len({type(r) for r in in_order(plan)}) > 15
    make = making.Maker.make

    def noted(maker, requests):
        derived = make(maker, requests)
        for value in (value for each in derived for value in each):
            # Bits above those of the ring do not count.
            value.out[...] = value.ring.unpack(value.ring.pack(value.out), value.out.shape)
        for request in requests:
            values[maker.pair.rank].setdefault(request.correlation, []).append(request.values)
        return derived

    monkeypatch.setattr(making.Maker, "make", noted)
    paths = made(tmp_path, plan)
    for rank, path in enumerate(paths):
        with opened(path, rank) as prepared:
            for request in in_order(plan):
                (got,) = taken(prepared, request)
                assert same(got, values[rank][request].pop(0)), request
            assert prepared.used == prepared.count


def same(x, y):
    if isinstance(x, np.ndarray):
        return np.array_equal(x, y)
    if isinstance(x, (list, tuple)):
        return len(x) == len(y) and all(map(same, x, y))
    if is_dataclass(x):
        return all(same(getattr(x, f.name), getattr(y, f.name)) for f in fields(x))
    return x == y


def test_the_halves_of_both_files_belong_together(known, tmp_path):
    halves = []
    for rank, path in enumerate(made(tmp_path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with opened(path, rank) as prepared:
            halves.append(taken(prepared, SQUARES, *[TRIPLES] * 5))
    (a, square), *triples = [[x + y for x, y in zip(*both, strict=True)] for both in zip(*halves, strict=True)]
    assert (square == a * a).all()
    assert all((c == a * b).all() for a, b, c in triples)
    assert len({a.tobytes() for a, _, _ in triples}) == 5


def test_a_piece_is_given_out_once_and_missing_ones_are_left(known, tmp_path):
    path, _ = made(tmp_path)
    seen = Counter()
    for _ in range(2):
        with opened(path) as prepared:
            assert taken(prepared, Triples((3,), Z64), Squares((8,), Z64)) == [None, None]
            seen.update(v[0].tobytes() for v in taken(prepared, SQUARES, TRIPLES, TRIPLES) if v)
    assert len(seen) == 6 and max(seen.values()) == 1
    with opened(path) as prepared:
        assert [v is None for v in taken(prepared, *[SQUARES] * 2, *[TRIPLES] * 2)] == [False, True, False, True]
    with pytest.raises(DataError, match="all of this prepared material is used"):
        opened(path)


def test_a_piece_counts_as_used_before_its_values_are_there(known, tmp_path, monkeypatch):
    path, _ = made(tmp_path)
    requests = numbered(Portion([TRIPLES], [request_bytes(TRIPLES)]), 0)
    with opened(path) as prepared:

        def fail(descriptor):
            assert requests[0].values is None
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", fail)
            with pytest.raises(DataError, match="cannot be used"):
                prepared.fulfil(requests)
        assert requests[0].values is None
    with opened(path) as prepared:
        assert prepared.used == 1


@pytest.mark.parametrize("moment", ["before", "meanwhile", "other order", "more"])
def test_a_session_uses_prepared_material_and_makes_the_rest(known, tmp_path, moment):
    paths = made(tmp_path)
    wide = Triples((41,), Z64)

    def job(party):
        if moment == "before":
            party.randomness.provide([([TRIPLES], 1)])
        if moment == "other order":
            party.randomness.provide([([SQUARES, TRIPLES], 1)])
            party.randomness.take(SQUARES)
        if moment == "more":
            party.randomness.provide([([wide, TRIPLES], 7)])
            for _ in range(6):
                assert len(party.randomness.take(wide)[0]) == 41
                party.randomness.take(TRIPLES)
            party.randomness.take(wide)
        x = ring_half(np.arange(40) - 9, party.rank)
        return multiply(party, x, x).words

    first, second = in_session(paths, job)
    assert (first + second).view(np.int64).tolist() == SQUARED[0]
    with opened(paths[0]) as prepared:
        assert prepared.used == {"before": 1, "meanwhile": 1, "other order": 2, "more": 5}[moment]


def test_neither_uses_what_the_other_has_used(known, tmp_path, state):
    """The disk of party_a is restored, with the user's state folder."""
    paths = made(tmp_path)
    old = paths[0].read_bytes()
    assert in_session(paths, squares) == SQUARED
    with open(paths[0], "r+b") as file:
        file.write(old)
    for noted in state.glob("*-0"):
        noted.unlink()
    with opened(paths[0]) as put_back:
        assert put_back.used == 0
    masks = in_session(paths, lambda party: [party.randomness.take(TRIPLES)[0] for _ in range(5)])
    with opened(paths[0]) as prepared:
        assert prepared.used == 5
        assert len({mask.tobytes() for mask in masks[0]}) == 5
    assert in_session(paths, squares)[0] == SQUARED[0]


def test_a_copy_is_refused_and_a_file_may_move(known, tmp_path):
    path, _ = made(tmp_path)
    copy, moved = tmp_path / "copy", tmp_path / "moved"
    shutil.copy2(path, copy)
    with pytest.raises(DataError, match="copy: this is a copy of prepared material"):
        opened(copy)
    path.rename(moved)
    with opened(moved) as prepared:
        assert prepared.used == 0


@pytest.mark.parametrize("key", [None, FileKey(bytes(32), "the test")], ids=["plain", "encrypted"])
def test_an_old_copy_in_place_is_refused_at_either_party(known, tmp_path, key):
    """As `cp backup file` does, which keeps the inode."""
    paths = made(tmp_path, key=key)
    old = [path.read_bytes() for path in paths]
    assert in_session(paths, squares, key) == SQUARED
    for path, before in zip(paths, old, strict=True):
        with open(path, "r+b") as file:
            file.write(before)
    for failure in in_session(paths, squares, key):
        assert isinstance(failure, DataError)
        assert "an old copy of prepared material was restored: 0 pieces are marked as used, but 1 were" in str(failure)


def test_a_new_file_with_the_old_inode_is_refused(known, tmp_path, monkeypatch):
    path, _ = made(tmp_path)
    copy = tmp_path / "copy"
    shutil.copy2(path, copy)
    inode = path.stat().st_ino
    real = files.birth_of
    assert any(real(os.open(path, os.O_RDONLY))), "this file system tells neither birth nor generation"
    monkeypatch.setattr(files, "_identity", lambda descriptor: [inode, *real(descriptor)])
    opened(path).close()
    with pytest.raises(DataError, match="copy: this is a copy of prepared material"):
        opened(copy)


def test_notes_of_use_are_private_and_a_damaged_one_is_refused(known, tmp_path, state):
    path, _ = made(tmp_path)
    with opened(path) as prepared:
        taken(prepared, SQUARES)
    (noted,) = state.iterdir()
    assert stat.S_IMODE(noted.stat().st_mode) == 0o600 and stat.S_IMODE(state.stat().st_mode) == 0o700
    noted.write_bytes(bytes(len(noted.read_bytes())))
    with pytest.raises(DataError, match=r"is damaged, so that .* may be an old copy"):
        opened(path)


def test_a_crash_between_the_marks_loses_a_piece(known, tmp_path, monkeypatch):
    path, _ = made(tmp_path)
    with opened(path) as prepared, monkeypatch.context() as patched:
        patched.setattr(files, "write_bytes", _no_space)
        with pytest.raises(DataError, match="No space"):
            taken(prepared, SQUARES)
    with opened(path) as prepared:
        assert prepared.used == 1 and taken(prepared, SQUARES) != [None]


def test_two_runs_cannot_use_a_file_at_once(known, tmp_path):
    path, _ = made(tmp_path)
    with opened(path), pytest.raises(DataError, match="another run is using"):
        opened(path)
    opened(path).close()


def test_a_truncated_file_is_refused(known, tmp_path):
    path, _ = made(tmp_path)
    whole = path.read_bytes()
    with opened(path) as prepared:
        ends = {0, 8, 40, prepared._marks_start, len(whole) - 1}
        for shelf in prepared._shelves:
            size = shelf.size + 16
            ends |= {shelf.start + i * size + more for i in range(shelf.count) for more in (0, 1, size // 2)}
    for end in sorted(ends):
        os.truncate(path, end)
        with pytest.raises(DataError, match="is not prepared material, or is damaged"):
            opened(path)
        with open(path, "r+b") as file:
            file.write(whole)
    opened(path).close()
    with open(path, "ab") as file:
        file.write(b"more")
    with pytest.raises(DataError, match="damaged"):
        opened(path)
    with pytest.raises(DataError, match="there is no such file: run sharewood prepare"):
        opened(tmp_path / "none")


def test_every_changed_byte_is_refused(known, tmp_path, state):
    path, _ = made(tmp_path, [([Triples((2,), Z8), Squares((2,), Z8)], 2)])
    whole = path.read_bytes()

    def refused():
        for noted in state.glob("*"):
            noted.unlink()
        try:
            with opened(path) as prepared:
                taken(prepared, *[Triples((2,), Z8), Squares((2,), Z8)] * 2)
        except DataError as error:
            return "damaged" in str(error)
        return False

    with opened(path) as prepared:
        gap = range(8 + 32 + int.from_bytes(whole[:8], "little"), prepared._marks_start)
    kept = []
    for place in range(len(whole)):
        with open(path, "r+b") as file:
            file.write(whole[:place] + bytes([whole[place] ^ 64]) + whole[place + 1 :])
        if not refused():
            kept.append(place)
    assert set(kept) <= set(gap)


def test_files_of_two_runs_or_of_others_are_refused(known, tmp_path):
    paths, others = made(tmp_path), made(tmp_path, name="other")
    for failure in in_session([paths[0], others[1]], squares):
        assert isinstance(failure, DataError) and "in another run than the file of" in str(failure)
    with pytest.raises(DataError, match=r"for party_b, got a file of .* for party_a"):
        opened(paths[0], 1)
    with pytest.raises(DataError, match="prepared by party_a and party_c for party_a"):
        Prepared(paths[0], 0, ("party_a", "party_c"))
    for failure, owner in zip(in_session([None, paths[1]], squares), ("party_b", "this party"), strict=True):
        assert isinstance(failure, ConfigError) and f"only {owner} does" in str(failure)


def test_a_peer_that_lies_about_what_is_used_is_refused(known, tmp_path):
    path, _ = made(tmp_path)
    for claim in (None, np.zeros(3, np.uint64), np.zeros(2, np.int64)):
        mine, theirs = memory_pair()
        theirs.send("pair.used", claim)
        with opened(path) as prepared, pytest.raises(ProtocolDesync, match="how many of its prepared pieces"):
            prepared.agree(mine)


def test_parties_that_prepare_different_things_are_told(known, tmp_path):
    for failure in made(tmp_path, plans=[PLAN, PLAN[:1]]):
        assert isinstance(failure, ConfigError) and "prepares different material" in str(failure)
    assert list(tmp_path.iterdir()) == []


def test_what_needs_a_dealer_leaves_no_file(known, tmp_path):
    failures = made(tmp_path, [([TRIPLES, SignKeys((3,), 2)], 1)])
    assert all(isinstance(failure, NeedsDealer) for failure in failures)
    assert list(tmp_path.iterdir()) == []


def test_only_what_needs_no_data_and_takes_messages_is_prepared():
    plan = [([request], 3) for request in makeable()]
    kept = preparable(plan)
    assert all(count == 3 and not hasattr(request, "number") for (request,), count in kept)
    assert 0 < len(kept) < len(plan)


def test_a_full_disk_leaves_no_file(known, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "in_words", _no_space)
    failures = made(tmp_path)
    assert any(isinstance(failure, DataError) and "No space" in str(failure) for failure in failures)
    assert list(tmp_path.iterdir()) == []


def _no_space(*arguments):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("killed", [0, 1])
def test_after_a_kill_the_rest_is_used_but_no_mask_twice(known, tmp_path, monkeypatch, killed):
    """Each party records every mask that a run gave out, over two runs; the first is killed."""
    monkeypatch.setattr(making, "MOST", 4)
    monkeypatch.setattr(making, "WINDOW", 1 << 13)
    many = [([TRIPLES], 60)]
    paths = made(tmp_path, many)

    def role(rank, kill):
        def play(channels):
            name = PARTIES[1 - rank]
            with opened(paths[rank], rank) as prepared, open(tmp_path / f"{MASKS}_{rank}", "ab", buffering=0) as masks:
                before = prepared.used
                randomness = pairwise(rank, channels[name + SECOND], "softspoken", channels[name], prepared)
                randomness.provide(many)
                for i in range(60):
                    channels[name].exchange_public("step", i)
                    masks.write(randomness.take(TRIPLES)[0].tobytes())
                    if kill and rank == killed and i == 20:
                        os.kill(os.getpid(), signal.SIGKILL)
                randomness.close()
                return before, prepared.used

        return play

    with pytest.raises(RoleKilled):
        run_processes({PARTIES[rank]: role(rank, True) for rank in (0, 1)}, timeout=60, second=True)
    ends = run_processes({PARTIES[rank]: role(rank, False) for rank in (0, 1)}, timeout=60, second=True)
    assert {used for _, used in ends.values()} == {60}
    assert all(0 < before < 60 for before, _ in ends.values())
    for rank in (0, 1):
        masks = np.fromfile(tmp_path / f"{MASKS}_{rank}", np.uint64).reshape(-1, 40)
        # The party that is left may notice before it takes its 21st.
        assert len(masks) >= 80 and len(np.unique(masks, axis=0)) == len(masks)


def test_online_is_the_same_and_offline_takes_fewer_bytes(tmp_path):
    """With real transfers, between two processes."""
    plan = [([Triples((1000,), Z64)], 3)]

    def preparing(rank):
        def play(channels):
            with prepare(rank, channels[PARTIES[1 - rank]], PARTIES, plan, tmp_path / str(rank), "softspoken") as made:
                return made.size

        return play

    def using(rank, with_file):
        def play(channels):
            name = PARTIES[1 - rank]
            prepared = opened(tmp_path / str(rank), rank) if with_file else None
            peer, second = channels[name], channels[name + SECOND]
            randomness = pairwise(rank, second, "softspoken", peer, prepared)
            party = Party(rank, peer, randomness)
            randomness.provide(plan)
            x = ring_half(np.arange(1000), rank)
            for _ in range(3):
                x = multiply(party, x, x)
            randomness.close()
            return x.words, peer.wire_sent, second.wire_sent

        return play

    sizes = run_processes({PARTIES[rank]: preparing(rank) for rank in (0, 1)}, timeout=60)
    results = [
        run_processes({PARTIES[rank]: using(rank, file) for rank in (0, 1)}, timeout=60, second=True)
        for file in (False, True)
    ]
    (_, online, offline), (_, online_file, offline_file) = (result[PARTIES[0]] for result in results)
    assert online == online_file and offline_file < offline / 2
    assert sizes[PARTIES[0]] < 25_000 < offline - offline_file
    for result in results:
        words = sum(result[name][0] for name in PARTIES)
        assert (words == np.arange(1000, dtype=np.uint64) ** np.uint64(8)).all()


def test_material_under_a_key(known, tmp_path):
    key, other = (FileKey.parse(digits * 32, "env:K") for digits in ("ab", "cd"))
    paths = made(tmp_path, key=key)
    assert in_session(paths, squares, key) == SQUARED
    plain, encrypted = made(tmp_path, name="plain"), paths[0].read_bytes()
    with opened(paths[0], key=key) as prepared, opened(plain[0]) as bare:
        assert prepared.used and prepared.size - bare.size < 200
        secrets = prepared.label.seed, prepared.label.pair
        assert prepared._shelves[0].count == 5
    assert not any(secret in encrypted for secret in secrets)
    assert any(secret in plain[0].read_bytes() for secret in (bare.label.seed, bare.label.pair))
    for path, wrong, sentence in (
        (paths[0], other, "cannot be decrypted with the key of env:K"),
        (paths[0], None, "encrypted, but no key is set"),
        (plain[0], key, "not encrypted, although env:K is set"),
    ):
        with pytest.raises(DataError, match=sentence):
            opened(path, key=wrong)


def test_an_altered_piece_under_a_key_is_refused(known, tmp_path):
    key = FileKey.parse("ab" * 32, "env:K")
    path = made(tmp_path, key=key)[0]
    with opened(path, key=key) as prepared:
        shelf = prepared._shelves[0]
    size = shelf.size + 16
    content = path.read_bytes()
    whole = [content[shelf.start + n * size :][:size] for n in (0, 1)]
    for piece in (whole[1], bytes([whole[0][0] ^ 1]) + whole[0][1:]):
        with path.open("r+b") as file:  # the file must stay the same one
            os.pwrite(file.fileno(), piece, shelf.start)
        with (
            opened(path, key=key) as prepared,
            pytest.raises(DataError, match="is not prepared material, or is damaged"),
        ):
            prepared._piece(shelf, 0)
