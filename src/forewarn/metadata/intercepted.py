"""A connection with an interposer in front of it.

Everything is done as on any other connection but what a `Plan` says; without one,
the bytes are the same. An answer stands as long as the interposer lets it, which is
asked for each request: that is one call, and 0.3 µs more than without anybody.
"""

import asyncio
import socket
import struct

from forewarn.metadata import routes
from forewarn.metadata.cached_response import CachedResponse
from forewarn.metadata.connection import Connection
from forewarn.metadata.endpoint import Answer
from forewarn.metadata.http import Request, Response
from forewarn.metadata.hub import Hub
from forewarn.metadata.interceptor import (
    Again,
    InterceptedRequest,
    Interceptor,
    Pace,
    Plan,
)
from forewarn.metadata.reader import Received, Refused
from forewarn.metadata.request_cache import Known

FLUSH_SECONDS = 0.02
"""Between the last bytes and a reset: a loop may write only in its next turn, and a
reset overtakes what the client's kernel has not seen."""

_RESET = struct.pack("ii", 1, 0)
"""For SO_LINGER: to close is to reset, and nothing that waits is sent."""

_NOT_ARRIVED = Response(status=0, payload=b"")
"""In the place of a genuine answer: the endpoint was not asked."""


class InterceptedConnection(Connection):
    """The server's end of one connection, with somebody in front of the endpoint."""

    __slots__ = (
        "_again",
        "_interceptor",
        "_is_silent",
        "_plan",
        "_sending",
        "_stood",
        "_visit",
    )

    def __init__(self, hub: Hub, vm: str, interceptor: Interceptor) -> None:
        """Belong to `hub`; `interposer` sees all that passes."""
        super().__init__(hub, vm)
        self._interceptor = interceptor
        self._visit: InterceptedRequest | None = None
        """The request that is under way, until its answer is decided."""
        self._plan: Plan | None = None
        self._stood: InterceptedRequest | None = None
        """The last request, if it was answered at once and as genuine as it came."""
        self._again: Again = _never
        """Whoever is asked while an answer stands."""
        self._sending: asyncio.Task[None] | None = None
        """What sends an answer that takes time."""
        self._is_silent = False
        """The request that is under way will never be answered."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Learn who is at the other end; reset the connection if that is ordered."""
        super().connection_made(transport)
        vm = self._hub.endpoint.identify(None, self._source) or ""
        if self._admitted and self._interceptor.refuses(self._source, vm):
            self._reset()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go, also of an answer that is being sent."""
        super().connection_lost(exc)
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None
        visit, plan = self._visit, self._plan
        self._visit = self._plan = None
        if visit is not None:
            self._interceptor.unanswered(visit, plan)

    def eof_received(self) -> bool:
        """Close if nothing will ever be answered; else as always."""
        return not self._is_silent and super().eof_received()

    def data_received(self, data: bytes) -> None:
        """Answer what has come, or read on."""
        standing = self._standing
        if standing is not None and data == self._known_bytes:
            monotonic = self._monotonic()
            if self._again(standing, monotonic):
                self._was_active = True
                self._by_status[standing.response.status] += 1
                self._write(self._dated.at(monotonic))
                return
        self._standing = self._stood = None
        self._take(data)

    def _repeat(self, known: Known) -> None:
        super()._repeat(known)
        standing, visit = self._standing, self._stood
        if standing is None:
            return
        again = None
        if visit is not None:
            clock = self._hub.clock
            # The model time is read first: no repetition seems to come before it.
            again = self._interceptor.repeating(
                visit, standing, now=clock.now(), monotonic=clock.monotonic()
            )
        if again is None:
            self._standing = None
        else:
            self._again = again

    def _decide(
        self, request: Request, route: routes.Read | None, *, again: bool = False
    ) -> Answer:
        if again:
            return super()._decide(request, route, again=True)
        hub = self._hub
        visit = self._visit = InterceptedRequest(
            hub.clock.now(),
            asyncio.get_running_loop().time(),
            self._source,
            hub.endpoint.identify(request, self._source) or "",
            request,
        )
        plan = self._plan = self._interceptor.take(visit)
        if plan is None:
            return super()._decide(request, route)
        if not plan.arrives:
            return _NOT_ARRIVED
        if plan.in_full and "if-none-match" in request.headers:
            headers = {**request.headers}
            del headers["if-none-match"]
            return super()._decide(request._replace(headers=headers), None)
        return super()._decide(request, route)

    def _send(self, received: Received, response: Response) -> None:
        visit, plan = self._visit, self._plan
        self._visit = self._plan = None
        if visit is None:
            super()._send(received, response)
            return
        genuine = None if response is _NOT_ARRIVED else response
        given = self._interceptor.answer(visit, plan, genuine)
        if plan is None and given is not None:
            self._stood = visit if given is genuine else None
            super()._send(received, given)
            return
        if given is None and (plan is None or plan.cut_after is None):
            # Something is under way for ever, so that nothing more is answered.
            self._is_silent = True
            self._task = asyncio.get_running_loop().create_future()
            return
        assert plan is not None, "an answer without a plan was sent"
        if plan.delay_seconds or plan.pace or plan.cut_after is not None:
            loop = asyncio.get_running_loop()
            self._task = self._sending = loop.create_task(
                self._send_slowly(received, given, plan)
            )
        elif given is not None:
            super()._send(received, given)

    async def _send_slowly(
        self, received: Received, given: Response | None, plan: Plan
    ) -> None:
        if plan.delay_seconds:
            await asyncio.sleep(plan.delay_seconds)
        if plan.cut_after is not None:
            payload = b"" if given is None else self._stamped(given, given.payload)
            size = plan.cut_after
            if size and size >= len(payload):
                size = len(payload) // 2
            await self._trickle(payload[:size], plan.pace)
            await asyncio.sleep(FLUSH_SECONDS)
            self._reset()
            return
        assert given is not None, "only what is cut has no answer"
        if plan.pace is None:
            self._task = self._sending = None
            super()._send(received, given)
        else:
            closes = (
                given.close
                or not received.keep
                or (self._has_ended and not self._reader.ready)
            )
            payload = given.bytes_for(
                bodiless=received.request.method == "HEAD",
                connection="close" if closes else "",
            )
            await self._trickle(self._stamped(given, payload), plan.pace)
            self._task = self._sending = None
            self._by_status[given.status] += 1
            if closes and self._transport is not None:
                self._is_ending = True
                self._transport.close()
        if not self._is_ending:
            self._drain()

    async def _trickle(self, payload: bytes, pace: Pace | None) -> None:
        """Write a payload, part by part where there is a pace."""
        if pace is None:
            self._write(payload)
            return
        for at in range(0, len(payload), pace.size):
            if at:
                await asyncio.sleep(pace.seconds)
            self._write(payload[at : at + pace.size])

    def _refuse_request(self, refused: Refused) -> None:
        request = refused.request
        vm = self._hub.endpoint.identify(request, self._source) or ""
        self._interceptor.unread(self._source, vm, request, refused.response)
        super()._refuse_request(refused)

    def _reset(self) -> None:
        """End the connection with a reset, not with a farewell."""
        self._is_ending = True
        transport = self._transport
        if transport is None:
            return
        wire = transport.get_extra_info("socket")
        if wire is not None:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        transport.abort()


def _never(_standing: CachedResponse, _monotonic: float) -> bool:
    """Stand in the place of an interposer that was not asked yet."""
    return False
