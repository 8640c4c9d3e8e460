"""One connection: requests in, responses out, in order and within its limits.

`data_received` itself responds to a GET of a prepared document, without a task, on the
fastest path that is correct. Each path takes this processor time, in addition to
6.5 µs of the kernel and the event loop:

- 0.2 µs if the bytes are the same as the last, and the cached response is valid
- 1.5 µs if the bytes are those of a cached request: the parser is skipped, and only the
  caller is looked up
- 4 µs for a request in the common form (`fast_parser`), otherwise 7 µs
"""

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Any, cast

from forewarn.instants import Micros
from forewarn.metadata import answers, limits, routes
from forewarn.metadata.cached_response import CachedResponse
from forewarn.metadata.dates import DatedPayload
from forewarn.metadata.endpoint import Answer, Approve, Question
from forewarn.metadata.fast_parser import parse_common
from forewarn.metadata.flow import UNREAD, Flow, Phase, Watchdog
from forewarn.metadata.http import Request, Response
from forewarn.metadata.hub import NOWHERE, Hub
from forewarn.metadata.identity import Source, normal_address
from forewarn.metadata.interceptor import NOT_ARRIVED, Interception
from forewarn.metadata.reader import Received, Refused, RequestReader
from forewarn.metadata.request_cache import CachedRequest
from forewarn.metadata.waiting import Wait, Waiter

logger = logging.getLogger("forewarn.metadata")

SWEEPS_UNASKED = 2
"""Sweeps in which a new connection may be idle: the first may follow at once."""

_IDLE = Phase.IDLE

_TOO_MANY = answers.TOO_MANY.status


class Connection(Flow):
    """The server's end of one connection."""

    __slots__ = (
        "_admitted",
        "_by_status",
        "_cached",
        "_cached_bytes",
        "_dated",
        "_held",
        "_interception",
        "_last_known",
        "_may_send",
        "_monotonic",
        "_sweeps_left",
        "_was_active",
        "source",
    )

    def __init__(self, hub: Hub, vm: str = "") -> None:
        """Belong to `hub`; `vm` is the VM whose listener accepted the connection."""
        super().__init__(hub)
        self.source = Source("", vm) if vm else NOWHERE
        """The address of the client, and the VM of the listener."""
        self._monotonic = hub.clock.monotonic
        self._by_status = hub.endpoint.counters.by_status
        self._last_known: CachedRequest | None = None
        """The last request, if it was a cached one."""
        self._cached_bytes = b""
        """The request that `_cached` is the response to."""
        self._cached: CachedResponse | None = None
        """The cached response; None while the connection is busy."""
        self._may_send: Callable[[float], bool]
        """Whether `_cached` can be sent now. Set together with it."""
        self._interception: Interception | None = None
        """None, unless a simulator has an interceptor."""
        if hub.interceptor is not None:
            self._interception = Interception(
                hub.interceptor, hub.endpoint, hub.clock, self
            )
        self._dated: DatedPayload
        """The bytes of `_cached`. Set together with it."""
        self._admitted = False
        self._held: asyncio.Future[None] | None = None
        self._was_active = False
        self._sweeps_left = SWEEPS_UNASKED

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the client's address, and refuse the connection if there are too many."""
        self._transport = cast("asyncio.Transport", transport)
        self._write = self._transport.write
        peer = transport.get_extra_info("peername")
        address = normal_address(str(peer[0])) if peer else ""
        self.source = Source(address, self.source.vm)
        self._admitted = self._hub.admits(self.source)
        if not self._admitted:
            self._refuse(answers.CROWDED)
            return
        self._hub.connections.add(self)
        if self._interception is not None and self._interception.refuses():
            self.reset()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Clean up; requests to control run to their end, but waits are cancelled."""
        self._cached = None
        self._hub.connections.discard(self)
        if self._admitted:
            self._hub.dismiss(self.source)
        self._release()
        if self._held is not None:
            self._held.cancel()
        if isinstance(self._task, Waiter):
            self._hub.endpoint.waits.leave(self._task)
            self._task = None
        if self._interception is not None:
            self._interception.leave()
            # Break the reference cycle: the object refers to this connection.
            self._interception = None

    def data_received(self, data: bytes) -> None:
        """Respond to the received requests, or read more."""
        standing = self._cached
        if standing is not None and data == self._cached_bytes:
            monotonic = self._monotonic()
            if self._may_send(monotonic):
                self._was_active = True
                self._by_status[standing.response.status] += 1
                self._write(self._dated.at(monotonic))
                return
        self._cached = None
        self._take(data)

    def _take(self, data: bytes) -> None:
        if self._is_ending:
            self._pause_reading()
            return
        self._was_active = True
        is_alone = self.is_free
        if is_alone and len(data) <= limits.CACHED_REQUEST_BYTES_MAX:
            cached = self._hub.request_cache.find(data)
            received = parse_common(data) if cached is None else cached.received
            if received is not None:
                if self._watchdog is not None:
                    self._watchdog.phase = _IDLE  # The timer fires without effect.
                if cached is not None:
                    self._repeat(cached)
                    return
                self._hub.cache_request(data, received)
                self._follow(received, self._decide(received.request, None))
                return
        if self._reader is UNREAD:
            self._reader = RequestReader(
                functools.partial(self._hub.judge, self.source)
            )
        reader = self._reader
        reader.take(data)
        reader.read_on()
        ready = reader.ready
        is_whole = reader.is_between and not reader.has_unread
        if is_alone and len(ready) == 1 and is_whole:
            self._hub.cache_request(data, ready[0])
        self._drain()
        if len(data) >= limits.TURN_BYTES_MAX:
            self._pause_reading()

    def _repeat(self, cached: CachedRequest) -> None:
        received = cached.received
        answer = self._decide(received.request, cached.route)
        self._follow(received, answer)
        if cached is not self._last_known:
            # A single request does not justify the work for a cached response.
            self._last_known = cached
            return
        if not isinstance(answer, Response) or received.request.http10:
            return
        if self.is_free and not self._is_ending:
            now, monotonic = self._hub.clock.now(), self._monotonic()
            standing = self._hub.endpoint.cacheable(
                cached.route, self.source, answer, now=now, monotonic=monotonic
            )
            if standing is None:
                return
            may_send = standing.may_send
            if self._interception is not None:
                may_send = self._interception.repeat(
                    standing, now=now, monotonic=monotonic
                )
                if may_send is None:
                    return
            self._cached, self._may_send = standing, may_send
            self._cached_bytes = cached.data
            self._dated = DatedPayload(answer, self._hub.dates)

    def eof_received(self) -> bool:
        """Finish the current request of a client that only stopped sending.

        A client that has closed the connection looks the same. A delayed response is
        not kept for it: a client that waits must keep its side open.
        """
        if self._is_ending or self._held is not None or isinstance(self._task, Waiter):
            return False
        if self._task is None and not self._has_more:
            # The connection is idle, or its request will never be complete.
            return False
        self._has_ended = True
        return True

    def pause_writing(self) -> None:
        """Send no further responses until the client has read the last ones."""
        self._is_choked = True
        self._cached = None
        self._start_timeout(Phase.WRITE)
        self._update_reading()

    def resume_writing(self) -> None:
        """Continue with the queued requests."""
        self._is_choked = False
        if self._is_ending:
            return
        self._drain()

    async def hold(self, until: Micros) -> None:
        """Return when the model time is `until`; cancelled if the client disconnects."""
        if self._has_ended and self._transport is not None:
            self._transport.close()
            return
        self._held = self._hub.delayed_responses.hold(until)
        try:
            await self._held
        finally:
            self._held = None

    def recheck(self, waiter: Waiter) -> None:
        """Respond to a waiting request if possible; otherwise let it wait."""
        if self.is_gone:
            return
        hub, received = self._hub, waiter.received
        answer = self._decide(received.request, None, again=True)
        if isinstance(answer, Wait):
            if not hub.is_stopping and hub.endpoint.waits.stay(waiter, answer):
                return
            answer = answer.otherwise
        hub.endpoint.waits.leave(waiter)
        self._task = None
        self._follow(received, answer, has_waited=True)
        if not self._is_ending:
            self._drain()

    def _drain(self) -> None:
        reader, ready = self._reader, self._reader.ready
        while ready and self._is_clear:
            received = ready.popleft()
            if isinstance(received, Refused):
                self._refuse_request(received)
                return
            self._follow(received, self._decide(received.request, None))
            if self._is_ending:
                return
        if self._is_clear and not ready:
            if reader.has_unread:
                self._pause_reading()
            elif reader.awaits_continue:
                reader.awaits_continue = False
                self._write(answers.CONTINUE)
            elif self._has_ended and self._transport is not None:
                self._transport.close()
        self._update_reading()
        if not self._is_choked:
            self._watch_reader()

    def _decide(
        self, request: Request, route: routes.Read | None, *, again: bool = False
    ) -> Answer:
        hub = self._hub
        if self._interception is not None and not again:
            arrived = self._interception.take(request)
            if arrived is None:
                return NOT_ARRIVED
            if arrived is not request:
                request, route = arrived, None
        now, monotonic = hub.clock.now(), hub.clock.monotonic()
        try:
            if route is None:
                return hub.endpoint.handle(
                    request, self.source, now=now, monotonic=monotonic, again=again
                )
            return hub.endpoint.repeat(route, self.source, now=now, monotonic=monotonic)
        except Exception:
            # A bug in forewarn must not leave the client waiting.
            logger.exception("a request could not be handled")
            return answers.FAULT

    def _follow(
        self, received: Received, answer: Answer, *, has_waited: bool = False
    ) -> None:
        if isinstance(answer, Response):
            self._send(received, answer)
        elif isinstance(answer, Approve):
            self._ask_approval(received, answer)
        elif isinstance(answer, Wait):
            self._wait(received, answer)
        else:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(
                self._respond_later(received, answer, has_waited=has_waited)
            )

    def _wait(self, received: Received, wait: Wait) -> None:
        """Wait for a change, without a task, because there may be very many waits."""
        hub = self._hub
        if hub.is_stopping or self.is_gone:
            self._send(received, wait.otherwise)
            return
        if self._has_ended:
            # The client may be gone, as for a delayed response.
            self._is_ending = True
            if self._transport is not None:
                self._transport.close()
            return
        self._task = hub.wakeups.enter(self, received, wait)
        if self._task is None:
            self._send(received, answers.TOO_MANY_WAIT)

    def _ask_approval(self, received: Received, question: Approve) -> None:
        """Ask control without a task, because many VMs may approve at once."""
        try:
            verdict = self._task = self._hub.approve(question)
        except Exception:
            # A bug in forewarn must not leave the client waiting, here as in a task.
            logger.exception("a request could not be answered")
            self._send(received, answers.FAULT)
            return
        verdict.add_done_callback(
            functools.partial(self._take_verdict, received, question)
        )

    def _take_verdict(
        self,
        received: Received,
        question: Approve,
        verdict: "asyncio.Future[str | None]",
    ) -> None:
        self._task = None
        self._send(received, self._hub.approved(question, verdict))
        # Usually nothing was received meanwhile, and reading was not paused.
        if not self._is_ending and not (self._reader.is_idle and self._reads):
            self._drain()

    async def _respond_later(
        self, received: Received, question: Question, *, has_waited: bool
    ) -> None:
        hub = self._hub
        try:
            response = await hub.resolve(received.request, self, question)
        except Exception:
            logger.exception("a request could not be answered")
            response = answers.FAULT
        if has_waited and isinstance(response, Wait):
            # One request waits at most once.
            response = response.otherwise
        self._task = None
        self._follow(received, response)
        if not self._is_ending:
            self._drain()

    def _send(self, received: Received, response: Response) -> None:
        if self._interception is not None:
            intercepted = self._interception.give(received, response)
            if intercepted is None:
                return
            response = intercepted
        payload, closes = self.render(received, response)
        self._by_status[response.status] += 1
        self._write(payload)
        if closes or response.status == _TOO_MANY:
            self._end_or_throttle(closes=closes)

    def render(self, received: Received, response: Response) -> tuple[bytes, bool]:
        """Return the bytes of a response that is sent now, and whether it is the last."""
        request = received.request
        closes = (
            response.close
            or not received.keep
            or self._hub.is_stopping
            or (self._has_ended and not self._has_more)
        )
        payload = response.payload
        bodiless = request.method == "HEAD"
        if closes or bodiless or request.http10:
            connection = "close" if closes else "keep-alive" if request.http10 else ""
            payload = response.bytes_for(bodiless=bodiless, connection=connection)
        return self._hub.dates.stamp(response, payload, self._monotonic()), closes

    def _end_or_throttle(self, *, closes: bool) -> None:
        if closes:
            self._is_ending = True
            if self._has_more:
                self._linger()
            elif self._transport is not None:
                self._transport.close()
        # The connection of a metadata proxy has the requests of many VMs.
        elif not self._hub.endpoint.directory.is_proxy(self.source):
            self._pause_reading(self._hub.bounds.throttle_seconds)

    def hold_back(self, answer: "asyncio.Future[Any]", *, forever: bool) -> None:
        """Send no other response until `end_answer`; `forever`: until the client leaves."""
        self._task = answer
        if forever:
            self._held = answer

    def write(self, data: bytes) -> None:
        """Send some bytes of a response."""
        self._write(data)

    def end_answer(self, response: Response, *, closes: bool) -> None:
        """Continue after a response whose bytes were sent."""
        self._task = None
        self._by_status[response.status] += 1
        if closes or response.status == _TOO_MANY:
            self._end_or_throttle(closes=closes)
        if not self._is_ending:
            self._drain()

    def _refuse_request(self, refused: Refused) -> None:
        if self._interception is not None:
            self._interception.refuse(refused)
        hub = self._hub
        self._refuse(
            hub.endpoint.refuse(*refused, self.source, monotonic=hub.clock.monotonic())
        )

    def _refuse(self, response: Response) -> None:
        """Send the last response to a client that may still be sending."""
        self._by_status[response.status] += 1
        payload = response.bytes_for(bodiless=False, connection="close")
        self._write(self._hub.dates.stamp(response, payload, self._monotonic()))
        self._linger()

    def check_idle(self) -> None:
        """Close the connection after too many sweeps without a request."""
        if self._was_active or not self.is_free:
            self._was_active = False
            self._sweeps_left = self._hub.idle_sweeps
            return
        self._sweeps_left -= 1
        if self._sweeps_left <= 0 and self._transport is not None:
            self._transport.close()

    def _watch_reader(self) -> None:
        """Start the timeout of a request that is being received, once for each request."""
        if self._watchdog is None:
            if self._reader.is_between:
                return
            self._watchdog = Watchdog(self._hub.bounds, on_time=self._on_time)
        self._watchdog.watch(self._reader)

    def _on_time(self) -> None:
        if self._transport is None or self._watchdog is None:
            return
        if self._is_ending:
            self._transport.abort()
            return
        match self._watchdog.phase:
            case Phase.WRITE | Phase.LINGER:
                self._transport.abort()
            case Phase.IDLE:
                pass  # The request was in time.
            case phase if self._task is not None or not self._reads:
                # The service has paused reading, so the client did not cause the delay.
                self._watchdog.arm(phase)
            case _:
                self._refuse_request(
                    Refused(answers.TIMED_OUT, self._reader.unfinished)
                )
