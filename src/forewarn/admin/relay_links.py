"""Whether relays have confirmed what their VMs must see.

A relay confirms the position that it has applied. The service stores when a relay becomes
silent and when it comes back, because planned work waits for silent relays. `Unconfirmed`
and `silence_of` are pure; `Links` looks at all relays every second.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import islice

from forewarn.admin import limits
from forewarn.control.gateway import OperatorGateway
from forewarn.instants import SECOND, Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.store import kinds
from forewarn.store.port import Reader, every

logger = logging.getLogger("forewarn.admin")


class Unconfirmed:
    """The changes that a relay has not confirmed, by their numbers."""

    def __init__(self) -> None:
        """Begin with none."""
        self._changes: deque[tuple[int, float]] = deque()

    def add(self, number: int, at: float) -> None:
        """Note a change at a time; numbers go up."""
        if len(self._changes) < limits.RELAY_UNCONFIRMED_MAX:
            self._changes.append((number, at))
        else:
            # Of two changes, the later number with the earlier time is never too good.
            self._changes[-1] = number, self._changes[-1][1]

    def confirm(self, number: int) -> None:
        """Note that the relay has all changes up to a number."""
        while self._changes and self._changes[0][0] <= number:
            self._changes.popleft()

    def clear(self) -> None:
        """Note that the relay has all changes."""
        self._changes.clear()

    @property
    def since(self) -> float | None:
        """Return the time of the oldest change; None: the relay has confirmed all."""
        return self._changes[0][1] if self._changes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """How a relay was last heard, in seconds before now."""

    away: float | None = None
    """Since it has left; None: it is connected."""
    unconfirmed: float | None = None
    """Since the oldest change that it has not confirmed; None: it has confirmed all."""
    unheard: float | None = None
    """Since its last request; None: it is of a version that sends none by itself."""


def silence_of(contact: Contact) -> float | None:
    """Return for how many seconds a relay has been silent; 0: it is not.

    None: it has been silent too briefly to tell. A lost connection and a change on its way
    are usual, and are over before planned work needs to wait.
    """
    ages = (
        (contact.away, limits.RELAY_SILENT_SECONDS),
        (contact.unconfirmed, limits.RELAY_UNCONFIRMED_SECONDS),
        (contact.unheard, limits.RELAY_UNHEARD_SECONDS),
    )
    late = [age for age, most in ages if age is not None and age >= most]
    if late:
        return max(late)
    is_well = contact.away is None and contact.unconfirmed is None
    return 0.0 if is_well else None


class Links:
    """Reports to the service which relays are silent; used on one event loop."""

    def __init__(
        self,
        *,
        gateway: Callable[[], OperatorGateway],
        contacts: Callable[[], Mapping[str, Contact]],
        report: Callable[[Mapping[str, Micros]], Awaitable[None]],
    ) -> None:
        """Look at `contacts`, and `report` since when relays have been silent."""
        self._gateway = gateway
        self._contacts = contacts
        self._report = report
        self._reported: dict[str, bool] = {}
        """Whether each relay was silent when it was last reported."""
        self._expected: frozenset[str] = frozenset()
        """The hosts whose relays were connected to an earlier process."""

    async def run(self) -> None:
        """Look every second, until the task is cancelled."""
        began = asyncio.get_running_loop().time()
        self._reported.clear()
        while True:
            try:
                self._expected = await self._gateway().read(_hosts_with_relay)
                break
            except ForewarnError as error:
                logger.warning("the relays are not read yet: %s", error.message)
                await asyncio.sleep(limits.RELAY_LOOK_SECONDS)
        while True:
            await self.report_changes(asyncio.get_running_loop().time() - began)
            await asyncio.sleep(limits.RELAY_LOOK_SECONDS)

    async def report_changes(self, running: float) -> None:
        """Report what has changed; the process has been running for some seconds."""
        now = self._gateway().now()
        news: dict[str, Micros] = {}
        for host, silence in self._silences(running).items():
            if silence is not None and self._reported.get(host) is not bool(silence):
                news[host] = now - round(silence * SECOND) if silence else 0
        hosts = iter(news)
        while some := tuple(islice(hosts, limits.RELAY_LINKS_TOGETHER)):
            try:
                await self._report({host: news[host] for host in some})
            except ForewarnError as error:
                # The next look reports it again.
                logger.warning("relays are not reported yet: %s", error.message)
                return
            self._reported |= {host: bool(news[host]) for host in some}

    def forget(self, host: str) -> None:
        """Report the relay of a host again, since it has connected."""
        self._reported.pop(host, None)

    def _silences(self, running: float) -> dict[str, float | None]:
        silences = {
            host: silence_of(contact) for host, contact in self._contacts().items()
        }
        if running >= limits.RELAY_RETURN_SECONDS:
            missing = self._expected - silences.keys() - self._reported.keys()
            silences |= dict.fromkeys(missing, running)
        return silences


def _hosts_with_relay(reader: Reader) -> frozenset[str]:
    return frozenset(link.host for link in every(reader, kinds.ALL_RELAY_LINKS))
