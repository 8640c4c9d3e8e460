"""The process of `forewarn relay`.

`Relay` puts the parts together and has no global state, so that many can run in one
process. `run` adds what belongs to the process.
"""

import asyncio
import contextlib
import gc
import logging
import os
import random
import signal
import ssl
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from forewarn.clock import Clock, SystemClock
from forewarn.fleet.validators import split_listener
from forewarn.forwarding.post import Post
from forewarn.forwarding.wire import UnreachableError, bearer
from forewarn.instants import SECOND
from forewarn.logs import logging_to
from forewarn.metadata.endpoint import Endpoint
from forewarn.metadata.limits import Limits
from forewarn.metadata.server import Address, Server
from forewarn.metadata.waiting import Waits
from forewarn.protocol.errors import ForewarnError
from forewarn.relay import knowledge, limits
from forewarn.relay.gateway import RelayGateway
from forewarn.relay.knowledge import Knowledge, Line, Position, Step, Verdict
from forewarn.relay.memory import Memory
from forewarn.relay.settings import Settings
from forewarn.relay.upstream import Upstream, refused
from forewarn.service import open_files
from forewarn.settings.files import read_file
from forewarn.supervisor import Supervisor

logger = logging.getLogger("forewarn.relay")

NO_SUPERVISOR = Supervisor()
"""No supervisor."""

OWNER_ONLY = 0o077
"""The umask: only the relay's user can read the file of what it knows."""


class Relay:
    """A relay; it is created and used on a running loop."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        memory: Memory | None = None,
        draw: Callable[[], float] | None = None,
    ) -> None:
        """Create the parts; nothing is opened yet.

        Without a `memory`, what is known is lost when the relay stops. `draw` returns
        random numbers from 0 to 1. Raises ForewarnError if the files of the settings
        cannot be used.
        """
        for warning in settings.warnings:
            logger.warning("%s", warning)
        self._settings = settings
        self._clock = clock or SystemClock()
        self._memory = memory
        self.knowledge = Knowledge()
        self._heard = self._clock.monotonic()
        self._arrived = asyncio.Event()
        self._has_to_confirm = asyncio.Event()
        self._draw = draw or random.Random().random
        tls = tls_of(settings)
        token = self.token
        token()
        self.endpoint = Endpoint(
            rate_limit=settings.rate_limit,
            waits=Waits(
                longest_seconds=settings.push_longest_wait // SECOND
                if settings.push
                else 0
            ),
            is_open=False,
        )
        self.upstream = Upstream(
            settings.url,
            token=token,
            tls=tls,
            take=self._take,
            position=self._position,
            holds=lambda: self.knowledge.digest,
            draw=self._draw,
        )
        self.gateway = RelayGateway(
            approvals=self._post(token, tls),
            others=self._post(token, tls),
            knowledge=lambda: self.knowledge,
            reached=self._reached,
            clock=self._clock,
        )
        self.server = Server(
            endpoint=self.endpoint,
            gateway=self.gateway,
            clock=self._clock,
            bounds=Limits(
                connections=min(
                    limits.CONNECTIONS_MAX, open_files.free_for_connections()
                )
            ),
        )
        self._tasks: list[asyncio.Task[None]] = []

    def _post(self, token: Callable[[], str], tls: ssl.SSLContext | None) -> Post:
        return Post(
            lambda: self.upstream.url,
            headers=lambda _path, _body: bearer(token()),
            tls=tls,
            refused=refused,
            unanswered=self.upstream.doubt,
        )

    async def start(self) -> Address:
        """Serve what the file knows, listen, and connect; return the bound address.

        Raises ForewarnError if the address is not available.
        """
        if self._memory is not None:
            self._recall(self._memory)
        listen = split_listener(self._settings.listen)
        assert listen is not None, "the settings are valid"
        try:
            address = await self.server.serve_shared(*listen)
        except OSError as error:
            raise ForewarnError(
                f"cannot listen at {self._settings.listen}: {error.strerror}",
                hint=open_files.hint(
                    error, "Is another relay, or a service, running on this host?"
                ),
            ) from error
        self._update_door()
        self._tasks = [
            asyncio.create_task(work)
            for work in (
                self.upstream.run(),
                self._watch(),
                self._report(),
                self._confirm(),
            )
        ]
        return address

    async def wait_failed(self) -> None:
        """Return when a part has ended, which is a bug; raise its error."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def stop(self) -> None:
        """Finish the current requests, report the last ones, and close everything."""
        await self.server.stop(grace_seconds=limits.GRACE_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limits.GRACE_SECONDS):
                await self._report_now()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limits.GRACE_SECONDS):
                await self.gateway.close()

    @property
    def silent_seconds(self) -> float:
        """Return how long ago the service was heard."""
        return self._clock.monotonic() - self._heard

    @property
    def status(self) -> str:
        """Return a sentence for the supervisor."""
        vms = f"{len(self.knowledge.guests)} VMs"
        if self.upstream.is_connected:
            return f"{vms} of {self.knowledge.host}, from {self.upstream.url.base}"
        if self.knowledge.position is None:
            return "waiting for the service: VMs get 503"
        return f"{vms}, from memory: no service for {self.silent_seconds:.0f} s"

    def token(self) -> str:
        """Return the token of the file; raises UnreachableError."""
        path = self._settings.token_file
        try:
            data = read_file(path, bytes_max=limits.TOKEN_CHARACTERS_MAX, pipes=False)
            text = data.decode("ascii").strip()
        except OSError as error:
            raise UnreachableError(
                f"the token file {path} cannot be read: {error.strerror}",
                hint="Create it on the service: `forewarn token create --relay HOST`.",
            ) from error
        except UnicodeDecodeError:
            text = ""
        if not text or not text.isprintable() or " " in text:
            raise UnreachableError(
                f"the token file {path} has no token on one line",
                hint="Create it on the service: `forewarn token create --relay HOST`.",
            )
        return text

    # Lines of the stream

    def _recall(self, memory: Memory) -> None:
        self.knowledge, heard_at = memory.read()
        if self.knowledge.position is None:
            return
        silent = max(0, self._clock.now() - heard_at) / SECOND
        self._heard = self._clock.monotonic() - silent
        self.endpoint.publish(knowledge.everything(self.knowledge))
        logger.info(
            "knows %d VMs of %s since the last run",
            len(self.knowledge.guests),
            self.knowledge.host,
        )

    def _position(self) -> str:
        at = self.knowledge.position
        return "" if at is None else at.text

    async def _take(self, line: Line) -> Step:
        """Apply a line. A change is in the file before a VM sees it."""
        step = knowledge.take(self.knowledge, line)
        if step.verdict is Verdict.LEAVE:
            return step
        is_first = self.knowledge.position is None
        if self._memory is not None and (step.change or is_first):
            await asyncio.to_thread(self._memory.write, step.knowledge)
        self.knowledge = step.knowledge
        self._heard = self._clock.monotonic()
        if step.change:
            self.endpoint.publish(step.change)
        self._update_door()
        if line.has_content:
            self._has_to_confirm.set()
        self._arrived.set()
        self._arrived = asyncio.Event()
        return step

    async def _reached(self, position: Position) -> None:
        while (at := self.knowledge.position) is None or not at.reaches(position):
            await self._arrived.wait()

    # Duties

    def _update_door(self) -> None:
        """Answer VMs while something is known that is not too old."""
        most = self._settings.stale_max
        is_open = self.knowledge.position is not None and not knowledge.is_stale(
            silent_for=self.silent_seconds,
            stale_max=None if most is None else most / SECOND,
        )
        if is_open is self.endpoint.is_open(self._clock.monotonic()):
            return
        if is_open:
            self.endpoint.open()
            logger.info("answers the VMs of this host")
        else:
            self.endpoint.close()
            logger.error(
                "the service was silent for %.0f s: VMs get 503", self.silent_seconds
            )

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(limits.CHECK_SECONDS)
            self._update_door()

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(limits.SEEN_SECONDS)
            if self._memory is not None and self.upstream.is_connected:
                self._memory.note_heard()
            await self._report_now()

    async def _report_now(self) -> None:
        if not self.upstream.is_connected:
            # Until the service is back, the times are kept.
            return
        now = self._clock.now()
        ages = knowledge.last_seen(
            self.knowledge, self.endpoint.take_last_seen(now=now), now=now
        )
        if ages:
            await self.gateway.report_seen(ages)
        else:
            # The service learns that the relay is there.
            self._has_to_confirm.set()

    async def _confirm(self) -> None:
        """Confirm what is applied and served. Routine work waits for it."""
        while True:
            await self._has_to_confirm.wait()
            await asyncio.sleep(self._draw() * limits.CONFIRM_SPREAD_SECONDS)
            self._has_to_confirm.clear()
            at = self.knowledge.position
            if at is not None and not await self.gateway.confirm(at):
                await asyncio.sleep(limits.CONFIRM_SECONDS)
                if self.upstream.is_connected:
                    self._has_to_confirm.set()


def tls_of(settings: Settings) -> ssl.SSLContext | None:
    """Return how certificates are checked, if a URL needs it; raises ForewarnError."""
    if not any(url.is_secure for url in settings.url):
        return None
    try:
        return ssl.create_default_context(cafile=settings.ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise ForewarnError(
            f"ca_file {settings.ca_file} cannot be used: "
            f"{getattr(error, 'strerror', None) or error}",
            hint="It needs the certificates of the authority, in PEM.",
        ) from error


def run(settings: Settings, *, supervisor: Supervisor = NO_SUPERVISOR) -> int:
    """Run a relay until a signal stops it; return the exit status.

    Raises ForewarnError if it cannot start.
    """
    os.umask(OWNER_ONLY)
    open_files.allow()
    with (
        logging_to(sys.stderr, form=settings.log_format, level=settings.log_level),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(_serve(settings, supervisor))


async def _serve(settings: Settings, supervisor: Supervisor) -> int:
    loop = asyncio.get_running_loop()
    signaled = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signaled.set)
    relay = Relay(settings, memory=Memory(Path(settings.state)))
    host, port = await relay.start()
    gc.collect()
    gc.freeze()
    gc.set_threshold(limits.GARBAGE_OBJECTS)
    logger.info("serving the VMs of this host at %s:%d", host, port)
    supervisor.notify("READY=1")
    helpers: list[Awaitable[None]] = [
        asyncio.create_task(_feed(supervisor, relay)),
        asyncio.create_task(relay.wait_failed()),
        asyncio.create_task(_until(signaled)),
    ]
    tasks = [asyncio.ensure_future(helper) for helper in helpers]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    supervisor.notify("STOPPING=1", "STATUS=stopping")
    logger.info("stopping")
    await relay.stop()
    for task in done:
        # The error of a part that has ended.
        task.result()
    return 0


async def _until(event: asyncio.Event) -> None:
    await event.wait()


async def _feed(supervisor: Supervisor, relay: Relay) -> None:
    while True:
        supervisor.notify("WATCHDOG=1", f"STATUS={relay.status}")
        await asyncio.sleep(supervisor.pause)
