"""A dealer's process, and parties in threads that connect to each other and to it over TLS on loopback."""

import contextlib
import datetime as dt
import logging
import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mpc.arithmetic.beaver import Triples, multiply
from mpc.rings import Z64
from protocols.runtime.dealer_host import run_dealer
from protocols.runtime.hosts import Network, run_party
from protocols.testing.two_parties import ring_half
from protocols.transport.certificates import Authority, make_credentials
from protocols.transport.tcp import connect, listen
from tests.ports import free_port

NAMES = "party_a", "party_b"
AUTHORITY = Authority.new(dt.timedelta(days=1))
CREDENTIALS = make_credentials([*NAMES, "dealer", "party_c"], authority=AUTHORITY)
FORK = multiprocessing.get_context("fork")
X = np.arange(-3, 4)
SQUARES = (X * X).tolist()


@dataclass
class Dealer:
    address: tuple[str, int]
    process: multiprocessing.Process
    log: Path

    @property
    def lines(self):
        return self.log.read_text().splitlines()

    def channel(self, name, session, patience=30):
        """Connect as `name` for a session."""
        return connect(self.address, CREDENTIALS[name], "dealer", session=session, patience=patience, timeout=40)

    def network(self, **waits):
        return Network(NAMES, ("127.0.0.1", free_port()), self.address, **{"patience": 40, "timeout": 40, **waits})


@contextlib.contextmanager
def dealing(folder, **options):
    """Run a dealer in its own process, which must still run at the end."""
    listener = listen(("127.0.0.1", 0), CREDENTIALS["dealer"])
    path = folder / "dealer.log"

    def play():
        logging.basicConfig(filename=path, level=logging.INFO, format="%(message)s", force=True)
        run_dealer(listener, NAMES, **options)

    process = FORK.Process(target=play)
    process.start()
    try:
        with listener:
            yield Dealer(listener.address, process, path)
        assert process.is_alive()
    finally:
        process.kill()
        process.join()


def squares(party):
    """Compute x * x with a triple of the dealer."""
    party.randomness.provide([([Triples(X.shape, Z64)], 1)])
    half = ring_half(X, party.rank)
    return party.reveal(multiply(party, half, half), what="squares").tolist()


def outcome(network, rank, job=squares):
    """Return a party's result or failure."""
    try:
        return run_party(network, rank, CREDENTIALS[NAMES[rank]], job)
    except Exception as error:
        return error


def both(network, first=squares, second=None, networks=None):
    """Return the outcomes of both parties."""
    networks, jobs = networks or (network, network), (first, second or first)
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda rank: outcome(networks[rank], rank, jobs[rank]), (0, 1)))


def honest(dealer, **waits):
    """Return whether a session with honest parties works."""
    return both(dealer.network(**waits)) == [SQUARES] * 2


def until(dealer, text):
    """Wait for a line in the dealer's log."""
    end = time.monotonic() + 30
    while not any(text in line for line in dealer.lines):
        assert time.monotonic() < end, dealer.lines
        time.sleep(0.02)
