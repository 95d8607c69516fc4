"""Conversion of shares to and from CrypTen, which uses the same ring: Z_2^64, additive, fixed point. No message.

CrypTen 0.4.1 with its default provider deals its own triples at party 0 (a trusted first party), which determines the
security of a share after `to_crypten`. This is the only import of torch in this package; it happens on first use.
`import crypten` fails on a current torch; after `load_crypten` it succeeds.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import numpy as np

from mpc.errors import ConfigError, ShapeMismatch
from mpc.host.extras import install
from mpc.rings import Z64
from mpc.shares import AShare

# It names torch and others of its time as what it needs, so these come from our extra instead.
_VERSION = "0.4.1"


def load_crypten() -> ModuleType:
    """Import CrypTen so that it works on a current torch. Raises ConfigError if it is not installed."""
    # CrypTen imports this module, which torch has removed, before it falls back to another one that is also gone.
    sys.modules.setdefault("torch.onnx.symbolic_registry", ModuleType("torch.onnx.symbolic_registry"))
    try:
        return importlib.import_module("crypten")
    except ImportError as error:
        command = f"{install('crypten')} && pip install --no-deps crypten=={_VERSION}"
        raise ConfigError(f"CrypTen is not installed ({error}): {command}") from None


def to_crypten(x: AShare) -> Any:
    """[x] over Z_2^64 at its scale -> CrypTen's MPCTensor of the same shape and precision. Raises ShapeMismatch."""
    if x.ring != Z64:
        raise ShapeMismatch(f"CrypTen needs a share of 64 bits, got {x.ring.bits}")
    crypten = load_crypten()
    torch = importlib.import_module("torch")
    words = torch.from_numpy(np.ascontiguousarray(x.words).view(np.int64).copy())
    return crypten.mpc.MPCTensor.from_shares(words, precision=x.scale)


def from_crypten(tensor: Any, rank: int) -> AShare:
    """CrypTen's arithmetic MPCTensor -> [x] at party `rank`, at CrypTen's precision."""
    words = tensor.share.cpu().numpy().view(np.uint64).copy()
    scale = int(tensor.encoder.scale).bit_length() - 1
    return AShare(words, rank, scale)
