"""Kernels that name instructions are chosen by what numba compiles for, not by this processor."""

import os
import subprocess
import sys

import pytest

from mpc.kernels.compiled import extensions

X86 = "x86_64-unknown-linux-gnu"


@pytest.mark.parametrize(
    ("triple", "features", "expected"),
    [
        (X86, "", set()),
        (X86, "+aes", {"aes"}),
        (X86, "+64bit,+aes,+avx,+avx2,+pclmul,+vaes", {"aes", "pclmul", "vaes"}),
        (X86, "+aes,-avx,-avx2,+pclmul,-vaes", {"aes", "pclmul"}),
        (X86, "+pclmul,+vpclmulqdq", {"pclmul", "vpclmulqdq"}),
        (X86, "+pclmul,+vpclmulqdq,-avx", {"pclmul"}),
        # What LLVM would switch on by implication, or switches off again, is not counted.
        (X86, "+vaes", {"vaes"}),
        (X86, "+aes,+vaes,-avx2", {"aes"}),
        (X86, "+aes,+pclmul,-sse2", set()),
        (X86, "+aes,-aes", set()),
        (X86, "-aes,+aes", {"aes"}),
        # Arm has an extension of that name, with other instructions.
        ("aarch64-unknown-linux-gnu", "+aes,+neon", set()),
        ("arm64-apple-darwin", "+aes,+pclmul", set()),
    ],
)
def test_extensions_are_those_of_the_target(triple, features, expected):
    assert extensions(triple, features) == expected


PROBE = """
import numpy as np
from mpc.kernels import aes
from protocols.ot.kernels import aes_blocks, carryless, children, leaf_words
rng = np.random.default_rng(1)
key, blocks = bytes(range(16)), rng.integers(0, 2**64, (37, 2), np.uint64)
assert np.array_equal(aes.expand(blocks, (0, 1), key), aes.expand_portably(blocks, np.arange(2, dtype=np.uint64), key))
keys = np.frombuffer(key, np.uint64)[None]
(schedule,) = schedules = aes_blocks.schedules(keys)
made, wanted = np.empty((2, 1, 37, 2), np.uint64)
aes_blocks.counters(schedules, 5, made)
aes_blocks.counters_portably(keys, 5, wanted)
assert np.array_equal(made, wanted)
leaves, sums = np.concatenate([blocks, blocks]).reshape(2, 37, 2), np.empty((2, 37, 2), np.uint64)
children.double(leaves, 1, schedule, sums)
assert np.array_equal(leaves[0], aes_blocks.hashes_portably(blocks, None, 2, keys[0]))
assert np.array_equal(
    aes_blocks.tweaked_hashes(blocks, 7, 3, schedule), aes_blocks.hashes_portably(blocks, 7, 3, keys[0])
)
factors = rng.integers(0, 2**64, (8, 2), np.uint64)[:, 0].copy()
assert np.array_equal(
    carryless.fold_planes(blocks.T.copy(), blocks[:, 1].copy()),
    np.bitwise_xor.reduce(carryless.multiply_plainly(blocks.T, blocks[:, 1]), axis=1),
)
assert carryless.fold_blocks(blocks, factors).shape == (2, 5)
assert aes_blocks._WIDTH == (256 if aes_blocks.EXTENSIONS >= {"vaes", "aes"} else 128)
print(aes.HAS_AES_NI, aes_blocks._WIDTH)
"""
ELSEWHERE = {
    "generic": ({"NUMBA_CPU_NAME": "generic"}, "False 128"),
    "x86-64-v2": ({"NUMBA_CPU_NAME": "x86-64-v2", "NUMBA_CPU_FEATURES": ""}, "False 128"),
    "nehalem": ({"NUMBA_CPU_NAME": "nehalem", "NUMBA_CPU_FEATURES": ""}, "False 128"),
    "sandybridge": ({"NUMBA_CPU_NAME": "sandybridge", "NUMBA_CPU_FEATURES": "+aes"}, "True 128"),
    "haswell": ({"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+aes"}, "True 128"),
    "skylake": ({"NUMBA_CPU_NAME": "skylake", "NUMBA_CPU_FEATURES": ""}, "False 128"),
    "only the name": ({"NUMBA_CPU_NAME": "skylake"}, None),
    "no AVX": ({"NUMBA_ENABLE_AVX": "0"}, None),
    "features without a name": ({"NUMBA_CPU_FEATURES": "+aes,+vaes,-avx2"}, None),
}


# numba is told that it compiles for an Arm processor with the extension `aes`, and no kernel may name what x86 has.
ARM = """
from llvmlite import ir
from numba.core.codegen import JITCPUCodegen
JITCPUCodegen.magic_tuple = lambda self: ("aarch64-unknown-linux-gnu", "neoverse-v1", "+aes,+neon,+sha2,+sve")
declared = ir.Module.declare_intrinsic
def declare(module, name, *rest):
    assert ".x86." not in name, f"{name} on Arm"
    return declared(module, name, *rest)
ir.Module.declare_intrinsic = declare
"""
STREAMS = """
from protocols.offline.streams import Streams
of = Streams(b"seed", b"nonce")
assert np.array_equal(of.draw(3, 5, 1000), of.draw_portably(3, 5, 1000))
"""
PROTOCOLS = "from tests.protocols.ot.pairs import check_everything; check_everything()"


def probed(program, folder):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    child = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr[-2000:]
    return child.stdout.strip()


def test_on_arm_no_instruction_of_x86_is_chosen(tmp_path):
    assert probed(ARM + PROBE + STREAMS, tmp_path) == "False 128"


@pytest.mark.long
def test_oblivious_transfers_on_arm(tmp_path):
    probed(ARM + PROTOCOLS, tmp_path)


def test_a_kernel_of_x86_would_be_noticed(tmp_path):
    """The check above fails if this processor's choice is made on Arm."""
    program = ARM + "from mpc.kernels import aes\ntry:\n    aes.schedule(__import__('numpy').zeros(4, 'u4'))\n"
    assert "aesenclast on Arm" in probed(program + "except Exception as error:\n    print(error)", tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", ELSEWHERE)
def test_kernels_run_for_other_processors(name, tmp_path):
    chosen, expected = ELSEWHERE[name]
    environment = {**os.environ, **chosen, "NUMBA_CACHE_DIR": str(tmp_path)}
    child = subprocess.run([sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr[-2000:]
    assert expected in (None, child.stdout.strip()), child.stdout
