"""A link between two hosts that breaks on command: a TCP relay in a separate process."""

import contextlib
import socket
import struct
import threading
import time

from tests.protocols.runtime.meeting import FORK

BREAKS = ("reset", "half-open", "pauses", "flipped byte")
_PAUSES, _PAUSE, _PATIENCE = 20, 0.2, 30
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with RST


class Link:
    """Connections to `address` through `self.port`; `do` applies one of BREAKS to all traffic from then on."""

    def __init__(self, address):
        server = socket.create_server(("127.0.0.1", 0))
        self.port = server.getsockname()[1]
        there, self._orders = FORK.Pipe(duplex=False)
        self._process = FORK.Process(target=_Relay(server, address).serve, args=(there,), daemon=True)
        self._process.start()
        server.close()

    def do(self, what):
        self._orders.send(what)

    def close(self):
        self._process.kill()
        self._process.join()


@contextlib.contextmanager
def broken_link(folder, client, server):
    """Put a link between two hosts: its address replaces the server's in the client's configuration."""
    path = folder / f"{client}.toml"
    text = path.read_text()
    table = "[dealer]" if server == "dealer" else f"[parties.{server}]"
    port = int(text.partition(table)[2].partition('address = "127.0.0.1:')[2].partition('"')[0])
    link = Link(("127.0.0.1", port))
    path.write_text(text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{link.port}"))
    try:
        yield link
    finally:
        path.write_text(text)
        link.close()


class _Relay:
    def __init__(self, server, address):
        self.server, self.address = server, address
        self.ends, self.silent, self.pauses, self.flip = [], False, 0, threading.Semaphore(0)

    def serve(self, orders):
        threading.Thread(target=self._accept, daemon=True).start()
        while True:
            match orders.recv():
                case "reset":
                    for end in self.ends:
                        with contextlib.suppress(OSError):
                            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                            end.shutdown(socket.SHUT_RD)  # wakes the thread that reads it
                            end.close()
                case "half-open":
                    self.silent = True
                case "pauses":
                    self.pauses = _PAUSES
                case "flipped byte":
                    self.flip.release()

    def _accept(self):
        while True:
            threading.Thread(target=self._carry, args=(self.server.accept()[0],), daemon=True).start()

    def _carry(self, client):
        """Relay both directions of a connection; the server may start to listen a little later."""
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                server = socket.create_connection(self.address)
                break
            except OSError:
                if time.monotonic() > until:
                    client.close()
                    return
                time.sleep(0.02)
        self.ends += [client, server]
        threading.Thread(target=self._pass, args=(server, client), daemon=True).start()
        self._pass(client, server)

    def _pass(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 15):
                if self.silent:
                    continue
                if self.pauses > 0:
                    self.pauses -= 1
                    time.sleep(_PAUSE)
                if self.flip.acquire(blocking=False):
                    data = data[:-1] + bytes([data[-1] ^ 1])
                target.sendall(data)
        if not self.silent:
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_WR)
