"""One connection: requests in, answers out, in order, within its limits.

A GET of a prepared document is answered inside `data_received`, without a task.
When a whole chunk is a request that is known by its bytes, as a poller's is, the
parser is skipped; who asks, and everything else, is looked up as ever.
"""

import asyncio
import logging
from typing import cast

from forewarn.instants import Micros
from forewarn.metadata import answers, limits, routes
from forewarn.metadata.endpoint import Answer, Question
from forewarn.metadata.http import Request, Response
from forewarn.metadata.hub import Hub
from forewarn.metadata.identity import Source, normal_address
from forewarn.metadata.known import Known
from forewarn.metadata.reader import Received, Refused, RequestReader
from forewarn.metadata.watchdog import Phase, Watchdog

logger = logging.getLogger("forewarn.metadata")


_IDLE = Phase.IDLE

_ANYBODY = Source(address="")
"""Asks for nobody in particular: what is known of bytes holds for everybody."""


class Connection(asyncio.Protocol):
    """The server's end of one connection."""

    def __init__(self, hub: Hub, *, vm: str = "") -> None:
        """Belong to `hub`; `vm` is the VM whose own listener it came to."""
        self._hub = hub
        self._loop = asyncio.get_running_loop()
        self._source = Source(address="", vm=vm)
        self._reader = RequestReader(self._judge)
        self._transport: asyncio.Transport | None = None
        self._admitted = False
        self._task: asyncio.Task[None] | None = None
        self._held: asyncio.Future[None] | None = None
        self._is_choked = False
        self._reads = True
        self._has_ended = False
        self._is_ending = False
        self._was_active = False
        self._watchdog = Watchdog(hub.bounds, on_time=self._on_time)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Learn who is at the other end, and whether there is room."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        address = normal_address(str(peer[0])) if peer else ""
        self._source = Source(address=address, vm=self._source.vm)
        self._admitted = self._hub.admits(self._source)
        if not self._admitted:
            self._refuse(answers.CROWDED)
            return
        self._hub.connections.add(self)
        self._watchdog.arm(Phase.HEAD)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Let go; what was asked of control runs to its end, a wait does not."""
        self._transport = None
        self._hub.connections.discard(self)
        if self._admitted:
            self._hub.dismiss(self._source)
        # What would hold a ring of objects together is cut, so that they go at once
        # and not at the next search for garbage.
        self._watchdog.close()
        self._reader.close()
        if self._held is not None:
            self._held.cancel()

    def data_received(self, data: bytes) -> None:
        """Answer what has come, or read on."""
        if self._is_ending:
            return
        self._was_active = True
        is_alone = self.is_free
        if is_alone and len(data) <= limits.KNOWN_BYTES_MAX:
            known = self._hub.known.find(data)
            if known is not None:
                # The timer is left to run: when it fires, there was no hurry.
                self._watchdog.phase = _IDLE
                self._follow(
                    known.received, self._decide(known.received.request, known.route)
                )
                return
        self._reader.feed(data)
        if is_alone:
            self._learn(data)
        self._drain()

    def eof_received(self) -> bool:
        """Finish what is under way for a client that only stopped sending.

        One that has closed looks the same. A held answer is not kept for it: who
        waits for minutes waits with an open connection.
        """
        if self._is_ending or self._held is not None:
            return False
        if self._task is None and not self._reader.ready:
            # Nothing is under way, or a request that will never be complete.
            return False
        self._has_ended = True
        return True

    def pause_writing(self) -> None:
        """Answer nothing more until the client has read what it was sent."""
        self._is_choked = True
        self._watchdog.arm(Phase.WRITE)
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

    @property
    def is_free(self) -> bool:
        """Tell whether nothing is under way."""
        reader = self._reader
        return (
            self._task is None
            and not self._is_choked
            and not reader.ready
            and reader.is_between
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
        route = routes.route(request, signed=signed)
        return route if isinstance(route, Response) else None

    def _learn(self, data: bytes) -> None:
        ready = self._reader.ready
        if len(ready) != 1 or self._reader.in_head or self._reader.in_body:
            return
        received = ready[0]
        if isinstance(received, Received) and received.request.method == "GET":
            route = self._hub.endpoint.repeatable(received.request, _ANYBODY)
            if route is not None:
                self._hub.known.learn(data, Known(received, route))

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
            self._watchdog.watch(self._reader)

    def _decide(self, request: Request, route: routes.Read | None) -> Answer:
        hub = self._hub
        now, monotonic = hub.clock.now(), hub.clock.monotonic()
        try:
            if route is None:
                return hub.endpoint.handle(
                    request, self._source, now=now, monotonic=monotonic
                )
            return hub.endpoint.repeat(
                route, self._source, now=now, monotonic=monotonic
            )
        except Exception:
            # A fault of ours must not leave the client waiting.
            logger.exception("a request could not be handled")
            return answers.FAULT

    def _follow(self, received: Received, answer: Answer) -> None:
        if isinstance(answer, Response):
            self._send(received, answer)
        else:
            self._task = self._loop.create_task(self._converse(received, answer))

    async def _converse(self, received: Received, question: Question) -> None:
        hub = self._hub
        try:
            response = await hub.settle(received.request, self, question)
        except Exception:
            logger.exception("a request could not be answered")
            response = answers.FAULT
        self._task = None
        self._send(received, response)
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
        self._hub.endpoint.counters.responses[response.status] += 1
        self._write(payload)
        if closes:
            self._is_ending = True
            if self._transport is not None:
                self._transport.close()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

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
        self._hub.endpoint.counters.responses[response.status] += 1
        self._write(response.bytes_for(bodiless=False, connection="close"))
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write_eof()
            if not self._reads:
                self._reads = True
                self._transport.resume_reading()
        self._watchdog.arm(Phase.LINGER)

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

    def _on_time(self) -> None:
        if self._transport is None:
            return
        if self._is_ending:
            self._transport.abort()
            return
        match self._watchdog.phase:
            case Phase.WRITE | Phase.LINGER:
                self._transport.abort()
            case Phase.IDLE if self._was_active or not self.is_free:
                self._was_active = False
                self._watchdog.arm(Phase.IDLE)
            case Phase.IDLE:
                self._transport.close()
            case phase if self._task is not None or not self._reads:
                # It is we who keep the rest of the request waiting.
                self._watchdog.arm(phase)
            case _ if self._reader.is_between:
                self._transport.close()
            case _:
                unfinished = self._reader.unfinished
                self._refuse_request(Refused(answers.TIMED_OUT, unfinished))
