"""Tables at windows of a shared integer, compared with the specification, and kernels compared with plain ones."""

import numpy as np
import pytest

from mpc.kernels import windows as kernels
from mpc.lookup.windows import WindowMasks, Windows, look_up, values_at
from mpc.words import U16, U64
from protocols.testing.two_parties import Dealt, ring_half, run_both

RNG = np.random.default_rng(6)


def plain(x, r, windows):
    """Compute the specification in mpc/lookup/windows.py literally, on Python's integers."""
    found = []
    for place, which in zip(windows.places.tolist(), windows.which, strict=True):
        low = (1 << place) - 1
        coin = (x & low) + (r & low) > low
        found.append(windows.tables[which][((x % (1 << windows.bits) >> place) + coin) % (1 << windows.width)])
    return found


def drawn_windows(width, place=None, step=None):
    """Return windows at random places that end within the word, with several random tables."""
    place = int(RNG.integers(0, 40)) if place is None else place
    step = int(RNG.integers(1, width + 3)) if step is None else step
    count = min(int(RNG.integers(1, 6)), (64 - width - place) // step + 1)
    outputs = int(RNG.integers(1, 33))
    tables = tuple(tuple(table) for table in RNG.integers(0, 1 << outputs, (2, 1 << width)).tolist())
    return Windows(place, step, tables, tuple(RNG.integers(0, 2, count).tolist()), outputs)


def looked_up(x, windows, dtype=U64):
    """Return the value that both parties open to, and the mask that was dealt."""

    def job(party):
        party.randomness = Dealt(party.randomness)
        return look_up(party, ring_half(x, party.rank, dtype), windows), party.randomness.given

    results, _ = run_both(job)
    (mine, given), (theirs, also_given) = results
    (request, first), (_, second) = given[0], also_given[0]
    assert isinstance(request, WindowMasks) and mine.dtype == np.uint64
    return mine.words ^ theirs.words, (first[0] + second[0]).reshape(x.shape)


@pytest.mark.parametrize("width", [1, 2, 5, 6, 7, 8, 10])
def test_tables_at_random_places(width):
    for _ in range(4):
        windows = drawn_windows(width)
        x = np.concatenate([RNG.integers(-(2**63), 2**63 - 1, 38), [0, -1]]).reshape(2, 20)
        found, r = looked_up(x, windows)
        expected = [plain(int(a), int(b), windows) for a, b in zip(x.flat, r.flat, strict=True)]
        assert found.shape == (2, 20, len(windows.which))
        assert np.array_equal(found.reshape(40, -1), expected)
        assert np.array_equal(values_at(x, r, windows), found)


def test_the_last_window_may_end_with_the_word():
    windows = Windows(0, 56, ((*range(256),),), (0, 0), 8)
    assert windows.bits == 64
    x = RNG.integers(-(2**63), 2**63 - 1, 50)
    found, r = looked_up(x, windows)
    assert np.array_equal(found[:, 0], x & 255)
    assert np.array_equal(found[:, 1], [plain(int(a), int(b), windows)[1] for a, b in zip(x, r, strict=True)])


def test_a_window_from_bit_0_is_exact_in_a_narrow_ring():
    windows = Windows(0, 1, ((*range(1024),),), (0,), 10)
    x = np.arange(-(2**15), 2**15, 7)
    found, _ = looked_up(x, windows, U16)
    assert np.array_equal(found[:, 0], x % 1024)


def test_roundings_occur_with_the_probability_of_the_fraction():
    windows = Windows(4, 1, ((*range(256),),), (0,), 8)
    x = np.repeat(np.arange(16), 4000)
    found, _ = looked_up(x, windows)
    up = found[:, 0].reshape(16, 4000)
    assert up.max() == 1 and (up[0] == 0).all()
    # At most six standard deviations.
    assert np.abs(up.mean(axis=1) - np.arange(16) / 16).max() < 6 * 0.5 / 4000**0.5


@pytest.mark.parametrize("body", ["compiled", "interpreted"])
@pytest.mark.parametrize("width", [2, 6, 8])
def test_kernels_equal_the_plain_table(width, body):
    one_hot, turned, look = (
        getattr(kernel, "py_func", None) if body == "interpreted" else kernel
        for kernel in (kernels.one_hot, kernels.turned, kernels.look_up)
    )
    places, which = np.array([0, 3, 64 - width]), np.array([0, 1, 0])
    tables = RNG.integers(0, 1 << 9, (2, 1 << width)).astype(np.uint64)
    e, r = RNG.integers(0, 2**64, (2, 11), np.uint64)
    seen_e, seen_r = (w[:, None] >> places.astype(np.uint64) & np.uint64((1 << width) - 1) for w in (e, r))

    hot = one_hot(r, places, width)
    bits = np.unpackbits(hot.view(np.uint8), axis=-1, bitorder="little")[..., : 1 << width]
    assert hot.shape == (11, 3, kernels.hot_words(width))
    assert np.array_equal(bits, np.arange(1 << width) == seen_r[..., None])

    mask = RNG.integers(0, 2**64, hot.shape, np.uint64)
    turned_tables = np.stack([turned(table, 9) for table in tables])
    first, second = (look(e, places, half, turned_tables, which) for half in (mask, hot ^ mask))
    assert np.array_equal(first ^ second, tables[which, seen_e - seen_r & np.uint64((1 << width) - 1)])
