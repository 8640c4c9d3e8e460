"""Finds the endpoint where nobody has said where it is (clause 8.2).

It is at 169.254.169.254; outside a virtual network DHCP tells its address in option
245. The leases of this machine's client are read for it; where nobody answers at what
is known, NetworkManager is asked, and then the servers. That is done beside polling,
which goes on and delays nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence

from forewarn.agent.wire import leases
from forewarn.agent.wire.leases import Heard
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


def places(clock: Clock, known: Leases = leases.LEASES) -> tuple[str, ...]:
    """Return the URLs that need no question, the likeliest first. Raises nothing."""
    return _urls(leases.addresses(clock.now(), known))


def seek(clock: Clock) -> Heard:
    """Ask who may know the address, until one tells. Raises nothing.

    It takes seconds: NetworkManager is asked, and then the network's DHCP servers.
    """
    heard = seek_here(clock)
    if heard.addresses:
        return heard
    # Few agents ever do, and none before nobody answered.
    from forewarn.agent.wire import asking  # noqa: PLC0415

    return asking.ask(clock=clock)


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
        self._tried: frozenset[str] = frozenset()
        """What was returned last, and before that, since others are being asked."""
        self._due = 0.0
        self._pause: Micros = SEEK_AGAIN
        self._thread: threading.Thread | None = None

    def places(self) -> tuple[str, ...]:
        """Return the URLs to try, one after the other; never waits.

        To be called again says that nobody answered there: then others are asked, in a
        thread. What has not been tried goes before what was, so that what they say is
        next. A lease that led nowhere may be of another network, and keeps nobody from
        being asked; one that has come meanwhile is tried first.
        """
        by_lease, heard = leases.addresses(self._clock.now(), self._known), self._heard
        tried = self._tried
        is_vain = tried.issuperset(_urls(by_lease))
        # While they are asked, what a lease tells is not tried again and waited for.
        is_asking = self._is_asking() or (is_vain and self._begin())
        found = _urls(heard if is_asking else [*heard, *by_lease])
        self._tried = tried.union(found) if is_asking else frozenset(found)
        return tuple(sorted(found, key=tried.__contains__))

    def _is_asking(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _begin(self) -> bool:
        """Ask, unless it is too early for that; return whether it was begun."""
        if self._clock.monotonic() < self._due:
            return False
        self._due = self._clock.monotonic() + self._pause / SECOND
        self._pause = min(2 * self._pause, SEEK_AGAIN_MOST)
        self._thread = threading.Thread(target=self._run, name="dhcp", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._thread = None
        return self._thread is not None

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
