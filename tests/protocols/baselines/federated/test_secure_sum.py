import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from mpc.errors import ConfigError, PeerVanished, ProtocolDesync, RangeError
from protocols.baselines.federated.engine import HELPER, LocalFederation, Participant, field
from protocols.baselines.federated.secure_sum import FRACTION_BITS, Helper, OpenSum, SharedSum
from tests.protocols.baselines.federated.tables import HELPER_KEY

KEY = HELPER_KEY.public_key().public_bytes_raw()
VECTORS = np.array([[1.5, -2.25, 0.1], [1e6, 3.0, -0.3], [-7.0, 2**-25, 12345.678]])


class Holder(Participant):
    """A client that contributes one vector to every sum."""

    def __init__(self, vector, summation):
        super().__init__()
        self.vector, self.summation = vector, summation

    @property
    def steps(self):
        return {"give": lambda message: self.summation.conceal(self.vector, "round 1")}


def federation(summation, minimum=2, absent=lambda step, client: False):
    holders = {i: Holder(vector, summation) for i, vector in enumerate(VECTORS)}
    return LocalFederation(holders | {HELPER: Helper(HELPER_KEY, minimum)}, minimum, absent)


@pytest.mark.parametrize("summation", [OpenSum(), SharedSum(KEY, 3)])
@pytest.mark.parametrize("gone", [None, 1])
def test_the_sum_is_that_of_the_clients_that_answered(summation, gone):
    given = federation(summation, absent=lambda step, client: client == gone)
    total = summation.total(given, given.broadcast("give", {}), "round 1", 3)
    present = [i for i in range(3) if i != gone]
    np.testing.assert_allclose(total, VECTORS[present].sum(axis=0), atol=3 * 2.0**-FRACTION_BITS)


def test_the_words_at_the_server_reveal_nothing_about_one_vector():
    secret = np.zeros(4096)
    share = SharedSum(KEY, 3).conceal(secret, "round 1")["share"]
    assert not np.array_equal(share, SharedSum(KEY, 3).conceal(secret, "round 1")["share"])
    ones = np.unpackbits(share.view(np.uint8)).mean()
    assert abs(ones - 0.5) < 0.01


def test_the_helper_answers_once_a_round_and_for_no_set_below_its_minimum():
    given, summation = federation(SharedSum(KEY, 3)), SharedSum(KEY, 3)
    replies = given.broadcast("give", {})
    with pytest.raises(ProtocolDesync, match="2 different clients"):
        summation.total(given, {0: replies[0]}, "round 1", 3)
    with pytest.raises(ProtocolDesync, match="2 different clients"):
        summation.total(given, {0: replies[0], 1: replies[0]}, "round 1", 3)
    summation.total(given, replies, "round 1", 3)
    with pytest.raises(ProtocolDesync, match="already answered for sum 'round 1'"):
        summation.total(given, {0: replies[0], 1: replies[1]}, "round 1", 3)


def test_a_seed_of_another_round_or_for_another_helper_is_refused():
    given = federation(SharedSum(KEY, 3))
    replies = given.broadcast("give", {})
    with pytest.raises(ProtocolDesync, match="not sealed for this helper and this round"):
        SharedSum(KEY, 3).total(given, replies, "round 2", 3)
    other = federation(SharedSum(bytes([9]) + KEY[1:], 3))
    with pytest.raises(ProtocolDesync, match="not sealed for this helper"):
        SharedSum(KEY, 3).total(other, other.broadcast("give", {}), "round 1", 3)


IDENTITIES = [ec.generate_private_key(ec.SECP384R1()) for _ in range(3)]


def signed(client, identity, label="round 1"):
    return SharedSum(KEY, 3, identity).conceal(VECTORS[client], label)


def knowing(minimum=2):
    helper = Helper(HELPER_KEY, minimum, [identity.public_key() for identity in IDENTITIES])
    return LocalFederation({0: Holder(VECTORS[0], OpenSum()), HELPER: helper}, 1)


def test_a_helper_that_knows_its_clients_sums_their_seeds():
    replies = {i: signed(i, IDENTITIES[i]) for i in range(3)}
    total = SharedSum(None, 3).total(knowing(3), replies, "round 1", 3)
    np.testing.assert_allclose(total, VECTORS.sum(axis=0), atol=3 * 2.0**-FRACTION_BITS)


STRANGER = ec.generate_private_key(ec.SECP384R1())


@pytest.mark.parametrize("forger", [None, STRANGER, IDENTITIES[0]], ids=["nobody", "a stranger", "the same client"])
def test_a_seed_that_no_other_client_signed_does_not_count_towards_the_minimum(forger):
    """With seeds of its own the server would reach the minimum, and learn the only genuine vector."""
    replies = {0: signed(0, IDENTITIES[0]), 1: signed(1, forger)}
    with pytest.raises(ProtocolDesync, match="every seed must be signed by another client that the helper knows"):
        SharedSum(None, 3).total(knowing(), replies, "round 1", 3)


def test_a_helper_that_knows_too_few_clients_is_refused():
    with pytest.raises(ConfigError, match="the helper must know the keys of at least 2 clients, got 1"):
        Helper(HELPER_KEY, 2, [IDENTITIES[0].public_key()])


@pytest.mark.parametrize(
    "change", [{"length": np.array(-1)}, {"length": np.array(1 << 60)}, {"label": np.array([255], np.uint8)}]
)
def test_a_malformed_request_to_the_helper_is_one_sentence(change):
    sealed = np.stack([signed(i, IDENTITIES[i])["sealed"] for i in range(2)])
    request = {"label": np.frombuffer(b"round 1", np.uint8), "length": np.array(3), "sealed": sealed}
    with pytest.raises(ProtocolDesync, match=r"^sum "):
        knowing().ask_helper("unmask", request | change)


def test_a_helper_that_vanishes_ends_the_round_with_a_sentence():
    given = federation(SharedSum(KEY, 3), absent=lambda step, client: client == HELPER)
    with pytest.raises(PeerVanished, match="the helper did not answer"):
        SharedSum(KEY, 3).total(given, given.broadcast("give", {}), "round 1", 3)


def test_too_few_clients_end_the_round_with_a_sentence():
    given = federation(OpenSum(), absent=lambda step, client: client > 0)
    with pytest.raises(PeerVanished, match="1 clients answered, at least 2 are needed"):
        given.broadcast("give", {})


@pytest.mark.parametrize("value", [np.nan, np.inf, 2.0**38 / 3])
def test_a_value_outside_the_fixed_point_range_is_refused(value):
    with pytest.raises(RangeError, match="must be finite and within"):
        SharedSum(KEY, 3).conceal(np.array([0.0, value]), "round 1")


def test_a_key_that_is_missing_or_of_the_wrong_length_is_refused():
    with pytest.raises(ConfigError, match="needs the helper's public key"):
        SharedSum(None, 3).conceal(np.zeros(1), "round 1")
    with pytest.raises(ConfigError, match="must have 32 bytes, got 31"):
        SharedSum(KEY[1:], 3)


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (None, "has no 'x'"),
        (np.zeros(3, np.float32), r"expected float64\[3\], got float32\[3\]"),
        (np.zeros((3, 1)), r"got float64\[3, 1\]"),
        (np.array([0, np.nan, 0]), "must be finite"),
    ],
)
def test_a_received_array_of_another_kind_is_refused(array, sentence):
    with pytest.raises(ProtocolDesync, match=sentence):
        field({} if array is None else {"x": array}, "x", np.float64, (3,))


def test_an_unknown_step_is_refused():
    with pytest.raises(ProtocolDesync, match="Holder has no step '__init__'"):
        federation(OpenSum()).broadcast("__init__", {})
