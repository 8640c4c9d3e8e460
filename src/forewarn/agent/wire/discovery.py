"""Finds the endpoint where nobody has said where it is (clause 8.2).

It is at 169.254.169.254; outside a virtual network DHCP tells its address in option
245. The leases of this machine's client are read for it; where they do not tell, and
nobody answers at what is known, NetworkManager is asked, and then the servers. That is
done beside polling, which goes on and delays nothing.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence

from forewarn.agent.wire import asking, leases
from forewarn.agent.wire.asking import Heard
from forewarn.clock import Clock
from forewarn.instants import MINUTE, SECOND, Micros

logger = logging.getLogger("forewarn.agent.discovery")

DEFAULT = "http://169.254.169.254"
"""Where it is in a virtual network."""

PORTS = (80, 8080)
"""Where it may listen at an address that DHCP tells."""

SEEK_AGAIN: Micros = MINUTE
SEEK_AGAIN_MOST: Micros = 15 * MINUTE
"""Between two requests while nobody answers; it doubles from one to the other."""

Leases = Sequence[tuple[str, str]]


def places(known: Leases = leases.LEASES) -> tuple[str, ...]:
    """Return the URLs that need no question, the likeliest first. Raises nothing."""
    return _urls(leases.addresses(known))


def seek(clock: Clock) -> Heard:
    """Ask who may know the address, until one tells. Raises nothing.

    It takes seconds: NetworkManager is asked, and then the network's DHCP servers.
    """
    heard = seek_here(clock)
    return heard if heard.addresses else asking.ask(clock=clock)


def seek_here(clock: Clock) -> Heard:
    """Ask only on this machine. Raises nothing."""
    del clock
    told = leases.networkmanager()
    if not told:
        return Heard()
    sentence = f"NetworkManager says that DHCP option 245 names {told}"
    return Heard(addresses=(told,), told=(sentence,))


def urls_of(heard: Heard) -> tuple[str, ...]:
    """Return where the endpoint may be, by what was heard."""
    return _urls(heard.addresses)[1:]


class Discovery:
    """Where a running agent looks for its endpoint."""

    def __init__(
        self,
        *,
        clock: Clock,
        seek: Callable[[Clock], Heard],
        known: Leases = leases.LEASES,
    ) -> None:
        """Look nowhere yet; `seek` is for when nobody answers at what is known."""
        self._clock = clock
        self._known = known
        self._seek = seek
        self._heard: tuple[str, ...] = ()
        self._told: tuple[str, ...] = ()
        self._has_looked = False
        self._due = 0.0
        self._pause: Micros = SEEK_AGAIN
        self._thread: threading.Thread | None = None

    def places(self) -> tuple[str, ...]:
        """Return the URLs to try, the likeliest first; never waits.

        To be called again says that nobody answered there: then others are asked, in a
        thread, and what they say is there the next time.
        """
        by_lease, heard = leases.addresses(self._known), self._heard
        if self._has_looked and not by_lease:
            self._begin()
        self._has_looked = True
        return _urls([*by_lease, *heard])

    def _begin(self) -> None:
        is_busy = self._thread is not None and self._thread.is_alive()
        if is_busy or self._clock.monotonic() < self._due:
            return
        self._due = self._clock.monotonic() + self._pause / SECOND
        self._pause = min(2 * self._pause, SEEK_AGAIN_MOST)
        self._thread = threading.Thread(target=self._run, name="dhcp", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._thread = None

    def _run(self) -> None:
        try:
            heard = self._seek(self._clock)
        except Exception:
            # Whatever it is: the endpoint may still answer where it should be.
            logger.exception("the endpoint could not be looked for")
            return
        self._heard = heard.addresses
        if heard.told != self._told:
            self._told = heard.told
            for sentence in heard.told:
                logger.info("%s", sentence)


def _urls(addresses: Iterable[str]) -> tuple[str, ...]:
    found = {DEFAULT: None}
    for address in addresses:
        for port in PORTS:
            shown = "" if port == PORTS[0] else f":{port}"
            found[f"http://{address}{shown}"] = None
    return tuple(found)
