"""What the author of a protocol imports; and behind it contracts, the catalogue, evidence and rehearsals."""

from __future__ import annotations

from mpc.endpoint import Endpoint
from mpc.offline.correlation import Correlation, Recipe, View, correlation, private_to_each
from mpc.protocol.catalogue import Call, Inputs, calls, describe
from mpc.protocol.contract import Cost, both, protocol
from mpc.protocol.evidence import Argued, Bits, Enumerated, bit, composed, in_half_range, packed, private, signed, word
from mpc.rings import (
    GF2,
    Z8,
    Z16,
    Z32,
    Z64,
    Z128,
    PackedBits,
    PackedIntegers,
    Ring,
    WideIntegers,
    Z2k,
    integers,
    packed_integers,
)
from mpc.rounds import Round, Steps, exchange_words, named, open_shares, open_words, parallel
from mpc.shares import AShare, BShare, PShare, S, Share, concatenate, product_scale, public_bits, same_shape, stack
from mpc.words import U8, U16, U32, U64, Shape, decode_signed, encode_signed, low_bits, packed_size, smallest_word
