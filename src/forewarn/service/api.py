"""The operator API of a service: in a process of its own, or in the service's.

`forewarn serve` gives it a process of its own (`api_process`). A service that is part
of another program, and one whose store is in no file, serves it itself (`ApiHere`).
"""

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from forewarn.admin.metrics import Reading
from forewarn.admin.tokens import Tokens
from forewarn.clock import Clock
from forewarn.metadata.server import Address
from forewarn.service import api_readings, limits, metric_definitions
from forewarn.service.admin import AdminServer, make_app
from forewarn.service.admin_door import Door
from forewarn.service.api_process import Answers
from forewarn.service.settings import Settings
from forewarn.service.tls import certificate_of


class Api(Protocol):
    """The operator API, as the service starts and stops it."""

    async def listen(self) -> None:
        """Prepare, before the store is open; raises OSError for its address."""
        ...

    async def begin(self, answers: Answers) -> None:
        """Serve operators as soon as may be; raises OSError for its address."""
        ...

    async def ready(self) -> None:
        """Return when operators are served; raises StartError."""
        ...

    @property
    def address(self) -> Address:
        """Return the address at which operators are served."""
        ...

    @property
    def url(self) -> str:
        """Return where operators are served, as clients name it."""
        ...

    def readings(self) -> Iterable[Reading]:
        """Return what the metrics say of it, where the service knows that."""
        ...

    async def stop(self) -> None:
        """Finish what is under way, then end."""
        ...


class ApiHere:
    """The operator API on the service's own event loop."""

    def __init__(
        self, settings: Settings, tokens: Tokens | None, *, clock: Clock
    ) -> None:
        """Serve nothing yet."""
        self._settings = settings
        self._tokens = tokens
        self._clock = clock
        self._answered: Counter[str] = Counter()
        self._server: AdminServer | None = None
        self._answers: Answers | None = None

    async def listen(self) -> None:
        """Prepare nothing."""

    async def ready(self) -> None:
        """Return at once: it began."""

    async def begin(self, answers: Answers) -> None:
        """Listen, and serve operators from now on; raises OSError."""
        self._answers = answers
        app = make_app(
            answers.gateway,
            tokens=self._tokens,
            collect=answers.collect,
            answered=self._answered,
            receivers=answers.webhooks,
            clock=self._clock,
        )
        self._server = AdminServer(
            app,
            grace_seconds=limits.GRACE_SECONDS,
            tls=certificate_of(self._settings),
        )
        await self._server.start(self._settings.admin.listen)

    @property
    def address(self) -> Address:
        """Return the address at which operators are served."""
        return self._begun.address

    @property
    def url(self) -> str:
        """Return where operators are served, as clients name it."""
        return self._begun.url

    @property
    def door(self) -> Door:
        """Return what counts the connections."""
        return self._begun.door

    @property
    def _begun(self) -> AdminServer:
        assert self._server is not None, "it does not serve yet"
        return self._server

    def readings(self) -> Iterable[Reading]:
        """Return what the API has counted."""
        watchers = 0 if self._answers is None else len(self._answers.watchers)
        door = None if self._server is None else self._server.door
        yield from api_readings.of_api(door, self._answered, watchers)
        yield Reading(metric_definitions.ADMIN_STARTS, 0)

    async def stop(self) -> None:
        """Finish what is under way, then end."""
        if self._server is not None:
            await self._server.stop()
