"""What numba compiles kernels for, and where it keeps them: beside their sources, or in a folder of this user where
those cannot be written.

Anyone who can write to that folder can run code in this process, so nobody else may enter it.
"""

from __future__ import annotations

import logging
import mmap
import os
import tempfile
from pathlib import Path

import numba
from numba.core import event
from numba.core.registry import cpu_target

from mpc.errors import ConfigError
from mpc.host.folders import cache_folder, private_folder

log = logging.getLogger("sharewood")

_VARIABLE = "NUMBA_CACHE_DIR"
_PACKAGES = "mpc", "protocols", "secure_tree"
# One byte that all processes of a job share, since they are forked: whether one has announced the compilation.
_announced = mmap.mmap(-1, 1)


class _Announcement(event.Listener):
    """Says once that kernels are being compiled. Loading a kernel from numba's cache is no such event."""

    def on_start(self, event: event.Event) -> None:
        package = event.data["dispatcher"].py_func.__module__.partition(".")[0]
        if package in _PACKAGES and not _announced[0]:
            _announced[0] = 1
            # A warning, so that it is also shown where no logging is configured, as in a notebook.
            log.warning("compiling kernels, once on this machine: about a minute")

    def on_end(self, event: event.Event) -> None:
        """Say nothing."""


event.register("numba:compile", _Announcement())


def keep_compiled() -> None:
    """Have numba use the folder, here and in child processes. Raises ConfigError if there is none."""
    if os.environ.get(_VARIABLE) or _writable(Path(__file__).parent / "__pycache__"):
        return
    try:
        folder = private_folder(cache_folder() / "numba")
    except (ConfigError, OSError) as error:
        raise ConfigError(f"compiled code needs a folder: set {_VARIABLE} to one of this user; {error}") from None
    os.environ[_VARIABLE] = str(folder)
    numba.config.reload_config()


# The extensions of x86 that kernels use by name, each with those that LLVM switches off it with.
_X86 = {
    "aes": {"sse", "sse2"},
    "pclmul": {"sse", "sse2"},
    "vaes": {"sse", "sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "aes", "avx", "avx2"},
    "vpclmulqdq": {"sse", "sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "pclmul", "avx"},
}


def extensions(triple: str, features: str) -> frozenset[str]:
    """Return the extensions of _X86 that code for an LLVM target may use, e.g. "x86_64-linux-gnu", "+aes,-avx".

    An instruction that the target lacks ends the process. What a processor's name implies is left out, so that a
    target may be found to have fewer than it has, never more.
    """
    if not triple.startswith(("x86_64", "i386", "i686")):
        return frozenset()
    # LLVM applies the features in order, so the last mention of each counts.
    has = {feature[1:]: feature[0] == "+" for feature in features.split(",") if feature}
    return frozenset(
        name for name, needs in _X86.items() if has.get(name) and all(has.get(need, True) for need in needs)
    )


def _compiled_for() -> frozenset[str]:
    # numba sets its configuration as attributes at run time.
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return frozenset()
    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    return extensions(triple, features)


# Not those of this processor: NUMBA_CPU_NAME and NUMBA_CPU_FEATURES choose what numba compiles for.
EXTENSIONS = _compiled_for()


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True
