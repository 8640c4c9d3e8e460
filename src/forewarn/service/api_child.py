"""The process of the operator API: it serves operators and calls the service.

It reads the store's file itself and sends requests that change something to the service
as values. It has its own limits, so that an attack on the API costs the VMs' endpoint no
time, memory or open files. `api_start` begins it.
"""

import asyncio
import contextlib
import gc
import itertools
import json
import logging
import os
import resource
import socket
import sys
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import uvloop

from forewarn import __version__
from forewarn.admin.access import NOBODY, Caller
from forewarn.admin.app import create_app
from forewarn.admin.decisions import Decision, caller_message
from forewarn.admin.gateways import IsGone
from forewarn.admin.leader import Leader, Leading
from forewarn.admin.meters import Reading
from forewarn.admin.relay_hub import News, RelayHub
from forewarn.admin.watch import Watchers as Streams
from forewarn.campaigns.text import CampaignText
from forewarn.clock import SystemClock
from forewarn.cluster.view import View
from forewarn.console.pages import console_pages
from forewarn.control.gateway import BusyError, CallerGateway, Health
from forewarn.control.requests.idempotency import Once, Result
from forewarn.control.transactions.work import Check, Who
from forewarn.fleet.file import FleetText
from forewarn.fleet.merge import MergePlan
from forewarn.instants import Micros
from forewarn.logs import logging_to
from forewarn.protocol.errors import RefusedError
from forewarn.service import components, limits
from forewarn.service.admin import AdminServer, readings_of
from forewarn.service.admin_door import OwnListener, door_limits
from forewarn.service.api_channel import (
    Channel,
    Setup,
    check_size,
    stated,
)
from forewarn.service.fleets import Fleets, FleetWrites
from forewarn.service.gateways import ReadingGateway
from forewarn.service.listening import local_operators_of
from forewarn.service.patience import patiently
from forewarn.service.problem_metrics import ProblemMetrics
from forewarn.service.readings import Readings, Watchers
from forewarn.service.tls import certificate_of
from forewarn.store.open import source_of
from forewarn.store.port import Reader
from forewarn.store.snapshot import SnapshotStore, snapshots_of

T = TypeVar("T")

logger = logging.getLogger("forewarn.admin")

PROCESS = "api"
"""The name of this process in its log lines."""


class Service:
    """The service at the other end of the channel."""

    def __init__(self, channel: Channel, watchers: Watchers) -> None:
        """Call the service over `channel`; pass changes to `watchers`."""
        self._channel = channel
        self._watchers = watchers
        self._answering: asyncio.Task[None] | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._fleet_turn = asyncio.Semaphore(1)
        self._fleets_waiting = 0
        self._health: asyncio.Task[Any] | None = None
        self._relay_news: deque[News] = deque()
        self._relay_bell = asyncio.Event()
        self._has_ended = False
        self.leading = Leading()
        self.role_changed: Callable[[bool], None] = lambda _leads: None
        """Called when this service begins to decide, with True, or ceases to."""

    async def ask_with_fleet(self, question: str, payload: bytes, **more: Any) -> Any:
        """Call with a fleet file after earlier files are done; raises what `ask` raises.

        The next file waits for the response even if the caller no longer does: until
        then the service keeps the file in memory.
        """
        if self._fleets_waiting >= limits.API_FLEETS_WAITING_MAX:
            raise _busy_with_fleets()
        self._fleets_waiting += 1
        try:
            async with asyncio.timeout(limits.API_FLEET_TURN_SECONDS):
                await self._fleet_turn.acquire()
        except TimeoutError as error:
            raise _busy_with_fleets() from error
        finally:
            self._fleets_waiting -= 1
        asking = asyncio.create_task(self.ask(question, payload, **more))
        asking.add_done_callback(lambda _: self._fleet_turn.release())
        return await asyncio.shield(asking)

    async def ask(self, question: str, payload: bytes = b"", **more: Any) -> Any:
        """Return the service's response, or raise its error; raises BusyError.

        Raises BadRequestError if the call is too large.
        """
        number = next(self._numbers)
        text = json.dumps(
            {"number": number, "ask": question, **more}, ensure_ascii=False
        )
        # A lone surrogate cannot be encoded, and no valid name or text has one.
        head = text.encode("utf-8", "replace")
        check_size(head, payload)
        future = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            await self._channel.send(head, payload)
            return await future
        except ConnectionError as error:
            raise _stopping() from error
        finally:
            self._waiting.pop(number, None)

    async def health(self) -> Health:
        """Return the service's health; raises BusyError.

        Simultaneous requests, which need no token, share one call.
        """
        if self._health is None or self._health.done():
            self._health = asyncio.create_task(self.ask("health"))
        return await asyncio.shield(self._health)

    # Called by the routes of webhooks

    async def webhooks(self) -> Sequence[dict[str, Any]]:
        """Return the status of each receiver."""
        return await self.ask("webhooks")

    async def test_webhook(self, name: str) -> dict[str, Any]:
        """Post a ping to a receiver; return the result."""
        return await self.ask("webhook-test", name=name)

    async def cluster(self) -> View | None:
        """Return the replicas as this one sees them; None: the service runs alone."""
        return await self.ask("cluster")

    # Called by the routes of checks

    async def checks(self) -> Sequence[dict[str, Any]]:
        """Return the state of each check."""
        return await self.ask("checks")

    async def run_check(self, name: str) -> dict[str, Any]:
        """Ask a check now; return its result."""
        return await self.ask("check-run", name=name)

    async def listen(self, *, is_reached: Callable[[], Awaitable[bool]]) -> None:
        """Handle messages from the service until it asks the API to stop.

        A ping is answered only if `is_reached` finds that operators can connect.
        """
        while True:
            try:
                head, _ = await self._channel.receive()
            except (EOFError, ConnectionError):
                return
            match stated(head):
                case ("answer", int(number), value):
                    self._resolve(number, value, None)
                case ("error", int(number), error):
                    self._resolve(number, None, error)
                case ("leader", leader):
                    self._note_leader(leader)
                case ("changed", ids):
                    self._watchers.queue(ids)
                case ("relays", News() as news):
                    if len(self._relay_news) >= limits.RELAY_NEWS_KEPT:
                        self._relay_news.clear()
                        news = News(is_everything=True)
                    self._relay_news.append(news)
                    self._relay_bell.set()
                case ("ping",):
                    if self._answering is None or self._answering.done():
                        self._answering = asyncio.create_task(
                            self._send_pong(is_reached)
                        )
                case ("stop",):
                    return
                case other:
                    raise AssertionError(other)

    def _note_leader(self, leader: Leader | None) -> None:
        if (leader is None) is not (self.leading.elsewhere is None):
            self.role_changed(leader is None)
        self.leading.elsewhere = leader

    async def note_links(self, silent_since: Mapping[str, Micros]) -> None:
        """Let the service store since when relays have been silent."""
        await self.ask("relay-links", silent_since=dict(silent_since))

    async def relay_news(self) -> AsyncIterator[News]:
        """Yield what changed for relays from now on; for one reader at a time."""
        self._relay_news.clear()
        while not self._has_ended:
            if self._relay_news:
                yield self._relay_news.popleft()
                continue
            self._relay_bell.clear()
            await self._relay_bell.wait()

    def end_news(self) -> None:
        """End the streams of relays."""
        self._has_ended = True
        self._relay_bell.set()

    def give_up(self) -> None:
        """Fail all calls without a response: the service is stopping."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(_stopping())

    async def _send_pong(self, is_reached: Callable[[], Awaitable[bool]]) -> None:
        if await is_reached():
            with contextlib.suppress(ConnectionError):
                await self._channel.send(b'{"ask":"pong"}')

    def _resolve(self, number: int, value: Any, error: Exception | None) -> None:
        future = self._waiting.get(number)
        if future is None or future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)


def _stopping() -> BusyError:
    return BusyError("the service is stopping", hint="Try again later.")


def _busy_with_fleets() -> BusyError:
    return BusyError(
        "other fleet files are being applied",
        hint="Send this file again later.",
    )


@dataclass(frozen=True, kw_only=True)
class ApiGateway(ReadingGateway):
    """The operator gateway of this process (control.gateway.OperatorGateway).

    It reads the store's file, and calls the service for everything that changes state.
    """

    service: Service
    caller: Caller = NOBODY
    is_gone: IsGone | None = None

    def on_behalf_of(
        self, caller: Caller, *, is_gone: IsGone | None = None
    ) -> CallerGateway:
        """Return the gateway for `caller`, or for one request of it with `is_gone`."""
        return replace(self, caller=caller, is_gone=is_gone)

    async def order(self, who: Who, decide: Any) -> Any:
        """Execute a request in the service; raises its error there, and BusyError."""
        assert isinstance(decide, Decision), f"{who}: only values can be sent"
        return await self.service.ask("order", order=decide.message())

    async def read(self, ask: Callable[[Reader], T]) -> T:
        """Read from a consistent view of the store's file; a tenant's reads queue."""
        tenant = self.caller.tenant
        if not tenant:
            return await super().read(ask)
        if self.is_gone is None:
            return await self.readings.read_for(tenant, ask)
        return await self.readings.read_for_request(tenant, ask, is_gone=self.is_gone)

    async def merge_fleet(
        self,
        text: FleetText,
        *,
        who: Who | None,
        once: Once | None = None,
        check: Check | None = None,  # noqa: ARG002 - the service makes its own
    ) -> MergePlan:
        """Apply a fleet file in the service; without `who`, only plan it here."""
        if who is None:
            return await self.fleets.merge(text, who=None)
        return await self.service.ask_with_fleet(
            "merge",
            payload=text.text.encode("utf-8", "surrogatepass"),
            file={
                "name": text.name,
                "may_be_empty": text.may_be_empty,
                "removals_max": (
                    "" if text.removals_max is None else str(text.removals_max)
                ),
            },
            caller=caller_message(self.caller),
            reason=who.reason,
            once=None if once is None else asdict(once),
        )

    async def start_campaign(
        self,
        text: CampaignText,
        *,
        digest: str,
        who: Who,
        once: Once | None = None,
        check: Check | None = None,  # noqa: ARG002 - the service makes its own
    ) -> Result:
        """Start a campaign in the service, which plans it again."""
        try:
            return await self.service.ask(
                "start-campaign",
                file={"name": text.name, "text": text.text},
                digest=digest,
                caller=caller_message(self.caller),
                reason=who.reason,
                dry_run=who.is_dry_run,
                once=None if once is None else asdict(once),
            )
        except RefusedError:
            # This process has made the plan, so only it knows what has changed since.
            if self.campaigns.has_seen(digest):
                await self.campaigns.prepare(text, digest=digest, now=self.now())
            raise

    async def health(self) -> Health:
        """Return the service's health; without a response, it is not alive."""
        try:
            async with asyncio.timeout(limits.API_HEALTH_SECONDS):
                return await self.service.health()
        except (TimeoutError, BusyError):
            seconds = f"{limits.API_HEALTH_SECONDS:g} s"
            problem = (
                f"the service did not respond to its operator API within {seconds}"
            )
            return Health(alive=False, ready=False, problems=(problem,))


def _keep_modules() -> None:
    """Begin to collect garbage, without the modules that stay for good."""
    gc.collect()
    gc.freeze()
    gc.enable()


def _fleets_of(setup: Setup, readings: Readings) -> Fleets:
    return Fleets(
        runner=None,
        readings=readings,
        writes=FleetWrites(),
        planner=components.planner_of(setup.settings),
        count_vms=lambda: 0,
    )


async def _serve(setup: Setup, channel: Channel, listener: socket.socket) -> None:
    threads = ThreadPoolExecutor(limits.READERS, thread_name_prefix="forewarn-read")
    watchers, streams = Watchers(), Streams()
    service, certificate = Service(channel, watchers), certificate_of(setup.settings)
    with contextlib.closing(await _opened(setup, threads)) as store:
        readings = Readings(store=store, threads=threads)
        fleets = _fleets_of(setup, readings)
        campaigns = components.campaign_plans_of(setup.settings, readings)
        campaigns.ask_abilities = partial(service.ask, "abilities")
        answered: Counter[str] = Counter()

        async def collect() -> list[Reading]:
            theirs = cast("list[Reading]", await service.ask("metrics"))
            ours = readings_of(server.door, answered, streams, hub)
            return [*theirs, *ours, *await problems.readings()]

        gateway = ApiGateway(
            service=service,
            readings=readings,
            fleets=fleets,
            campaigns=campaigns,
            watchers=watchers,
            clock=SystemClock(),
        )
        hub = RelayHub(lambda: gateway, service)
        problems = ProblemMetrics(lambda: gateway, service, service, service.leading)
        server = AdminServer(
            create_app(
                gateway,
                tokens=setup.tokens,
                version=__version__,
                collect=collect,
                answered=answered,
                receivers=service,
                checks=service,
                replicas=service,
                relays=hub,
                watchers=streams,
                leading=service.leading,
                is_local_operator=local_operators_of(setup.settings.admin.listen),
                pages=console_pages(),
            ),
            grace_seconds=limits.GRACE_SECONDS,
            bounds=door_limits(is_tls=bool(certificate)),
            tls=certificate,
        )
        server.serve(listener)
        hub.begin()
        service.role_changed = lambda leads: hub.change_role(leads=leads)
        own = OwnListener(listener, server.door)
        listening = partial(service.listen, is_reached=own.takes_connections)
        _keep_modules()
        await channel.send(b'{"ask":"ready"}')
        await listening()
        hub.end()
        fleets.close()
        campaigns.close()
        watchers.close()
        service.end_news()
        # Earlier calls still get their response, or fail when the grace time ends.
        receiving = asyncio.create_task(listening())
        asyncio.get_running_loop().call_later(limits.GRACE_SECONDS, service.give_up)
        await server.stop()
        receiving.cancel()
    threads.shutdown(wait=False)


async def _opened(setup: Setup, threads: Executor) -> SnapshotStore:
    """Return the reader of the store, when its database answers."""
    source, loop = source_of(setup.settings.store.url), asyncio.get_running_loop()
    assert source is not None, "another process cannot read this store"
    return await patiently(lambda: loop.run_in_executor(threads, snapshots_of, source))


async def _main(listener: socket.socket, end: socket.socket) -> None:
    channel = await Channel.over(end)
    try:
        head, _ = await channel.receive()
    except (EOFError, ConnectionError):
        # The service ended before it was ready, and has said why.
        return
    setup = cast("Setup", stated(head))
    _confine_memory(is_tls=bool(setup.settings.admin.tls_certificate))
    log = setup.settings.log
    with logging_to(sys.stderr, form=log.format, level=log.level, process=PROCESS):
        await _serve(setup, channel, listener)


def _confine() -> None:
    """Limit the resources of this process, without its memory."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = limits.ADMIN_CONNECTIONS_MAX + limits.RELAY_CONNECTIONS_MAX
    files += limits.FILES_RESERVED
    if hard != resource.RLIM_INFINITY:
        files = min(files, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # These settings of the process are optional: a system may reject them.
    with contextlib.suppress(OSError):
        os.nice(limits.API_NICENESS)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(limits.API_OOM_SCORE), "ascii")


def _confine_memory(*, is_tls: bool) -> None:
    """Limit the private memory of this process."""
    memory = limits.API_MEMORY_BYTES_MAX
    if is_tls:
        memory += limits.RELAY_CONNECTIONS_MAX * limits.ADMIN_TLS_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def main() -> None:
    """Serve, as `api_start` describes."""
    _confine()
    listener, end = (socket.socket(fileno=int(argument)) for argument in sys.argv[1:3])
    listener.setblocking(False)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main(listener, end))
    # Do not wait for threads that still read a long page.
    sys.stderr.flush()
    os._exit(0)
