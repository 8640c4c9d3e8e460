"""The operator API, as the service sees it: in this process or in one of its own.

This module and `api_process` import no web framework: to load it with the API's routes
takes longer than all other modules, and `forewarn serve` needs them only in the API's
process.
"""

import abc
import contextlib
import resource
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from forewarn.admin.gateways import CheckGateway, ClusterGateway, WebhookGateway
from forewarn.admin.leader import Leader
from forewarn.admin.meters import Reading
from forewarn.admin.relay_hub import RelayFeed
from forewarn.clock import Clock
from forewarn.control.gateway import OperatorGateway
from forewarn.service.api_channel import Setup
from forewarn.service.listening import AdminListener, open_at
from forewarn.service.readings import Watchers

_STATM = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The interfaces of the service that the operator API uses."""

    gateway: OperatorGateway
    webhooks: WebhookGateway
    checks: CheckGateway
    cluster: ClusterGateway
    collect: Callable[[], Awaitable[Iterable[Reading]]]
    watchers: Watchers
    relays: RelayFeed
    ask_abilities: Callable[[], Awaitable[object]]
    """Asks the driver again what can be done on hosts."""


class Api(abc.ABC):
    """The base of both ways to run the operator API."""

    listener: AdminListener
    is_apart: ClassVar[bool]
    """Whether the API's connections are open files of another process."""

    def __init__(self, setup: Setup, *, clock: Clock) -> None:
        """Prepare the API; `listen` and `begin` start it."""
        self._setup = setup
        self._clock = clock
        self._answers: Answers | None = None
        self._closing = contextlib.ExitStack()

    async def listen(self) -> None:
        """Open the listener, before the store is open; raises OSError."""
        admin = self._setup.settings.admin
        self.listener = AdminListener(
            await open_at(admin.listen), is_tls=bool(admin.tls_certificate)
        )
        self._closing.callback(self.listener.close)

    @abc.abstractmethod
    async def begin(self, answers: Answers) -> None:
        """Start to serve operators."""

    @abc.abstractmethod
    async def follow(self, leader: Leader | None, answers: Answers) -> None:
        """Answer with other parts from now on; `leader` decides, or None: this service."""

    @abc.abstractmethod
    async def ready(self) -> None:
        """Wait until operators are served; raises StartError."""

    @abc.abstractmethod
    def readings(self) -> Iterable[Reading]:
        """Return the readings of the API that this process knows."""

    @abc.abstractmethod
    async def stop(self) -> None:
        """Finish running requests, then stop."""


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    return int(_STATM.read_text("ascii").split()[1]) * resource.getpagesize()
