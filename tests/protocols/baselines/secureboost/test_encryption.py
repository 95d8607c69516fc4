"""The three back ends against plain sums, each in a separate process: HEU's threads do not survive a fork."""

import threading

import gmpy2
import numpy as np
import pytest

from mpc.errors import ConfigError
from protocols.baselines.secureboost.encoding import CiphertextLayout
from protocols.baselines.secureboost.encryption import packed_blocks
from protocols.baselines.secureboost.key_pairs import generate_key, load_public_key
from protocols.baselines.secureboost.phe_encryption import over_cores
from protocols.runtime.processes import run_processes


def histograms_round_trip(cryptosystem, library):
    rng = np.random.default_rng(1)
    n, d, size = 60, 2, 5
    g, h = rng.integers(-1 << 24, 1 << 24, n), rng.integers(0, 1 << 24, n)
    members = [rng.random(n) < 0.5, np.ones(n, bool)]
    bins = rng.integers(0, size - 1, (n, d)).astype(np.int8)  # the last bin stays empty
    key = generate_key(cryptosystem, 1024, library)
    public = load_public_key(library, key.public.to_bytes())
    layout = CiphertextLayout.plan(n, public.plaintext_bits)
    ciphertexts = public.load(key.public.dump(key.public.encrypt(layout.join(g, h)[:, None])), n, 1)
    for member, sums in zip(members, public.bucket_sums(ciphertexts, members, bins, size), strict=True):
        expected = np.zeros((d, size, 2), np.int64)
        for f in range(d):
            np.add.at(expected[f], bins[member, f], np.stack([g, h], axis=1)[member])
        noise = rng.integers(-1 << 25, 1 << 25, (d * size, 2))
        packed = public.pack(sums, layout.pairs, layout.pair_bits, layout.join(*noise.T))
        digits = layout.split(key.decrypt(packed)[:, 0])
        opened = np.zeros((d * size, 2), np.int64)
        for (start, stop), block in zip(packed_blocks(d * size, layout.pairs), digits, strict=False):
            opened[start:stop] = block
        assert np.array_equal((opened - noise).reshape(d, size, 2), expected)
        nothing = np.zeros((d * size, 1), object)
        assert public.dump(public.blind(sums, nothing)) != public.dump(sums)
    one, all_ = public.bucket_sums(ciphertexts, members, bins, size)
    rest = public.subtract(all_, one)
    [others] = public.bucket_sums(ciphertexts, [~members[0]], bins, size)
    assert key.decrypt(rest).tolist() == key.decrypt(others).tolist()
    return True


@pytest.mark.parametrize("cryptosystem, library", [("paillier", "heu"), ("ou", "heu"), ("paillier", "phe")])
def test_histograms_of_ciphertexts_are_histograms(cryptosystem, library):
    assert run_processes({"party": lambda _: histograms_round_trip(cryptosystem, library)}, timeout=60)["party"]


@pytest.mark.parametrize("library", ["heu", "phe"])
def test_unreadable_ciphertexts_are_refused_in_a_sentence(library):
    def party(_):
        public = generate_key("paillier", 1024, library).public
        refused = []
        for attempt in (lambda: public.load(b"not a ciphertext", 3, 1), lambda: load_public_key(library, b"")):
            try:
                attempt()
            except Exception as error:
                refused.append((type(error).__name__, str(error)))
        return refused

    refused = run_processes({"party": party}, timeout=60)["party"]
    assert [kind for kind, _ in refused] == ["ProtocolDesync"] * 2
    assert "public key cannot be read" in refused[1][1]


def test_phes_powers_run_in_parallel_without_pythons_lock(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    both_are_here = threading.Barrier(2, timeout=30)

    def meet(value):
        both_are_here.wait()
        return gmpy2.get_context().allow_release_gil, value

    met = over_cores(meet, np.arange(4).astype(object).reshape(2, 2))
    assert met.tolist() == [[(True, 0), (True, 1)], [(True, 2), (True, 3)]]


def test_without_heu_there_is_no_okamoto_uchiyama():
    with pytest.raises(ConfigError, match="needs sf-heu"):
        generate_key("ou", 2048, "phe")


@pytest.mark.parametrize("count, pairs", [(1, 8), (7, 8), (8, 8), (9, 8), (320, 25), (33, 8)])
def test_packed_blocks_cover_every_sum(count, pairs):
    blocks = packed_blocks(count, pairs)
    assert len(blocks) <= pairs
    assert len({stop - start for start, stop in blocks}) == 1
    assert set().union(*(range(*block) for block in blocks)) == set(range(count))
