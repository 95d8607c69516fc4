"""Points stand for ids: they are those of libsodium's own conversion, masks commute, and others are refused."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

bindings = pytest.importorskip("nacl.bindings")

from protocols.psi.points import POINT, hashed, masked, read_points  # noqa: E402

_PRIME = 2**255 - 19
_A = 486662


def test_points_are_the_curve_s_image_of_the_edwards_points_and_have_prime_order():
    ids = [f"id {i}".encode() for i in range(40)]
    for one, point in zip(ids, hashed(ids), strict=True):
        digest = hashlib.blake2b(one, digest_size=32, person=b"sharewood ids").digest()
        # Libsodium converts no point outside of the subgroup of prime order.
        edwards = bindings.crypto_core_ed25519_from_uniform(digest)
        assert bindings.crypto_core_ed25519_is_valid_point(edwards)
        assert point == bindings.crypto_sign_ed25519_pk_to_curve25519(edwards)
        u = int.from_bytes(point, "little")
        assert pow(u**3 + _A * u**2 + u, (_PRIME - 1) // 2, _PRIME) == 1  # on the curve, not on its twist


@settings(max_examples=30, deadline=None)
@given(st.binary(), st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_masks_commute(one, first, second):
    points = hashed([one])
    both = masked(masked(points, first), second)
    assert both == masked(masked(points, second), first) and both != points and len(both[0]) == POINT


def test_chunks_keep_the_order():
    ids = [b"%d" % i for i in range(4097)]
    points = hashed(ids)
    assert len(set(points)) == 4097 and points[4096:] == hashed(ids[4096:]) and points[:2] == hashed(ids[:2])
    assert hashed([]) == masked([], b"k" * 32) == []


@pytest.mark.parametrize(
    "u", [0, 1, _PRIME - 1, 39382357235489614581723060781553021112529911719440698176882885853963445705823]
)
def test_points_of_small_order_are_refused(u):
    with pytest.raises(ValueError, match="a point is of small order"):
        masked([*hashed([b"a"]), u.to_bytes(32, "little")], b"k" * 32)


@pytest.mark.parametrize(
    ("joined", "sentence"),
    [
        (b"", "points have 32 bytes each, got 0 bytes"),
        (b"a" * 33, "points have 32 bytes each, got 33 bytes"),
        (b"a" * 64, "a point appears twice"),
        (_PRIME.to_bytes(32, "little"), "a point is not reduced"),
        (b"\xff" * 32, "a point is not reduced"),
    ],
)
def test_other_bytes_are_no_points(joined, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_points(joined)
