"""Ports for tests that run at the same time."""

import contextlib
import itertools
import socket

# Above those of Ray's workers, and below those that a system gives to connections and to whoever asks for any port:
# otherwise one could be taken in between.
_FIRST, _LAST, _BLOCK = 20_000, 32_000, 500


class _Ports:
    """Ports of this process only, in turn: whoever is given one may listen there later."""

    def __init__(self):
        self._claim, self._turn = None, None

    def next(self, count):
        """Return the first of so many consecutive ports."""
        if self._claim is None:
            self._claim = self._claimed()
            self._turn = itertools.cycle(range(1, _BLOCK))
        first = next(self._turn)
        while first + count > _BLOCK:
            first = next(self._turn)
        for _ in range(count - 1):
            next(self._turn)
        return self._claim.getsockname()[1] + first

    @staticmethod
    def _claimed():
        """Listen at the first port of a block, which no other process does then."""
        for port in range(_FIRST, _LAST, _BLOCK):
            with contextlib.suppress(OSError):
                return socket.create_server(("127.0.0.1", port))
        raise OSError(f"no block of {_BLOCK} ports from {_FIRST} on is free")


_PORTS = _Ports()


def free_port():
    """Return a port at which nobody listens, and which no other call is given soon."""
    with free_ports(1) as (port,):
        return port


@contextlib.contextmanager
def free_ports(count):
    """Yield so many consecutive ports. They are taken until the end of the block."""
    while True:
        first = _PORTS.next(count)
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            yield range(first, first + count)
            return
