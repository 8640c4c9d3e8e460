"""Find the endpoint if the settings do not name it (clause 8.2).

It is at 169.254.169.254 in a virtual network. Elsewhere, DHCP option 245 has its
address. The agent reads the leases of this machine's DHCP client. If nothing answers at
the addresses found, it asks NetworkManager and then the DHCP servers. This runs in
parallel with polling and does not delay it.
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
"""Address of the endpoint in a virtual network."""

PORTS = (80, 8080)
"""Possible ports of the endpoint at an address from DHCP."""

SEEK_AGAIN: Micros = MINUTE
SEEK_AGAIN_MOST: Micros = 15 * MINUTE
"""Maximum pause between two searches; it doubles from SEEK_AGAIN."""

Leases = Sequence[tuple[str, str]]


def places(clock: Clock, known: Leases = leases.LEASES) -> tuple[str, ...]:
    """Return the URLs that are known without a search, best first. Raises nothing."""
    return _urls(leases.addresses(clock.now(), known))


def seek(clock: Clock) -> Heard:
    """Search for the address, until one source has it. Raises nothing.

    This takes seconds: it asks NetworkManager, and then the DHCP servers of the
    network.
    """
    heard = seek_here(clock)
    if heard.addresses:
        return heard
    # Few agents need it, and only after the known addresses failed.
    from forewarn.agent.wire import asking  # noqa: PLC0415

    return asking.ask(clock=clock)


def seek_here(clock: Clock) -> Heard:
    """Search on this machine only. Raises nothing."""
    del clock
    told = leases.networkmanager()
    if not told:
        return Heard()
    sentence = f"NetworkManager says that DHCP option 245 names {told}"
    return Heard(addresses=(told,), told=(sentence,))


def urls_of(heard: Heard) -> tuple[str, ...]:
    """Return the possible URLs of the endpoint from the result of a search."""
    return _urls(heard.addresses)[1:]


class Discovery:
    """The search for the endpoint in a running agent."""

    def __init__(
        self,
        *,
        clock: Clock,
        seek: Callable[[Clock], Heard],
        known: Leases = leases.LEASES,
    ) -> None:
        """Store the parameters; `seek` is called when no known address answers."""
        self._clock = clock
        self._known = known
        self._seek = seek
        self._heard: tuple[str, ...] = ()
        self._told: tuple[str, ...] = ()
        self._tried: frozenset[str] = frozenset()
        """The URLs returned last, and all before that during a search."""
        self._due = 0.0
        self._pause: Micros = SEEK_AGAIN
        self._thread: threading.Thread | None = None

    def places(self) -> tuple[str, ...]:
        """Return the URLs to try, one after another; never waits.

        A second call means that nothing answered there, so it starts a search in a
        thread. URLs that were not tried come first, so that a result of the search is
        next. A lease of an old network must not prevent a search. A new lease is tried
        first.
        """
        by_lease, heard = leases.addresses(self._clock.now(), self._known), self._heard
        tried = self._tried
        is_vain = tried.issuperset(_urls(by_lease))
        # During a search, URLs from leases are not tried again.
        is_asking = self._is_asking() or (is_vain and self._begin())
        found = _urls(heard if is_asking else [*heard, *by_lease])
        self._tried = tried.union(found) if is_asking else frozenset(found)
        return tuple(sorted(found, key=tried.__contains__))

    def _is_asking(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _begin(self) -> bool:
        """Start a search unless it is too early; tell whether it was started."""
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
            # Whatever happened, the endpoint may still answer at its usual address.
            logger.exception("the search for the endpoint failed")
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
