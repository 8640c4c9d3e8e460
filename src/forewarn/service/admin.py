"""The HTTP server of the operator API, and the API inside the service's process.

`forewarn serve` runs the API in a separate process (`api_process`). A service that is
part of another program, or whose store is in memory, serves the API itself (`ApiHere`).
"""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from forewarn import __version__
from forewarn.admin.app import create_app
from forewarn.admin.leader import Leader, Leading
from forewarn.admin.meters import Reading
from forewarn.admin.relay_hub import RelayHub
from forewarn.admin.watch import Watchers as Streams
from forewarn.clock import Clock
from forewarn.cluster.view import View
from forewarn.console.pages import console_pages
from forewarn.instants import SECOND
from forewarn.metadata.limits import Limits
from forewarn.service import limits, metric_definitions
from forewarn.service.admin_connections import BoundedHttp
from forewarn.service.admin_door import Door, door_limits, door_of
from forewarn.service.api import Answers, Api, resident_bytes
from forewarn.service.api_channel import Setup
from forewarn.service.listening import AdminListener, local_operators_of, open_at
from forewarn.service.problem_metrics import ProblemMetrics
from forewarn.service.tls import Certificate, certificate_of


class _Quiet(uvicorn.Server):
    """A server that does not handle signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture no signals."""
        yield


class AdminServer:
    """The HTTP server of the operator API."""

    listener: AdminListener
    """The listener; set by `serve`."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        grace_seconds: float,
        bounds: Limits | None = None,
        tls: Certificate | None = None,
    ) -> None:
        """Prepare to serve `app`; running requests get `grace_seconds` when it stops.

        Without `bounds`, connections leave most open files to the rest of the process.
        With `tls`, the server uses HTTPS.
        """
        share = 1 if bounds else limits.ADMIN_FILES_SHARE
        bounds = bounds or door_limits(share=share, is_tls=tls is not None)
        self.door = door_of(bounds, share=share)
        self._server = _Quiet(
            uvicorn.Config(
                app,
                http=type("_Http", (BoundedHttp,), {"door": self.door, "tls": tls}),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=max(1, round(grace_seconds)),
            )
        )
        self._task: asyncio.Task[None] | None = None
        self._tls = tls
        self._renewing: asyncio.Task[None] | None = None

    async def start(self, listen: str) -> None:
        """Serve at an address from settings; raises OSError if it cannot be opened."""
        self.serve(await open_at(listen))

    def serve(self, opened: socket.socket) -> None:
        """Serve on a bound socket, which the server closes at the end."""
        self.listener = AdminListener(opened, is_tls=self._tls is not None)
        self._task = asyncio.create_task(self._server.serve(sockets=[opened]))
        if self._tls is not None:
            self._renewing = asyncio.create_task(self._tls.keep())

    async def stop(self) -> None:
        """Accept no new requests, and finish running ones within the grace time."""
        if self._renewing is not None:
            self._renewing.cancel()
        if self._task is not None:
            self._server.should_exit = True
            await asyncio.wait([self._task])
            self.listener.close()


class _Current:
    """The parts that answer now: others when the role of a replica changes."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    async def collect(self) -> Iterable[Reading]:
        return await self.answers.collect()

    async def webhooks(self) -> Sequence[dict[str, Any]]:
        return await self.answers.webhooks.webhooks()

    async def test_webhook(self, name: str) -> dict[str, Any]:
        return await self.answers.webhooks.test_webhook(name)

    async def cluster(self) -> View | None:
        return await self.answers.cluster.cluster()

    async def checks(self) -> Sequence[dict[str, Any]]:
        return await self.answers.checks.checks()

    async def run_check(self, name: str) -> dict[str, Any]:
        return await self.answers.checks.run_check(name)


class ApiHere(Api):
    """The operator API on the service's event loop."""

    is_apart = False

    def __init__(self, setup: Setup, *, clock: Clock) -> None:
        """Prepare the API; `begin` starts it."""
        super().__init__(setup, clock=clock)
        self._answered: Counter[str] = Counter()
        self._streams = Streams()
        self.server: AdminServer | None = None
        self._hub: RelayHub | None = None
        self._leading = Leading()
        self._current: _Current
        self._app: FastAPI

    async def begin(self, answers: Answers) -> None:
        """Start to serve operators."""
        current = self._current = _Current(answers)
        self._hub = RelayHub(lambda: current.answers.gateway, answers.relays)
        leading = self._leading
        problems = ProblemMetrics(
            lambda: current.answers.gateway, current, current, leading
        )

        async def collect() -> list[Reading]:
            return [*await current.collect(), *await problems.readings()]

        app = self._app = create_app(
            answers.gateway,
            tokens=self._setup.tokens,
            version=__version__,
            collect=collect,
            answered=self._answered,
            receivers=current,
            checks=current,
            replicas=current,
            relays=self._hub,
            watchers=self._streams,
            clock=self._clock,
            leading=leading,
            is_local_operator=local_operators_of(self._setup.settings.admin.listen),
            pages=console_pages(),
        )
        self.server = AdminServer(
            app,
            grace_seconds=limits.GRACE_SECONDS,
            tls=certificate_of(self._setup.settings),
        )
        self.server.serve(self.listener.socket)
        self._hub.begin()

    async def follow(self, leader: Leader | None, answers: Answers) -> None:
        """Answer with other parts from now on."""
        if self._hub is not None and (
            (leader is None) is not (self._leading.elsewhere is None)
        ):
            self._hub.change_role(leads=leader is None)
        self._leading.elsewhere, self._current.answers = leader, answers
        self._app.state.gateway = answers.gateway

    async def ready(self) -> None:
        """Return at once, since `begin` already serves."""

    def readings(self) -> Iterable[Reading]:
        """Return the API's readings."""
        assert self.server is not None, "it does not serve yet"
        assert self._hub is not None, "it is set with the server"
        yield from readings_of(
            self.server.door, self._answered, self._streams, self._hub
        )
        yield Reading(metric_definitions.ADMIN_STARTS, 0)

    async def stop(self) -> None:
        """Finish running requests, then stop."""
        if self._hub is not None:
            self._hub.end()
        if self.server is not None:
            self._app.state.hubs.end()
            await self.server.stop()
        self._closing.close()


def readings_of(
    door: Door, answered: Mapping[str, int], streams: Streams, relays: RelayHub
) -> Iterable[Reading]:
    """Return the API's readings, in either process."""
    now = relays.now()
    connected = [state for state in relays.states().values() if state.streams]
    return [
        Reading(metric_definitions.ADMIN_RESPONSES, dict(answered)),
        Reading(metric_definitions.WATCHERS, streams.count),
        Reading(metric_definitions.ADMIN_CONNECTIONS, door.open + door.relays),
        Reading(metric_definitions.ADMIN_CONNECTIONS_REFUSED, dict(door.refused)),
        Reading(metric_definitions.ADMIN_MEMORY, resident_bytes()),
        Reading(metric_definitions.RELAYS_CONNECTED, len(connected)),
        Reading(
            metric_definitions.RELAY_BEHIND,
            max((state.behind_seconds for state in connected), default=0),
        ),
        Reading(
            metric_definitions.RELAY_LAST_SEEN,
            max((now - state.heard_at for state in connected), default=0) / SECOND,
        ),
        Reading(metric_definitions.RELAY_TOKENS_REFUSED, relays.refused),
    ]
