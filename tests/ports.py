"""Ports for tests that run at the same time."""

import contextlib
import os
import random
import socket

# Above those of Ray's workers, and below those that a system gives to connections and to whoever asks for any port:
# otherwise one could be taken in between.
_FIRST, _LAST = 20_000, 32_000
_ORDER = random.Random(os.urandom(8))


def free_port():
    """Return a port at which nobody listens."""
    with free_ports(1) as (port,):
        return port


@contextlib.contextmanager
def free_ports(count):
    """Yield so many consecutive ports. They are taken until the end of the block."""
    while True:
        first = _ORDER.randrange(_FIRST, _LAST)
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            yield range(first, first + count)
            return
