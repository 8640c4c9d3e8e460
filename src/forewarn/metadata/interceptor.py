"""The interface of interceptors between VMs and endpoint, with a hook per connection.

An interceptor sees each request before the endpoint does, and each response before the
VM does. It can drop a request, replace the response, and control how the bytes are
sent. A service has no interceptor. A simulator applies faults here and keeps its
journal.

An `Interception` is the hook: the part of one connection that calls the interceptor.
Without a `Plan`, the bytes on the wire are the same as without an interceptor.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from forewarn.clock import Clock
from forewarn.instants import Micros
from forewarn.metadata.cached_response import CachedResponse
from forewarn.metadata.endpoint import Endpoint
from forewarn.metadata.http import Request, Response
from forewarn.metadata.identity import Source
from forewarn.metadata.reader import Received, Refused

FLUSH_SECONDS = 0.02
"""Delay between the last bytes and a reset: the event loop may write only in its next
iteration, and a reset discards bytes that the client's kernel has not seen."""

NOT_ARRIVED = Response(status=0, payload=b"")
"""A placeholder for the genuine response if the endpoint did not get the request."""

Again: TypeAlias = Callable[[CachedResponse, float], bool]
"""Called for each repeated request of a poller, with the I/O time. Returns whether the
cached response can be sent again; if so, it has recorded and counted the request."""


class InterceptedRequest(NamedTuple):
    """One request, at its arrival."""

    now: Micros
    """The model time."""
    io_time: float
    """Seconds of the event loop: they pass even if model time stands still."""
    source: Source
    vm: str
    """The key of the calling VM; empty: an unknown caller."""
    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The speed at which a response is sent."""

    size: int
    """Bytes of one part."""
    seconds: float
    """Seconds between two parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The treatment of one request and its response."""

    arrives: bool = True
    """Whether the endpoint gets the request. If not, the request has no effect: its
    approval is lost, and the VM does not count as active."""
    in_full: bool = False
    """The endpoint gets the request without `If-None-Match`."""
    delay_seconds: float = 0.0
    """Delay before the response is sent; the response itself is made at once."""
    pace: Pace | None = None
    cut_after: int | None = None
    """The connection is reset after this many bytes of the response, or after half
    of it if it is not longer."""


class Interceptor(Protocol):
    """A simulator's component in front of the endpoint, called on the server's loop."""

    def refuses(self, source: Source, vm: str) -> bool:
        """Return whether a new connection is reset; `vm` as in `InterceptedRequest`."""
        ...

    def take(self, visit: InterceptedRequest) -> Plan | None:
        """Return the treatment of a request; None: the usual one."""
        ...

    def answer(
        self, visit: InterceptedRequest, plan: Plan | None, genuine: Response | None
    ) -> Response | None:
        """Return the response to send instead of `genuine`, or `genuine` itself.

        `genuine` is None if the request did not arrive. With the result None, nothing
        is sent; the connection stays open, or is reset if the plan says so.
        """
        ...

    def repeating(
        self,
        visit: InterceptedRequest,
        standing: CachedResponse,
        *,
        now: Micros,
        monotonic: float,
    ) -> Again | None:
        """Return the function to call for each repetition of `visit`.

        It is used while `standing` is valid.

        Return None to handle each repetition as a new request. The arguments give the
        current instant as model time and as I/O time, for conversions.
        """
        ...

    def unanswered(self, visit: InterceptedRequest, plan: Plan | None) -> None:
        """Record that the client left before its response was sent."""
        ...

    def unread(
        self, source: Source, vm: str, request: Request | None, refusal: Response
    ) -> None:
        """Record a request that was refused before it was read in full."""
        ...


class Wire(Protocol):
    """The part of a connection that an `Interception` uses."""

    @property
    def source(self) -> Source:
        """Return the address of the client, and the VM of the listener."""
        ...

    def hold_back(self, answer: "asyncio.Future[Any]", *, forever: bool) -> None:
        """Send no other response until `end_answer`; `forever`: until the client leaves."""
        ...

    def render(self, received: Received, response: Response) -> tuple[bytes, bool]:
        """Return the bytes of a response, and whether it is the last."""
        ...

    def write(self, data: bytes) -> None:
        """Send some bytes of a response."""
        ...

    def end_answer(self, response: Response, *, closes: bool) -> None:
        """Continue after a response whose bytes were sent."""
        ...

    def reset(self) -> None:
        """End the connection with a TCP reset."""
        ...


class Interception:
    """The state of an interceptor for one connection."""

    __slots__ = (
        "_clock",
        "_endpoint",
        "_genuine",
        "_interceptor",
        "_plan",
        "_sending",
        "_visit",
        "_wire",
    )

    def __init__(
        self, interceptor: Interceptor, endpoint: Endpoint, clock: Clock, wire: Wire
    ) -> None:
        """Consult `interceptor` about all requests and responses on `wire`."""
        self._interceptor = interceptor
        self._endpoint = endpoint
        self._clock = clock
        self._wire = wire
        self._visit: InterceptedRequest | None = None
        """The current request, until its response is decided."""
        self._plan: Plan | None = None
        self._genuine: InterceptedRequest | None = None
        """The last request, if the client got the genuine response at once."""
        self._sending: asyncio.Task[None] | None = None
        """The task that sends a response slowly."""

    def refuses(self) -> bool:
        """Return whether the new connection is reset."""
        source = self._wire.source
        return self._interceptor.refuses(source, self._vm(None))

    def take(self, request: Request) -> Request | None:
        """Return the request as the endpoint gets it; None: it does not arrive."""
        now, io_time = self._clock.now(), asyncio.get_running_loop().time()
        visit = InterceptedRequest(
            now, io_time, self._wire.source, self._vm(request), request
        )
        plan = self._interceptor.take(visit)
        self._visit, self._plan, self._genuine = visit, plan, None
        if plan is None:
            return request
        if plan.in_full and "if-none-match" in request.headers:
            headers = {**request.headers}
            del headers["if-none-match"]
            request = request._replace(headers=headers)
        return request if plan.arrives else None

    def give(self, received: Received, response: Response) -> Response | None:
        """Return the response to send now; None: send nothing now."""
        visit, plan = self._visit, self._plan
        self._visit = self._plan = None
        if visit is None:
            return response
        genuine = None if response is NOT_ARRIVED else response
        answer = self._interceptor.answer(visit, plan, genuine)
        if plan is None and answer is not None:
            self._genuine = visit if answer is genuine else None
            return answer
        if answer is None and (plan is None or plan.cut_after is None):
            silence = asyncio.get_running_loop().create_future()
            self._wire.hold_back(silence, forever=True)
            return None
        assert plan is not None, "only a plan changes how a response is sent"
        if not (plan.delay_seconds or plan.pace or plan.cut_after is not None):
            return answer
        if plan.cut_after is None:
            assert answer is not None, "only a cut response can be missing"
            work = self._send_slowly(received, answer, plan)
        else:
            work = self._cut(received, answer, plan, plan.cut_after)
        self._sending = asyncio.get_running_loop().create_task(work)
        self._wire.hold_back(self._sending, forever=False)
        return None

    def repeat(
        self, standing: CachedResponse, *, now: Micros, monotonic: float
    ) -> Callable[[float], bool] | None:
        """Return the function that replaces `standing.may_send`; None: do not cache."""
        if self._genuine is None:
            return None
        again = self._interceptor.repeating(
            self._genuine, standing, now=now, monotonic=monotonic
        )
        return None if again is None else partial(again, standing)

    def refuse(self, refused: Refused) -> None:
        """Report a request that was refused before it was read in full."""
        request = refused.request
        self._interceptor.unread(
            self._wire.source, self._vm(request), request, refused.response
        )

    def leave(self) -> None:
        """Stop, and report a request without a response, because the client left."""
        if self._sending is not None:
            self._sending.cancel()
        visit, plan = self._visit, self._plan
        self._visit = self._plan = self._sending = None
        if visit is not None:
            self._interceptor.unanswered(visit, plan)

    def _vm(self, request: Request | None) -> str:
        return self._endpoint.identify(request, self._wire.source) or ""

    async def _send_slowly(
        self, received: Received, answer: Response, plan: Plan
    ) -> None:
        await asyncio.sleep(plan.delay_seconds)
        payload, closes = self._wire.render(received, answer)
        await self._write_in_parts(payload, plan.pace)
        self._sending = None
        self._wire.end_answer(answer, closes=closes)

    async def _cut(
        self, received: Received, answer: Response | None, plan: Plan, size: int
    ) -> None:
        await asyncio.sleep(plan.delay_seconds)
        payload = b"" if answer is None else self._wire.render(received, answer)[0]
        if size and size >= len(payload):
            size = len(payload) // 2
        await self._write_in_parts(payload[:size], plan.pace)
        await asyncio.sleep(FLUSH_SECONDS)
        self._wire.reset()

    async def _write_in_parts(self, payload: bytes, pace: Pace | None) -> None:
        """Write a payload, in parts if there is a pace."""
        size = len(payload) if pace is None else pace.size
        for at in range(0, len(payload), size or 1):
            if at and pace is not None:
                await asyncio.sleep(pace.seconds)
            self._wire.write(payload[at : at + size])
