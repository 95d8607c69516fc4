import json
import subprocess
import sys
from pathlib import Path

import pytest
from numba import types

from sharewood.warming_up import KERNELS, type_of

ROOT = Path(__file__).parents[2]
MAKERS = {"dealer": ("dealer",), "ferret": ("pairwise", "ferret"), "softspoken": ("pairwise", "softspoken")}
# Prints what a process has compiled or loaded: by module and kernel, the types of the arguments.
_COMPILED = """
import json, sys
from numba import types
from numba.core.dispatcher import Dispatcher
from sharewood.warming_up import warm_up
def text(kind):
    if not isinstance(kind, types.Array):
        return str(types.unliteral(kind))
    return f"{kind.dtype} {kind.ndim}d {kind.layout}" + " readonly" * (not kind.mutable)
warm_up(*sys.argv[1:])
found = {}
for name, module in list(sys.modules.items()):
    if name.partition(".")[0] in ("mpc", "protocols", "secure_tree"):
        for kernel, value in vars(module).items():
            if isinstance(value, Dispatcher) and value.py_func.__module__ == name and value.signatures:
                found.setdefault(name, {})[kernel] = [", ".join(map(text, s)) for s in value.signatures]
print(json.dumps(found))
"""


def compiled(maker: str) -> dict[str, dict[str, list[str]]]:
    for _ in range(2):  # from a full cache, a kernel does not load those that it calls
        done = subprocess.run(
            [sys.executable, "-c", _COMPILED, *MAKERS[maker]], capture_output=True, text=True, cwd=ROOT, check=True
        )
    return json.loads(done.stdout)


def as_sets(kernels):
    return {(module, name, *sorted(found)) for module, names in kernels.items() for name, found in names.items()}


@pytest.mark.parametrize("maker", MAKERS)
def test_the_list_has_every_kernel_of_a_warm_up(maker):
    listed = json.loads(KERNELS.read_text())[maker]
    assert as_sets(compiled(maker)) == as_sets(listed), "python -m tests.sharewood.test_warming_up writes it anew"


def test_types_are_read_as_numba_knows_them():
    assert type_of("int64") == types.int64
    assert type_of("uint64 2d C") == types.uint64[:, ::1]
    assert type_of("uint32 1d A readonly") == types.Array(types.uint32, 1, "A", readonly=True)


def test_a_second_process_compiles_what_the_first_has_not(tmp_path, monkeypatch):
    """Both together have one cache, in which each finds what the other compiled; the list is enough to fill it."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    code = "from sharewood.warming_up import compile_kernels; compile_kernels('dealer')"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    code = (
        "from numba.core import event\nfrom sharewood.warming_up import warm_up\n"
        "with event.install_recorder('numba:compile') as recorder: warm_up()\nprint(len(recorder.buffer))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "0", done.stdout + done.stderr


if __name__ == "__main__":
    KERNELS.write_text(json.dumps({maker: compiled(maker) for maker in MAKERS}, indent=1) + "\n")
