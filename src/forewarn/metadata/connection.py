"""One connection: requests in, answers out, in order, within its limits.

A GET of a prepared document is answered inside `data_received`, without a task, by
the shortest way that leads to the right answer. Times are the processor's, beside
the 6.5 µs that the kernel and the event loop take:

- the same bytes came last, and their answer stands: 0.2 µs;
- the whole chunk is a request that is known by its bytes, as a poller's is, so that
  the parser is skipped, and who asks is looked up: 1.5 µs;
- it is read: 4 µs in the form that clients write (`plain`), else 7 µs.
"""

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Any, cast

from forewarn.instants import Micros
from forewarn.metadata import answers, limits, routes
from forewarn.metadata.endpoint import Answer, Approve, Question
from forewarn.metadata.http import Request, Response
from forewarn.metadata.hub import Hub
from forewarn.metadata.identity import Source, normal_address
from forewarn.metadata.known import Known
from forewarn.metadata.plain import read_plain
from forewarn.metadata.reader import Received, Refused, RequestReader
from forewarn.metadata.standing import Standing
from forewarn.metadata.waiting import Wait, Waiter
from forewarn.metadata.watchdog import Phase, Watchdog

logger = logging.getLogger("forewarn.metadata")

ROUNDS_UNASKED = 2
"""Rounds in which a new connection may ask nothing: the first may come at once."""

_IDLE = Phase.IDLE

_UNREAD = RequestReader(lambda _request: None)
"""In the place of a reader where there was nothing to read yet."""

_NOWHERE = Source(address="")
"""Where nobody in particular is: what is known of bytes holds for everybody."""


class Connection(asyncio.Protocol):
    """The server's end of one connection."""

    __slots__ = (
        "_admitted",
        "_by_status",
        "_has_ended",
        "_held",
        "_hub",
        "_is_choked",
        "_is_ending",
        "_known",
        "_known_bytes",
        "_monotonic",
        "_reader",
        "_reads",
        "_rounds_left",
        "_source",
        "_standing",
        "_task",
        "_transport",
        "_was_active",
        "_watchdog",
        "_write",
    )

    def __init__(self, hub: Hub, vm: str = "") -> None:
        """Belong to `hub`; `vm` is the VM whose own listener it came to."""
        self._hub = hub
        self._source = Source("", vm) if vm else _NOWHERE
        self._monotonic = hub.clock.monotonic
        self._by_status = hub.endpoint.counters.by_status
        self._write: Callable[[bytes], None] = _write_nowhere
        self._known: Known | None = None
        """The last request, if it was known by its bytes."""
        self._known_bytes = b""
        """The request that `_standing` answers."""
        self._standing: Standing | None = None
        """Never there while anything is under way, so that it need not be asked."""
        self._reader = _UNREAD
        self._transport: asyncio.Transport | None = None
        self._admitted = False
        self._task: asyncio.Future[Any] | Waiter | None = None
        """What answers the request that is under way, if it could not be at once."""
        self._held: asyncio.Future[None] | None = None
        self._is_choked = False
        self._reads = True
        self._has_ended = False
        self._is_ending = False
        self._was_active = False
        self._rounds_left = ROUNDS_UNASKED
        self._watchdog: Watchdog | None = None
        """Made when there is something to hurry: most pollers never need it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Learn who is at the other end, and whether there is room."""
        self._transport = cast("asyncio.Transport", transport)
        self._write = self._transport.write
        peer = transport.get_extra_info("peername")
        address = normal_address(str(peer[0])) if peer else ""
        self._source = Source(address, self._source.vm)
        self._admitted = self._hub.admits(self._source)
        if not self._admitted:
            self._refuse(answers.CROWDED)
            return
        self._hub.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Let go; what was asked of control runs to its end, a wait does not."""
        self._transport = None
        self._write = _write_nowhere
        self._standing = None
        self._hub.connections.discard(self)
        if self._admitted:
            self._hub.dismiss(self._source)
        # What would hold a ring of objects together is cut, so that they go at once
        # and not at the next search for garbage.
        if self._watchdog is not None:
            self._watchdog.close()
        if self._reader is not _UNREAD:
            self._reader.close()
        if self._held is not None:
            self._held.cancel()
        if isinstance(self._task, Waiter):
            self._hub.endpoint.waits.leave(self._task)
            self._task = None

    def data_received(self, data: bytes) -> None:
        """Answer what has come, or read on."""
        standing = self._standing
        if (
            standing is not None
            and data == self._known_bytes
            and standing.holds(self._monotonic())
        ):
            response = standing.response
            self._was_active = True
            self._by_status[response.status] += 1
            self._write(response.payload)
            return
        self._standing = None
        self._take(data)

    def _take(self, data: bytes) -> None:
        if self._is_ending:
            return
        self._was_active = True
        is_alone = self.is_free
        if is_alone and len(data) <= limits.KNOWN_BYTES_MAX:
            known = self._hub.known.find(data)
            received = read_plain(data) if known is None else known.received
            if received is not None:
                if self._watchdog is not None:
                    # The timer is left to run: when it fires, there was no hurry.
                    self._watchdog.phase = _IDLE
                if known is not None:
                    self._repeat(known)
                    return
                self._learn(data, received)
                self._follow(received, self._decide(received.request, None))
                return
        if self._reader is _UNREAD:
            self._reader = RequestReader(self._judge)
        self._reader.feed(data)
        ready = self._reader.ready
        if is_alone and len(ready) == 1 and self._reader.is_between:
            self._learn(data, ready[0])
        self._drain()

    def _repeat(self, known: Known) -> None:
        received = known.received
        answer = self._decide(received.request, known.route)
        self._follow(received, answer)
        if known is not self._known:
            # Who asks only once is spared the work for the next time.
            self._known = known
            return
        if not isinstance(answer, Response) or received.request.http10:
            return
        if self.is_free and not self._is_ending:
            endpoint, clock = self._hub.endpoint, self._hub.clock
            self._known_bytes = known.data
            self._standing = endpoint.standing(
                known.route,
                self._source,
                answer,
                now=clock.now(),
                monotonic=clock.monotonic(),
            )

    def eof_received(self) -> bool:
        """Finish what is under way for a client that only stopped sending.

        One that has closed looks the same. A held answer is not kept for it: who
        waits for minutes, or for a change, waits with an open connection.
        """
        if self._is_ending or self._held is not None or isinstance(self._task, Waiter):
            return False
        if self._task is None and not self._reader.ready:
            # Nothing is under way, or a request that will never be complete.
            return False
        self._has_ended = True
        return True

    def pause_writing(self) -> None:
        """Answer nothing more until the client has read what it was sent."""
        self._is_choked = True
        self._standing = None
        self._hurry(Phase.WRITE)
        self._steer()

    def resume_writing(self) -> None:
        """Go on with the requests that waited."""
        self._is_choked = False
        if self._is_ending:
            return
        self._drain()

    @property
    def source(self) -> Source:
        """Where the client is, and to whose listener it came."""
        return self._source

    @property
    def is_gone(self) -> bool:
        """Tell whether nobody is left to read an answer."""
        return self._transport is None or self._transport.is_closing()

    async def hold(self, until: Micros) -> None:
        """Return when the model time is `until`; cancelled if the client goes."""
        if self._has_ended and self._transport is not None:
            self._transport.close()
            return
        self._held = self._hub.holds.hold(until)
        try:
            await self._held
        finally:
            self._held = None

    def look_again(self, waiter: Waiter) -> None:
        """Answer a request that waited, if it is time; else it waits on."""
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

    @property
    def is_free(self) -> bool:
        """Tell whether nothing is under way."""
        return (
            self._task is None
            and not self._is_choked
            and (self._reader is _UNREAD or self._reader.is_idle)
        )

    def finish(self) -> None:
        """Close as soon as nothing is under way: the server stops."""
        if self.is_free and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close now."""
        if self._transport is not None:
            self._transport.abort()

    def _judge(self, request: Request) -> Response | None:
        endpoint = self._hub.endpoint
        if endpoint.identify(request, self._source) is None:
            return answers.NOT_FOUND
        signed = endpoint.directory.is_signed(request, self._source)
        route = endpoint.route(request, signed=signed)
        return route if isinstance(route, Response) else None

    def _learn(self, data: bytes, received: Received | Refused) -> None:
        if isinstance(received, Received) and received.request.method == "GET":
            route = self._hub.endpoint.repeatable(received.request, _NOWHERE)
            if route is not None:
                self._hub.known.learn(Known(data, received, route))

    def _drain(self) -> None:
        ready = self._reader.ready
        while ready and self._task is None and not self._is_choked:
            received = ready.popleft()
            if isinstance(received, Refused):
                self._refuse_request(received)
                return
            self._follow(received, self._decide(received.request, None))
            if self._is_ending:
                return
        if self._reader.awaits_continue and self._task is None and not ready:
            self._reader.awaits_continue = False
            self._write(answers.CONTINUE)
        self._steer()
        if not self._is_choked:
            self._watch_reader()

    def _decide(
        self, request: Request, route: routes.Read | None, *, again: bool = False
    ) -> Answer:
        hub = self._hub
        now, monotonic = hub.clock.now(), hub.clock.monotonic()
        try:
            if route is None:
                return hub.endpoint.handle(
                    request, self._source, now=now, monotonic=monotonic, again=again
                )
            return hub.endpoint.repeat(
                route, self._source, now=now, monotonic=monotonic
            )
        except Exception:
            # A fault of ours must not leave the client waiting.
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
            conversation = self._converse(received, answer, has_waited=has_waited)
            self._task = loop.create_task(conversation)

    def _wait(self, received: Received, wait: Wait) -> None:
        """Wait for a change, without a task: there may be very many."""
        hub = self._hub
        if hub.is_stopping or self.is_gone:
            self._send(received, wait.otherwise)
            return
        if self._has_ended:
            # As for a held answer: nobody may be left.
            self._is_ending = True
            if self._transport is not None:
                self._transport.close()
            return
        self._task = hub.ringer.enter(self, received, wait)
        if self._task is None:
            self._send(received, answers.TOO_MANY_WAIT)

    def _ask_approval(self, received: Received, question: Approve) -> None:
        """Have it decided without a task: many VMs may approve at once."""
        try:
            verdict = self._task = self._hub.approve(question)
        except Exception:
            # As in a task: a fault of ours must not leave the client waiting.
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
        # Most often nothing came meanwhile, and nothing was stopped.
        if not self._is_ending and not (self._reader.is_idle and self._reads):
            self._drain()

    async def _converse(
        self, received: Received, question: Question, *, has_waited: bool
    ) -> None:
        hub = self._hub
        try:
            response = await hub.settle(received.request, self, question)
        except Exception:
            logger.exception("a request could not be answered")
            response = answers.FAULT
        if has_waited and isinstance(response, Wait):
            # Whatever came of its question, nobody waits twice for one answer.
            response = response.otherwise
        self._task = None
        self._follow(received, response)
        if not self._is_ending:
            self._drain()

    def _send(self, received: Received, response: Response) -> None:
        request = received.request
        closes = (
            response.close
            or not received.keep
            or self._hub.is_stopping
            or (self._has_ended and not self._reader.ready)
        )
        payload = response.payload
        bodiless = request.method == "HEAD"
        if closes or bodiless or request.http10:
            connection = "close" if closes else "keep-alive" if request.http10 else ""
            payload = response.bytes_for(bodiless=bodiless, connection=connection)
        self._by_status[response.status] += 1
        self._write(payload)
        if closes:
            self._is_ending = True
            if self._transport is not None:
                self._transport.close()

    def _refuse_request(self, refused: Refused) -> None:
        hub = self._hub
        monotonic = hub.clock.monotonic()
        self._refuse(hub.endpoint.refuse(*refused, self._source, monotonic=monotonic))

    def _refuse(self, response: Response) -> None:
        """Send the last answer to a client that may still be sending.

        Closing at once would let the kernel answer its bytes with a reset, which
        may overtake the refusal: so only our half is closed, and the rest of what
        it sends is read and thrown away for a while.
        """
        self._is_ending = True
        self._by_status[response.status] += 1
        self._write(response.bytes_for(bodiless=False, connection="close"))
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write_eof()
            if not self._reads:
                self._reads = True
                self._transport.resume_reading()
        self._hurry(Phase.LINGER)

    def _steer(self) -> None:
        """Read on only while answers keep up with requests."""
        if self._transport is None or self._transport.is_closing():
            return
        reads = not self._is_choked and len(self._reader.ready) < limits.PIPELINE_MAX
        if reads is not self._reads:
            self._reads = reads
            if reads:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def look(self) -> None:
        """Close if nothing was asked for too many rounds."""
        if self._was_active or not self.is_free:
            self._was_active = False
            self._rounds_left = self._hub.idle_rounds
            return
        self._rounds_left -= 1
        if self._rounds_left <= 0 and self._transport is not None:
            self._transport.close()

    def _watch_reader(self) -> None:
        """Set a time for what has begun to come in, once for each request."""
        if self._watchdog is None:
            if self._reader.is_between:
                return
            self._watchdog = Watchdog(self._hub.bounds, on_time=self._on_time)
        self._watchdog.watch(self._reader)

    def _hurry(self, phase: Phase) -> None:
        if self._watchdog is None:
            self._watchdog = Watchdog(self._hub.bounds, on_time=self._on_time)
        self._watchdog.arm(phase)

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
                # It was in time.
                pass
            case phase if self._task is not None or not self._reads:
                # It is we who keep the rest of the request waiting.
                self._watchdog.arm(phase)
            case _:
                unfinished = self._reader.unfinished
                self._refuse_request(Refused(answers.TIMED_OUT, unfinished))


def _write_nowhere(_data: bytes) -> None:
    """Stand in the place of a transport that is not there."""
