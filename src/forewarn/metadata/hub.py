"""The shared state of a server's connections, and its requests to control."""

import asyncio
import logging
import math
from collections import Counter
from typing import Protocol

from forewarn.clock import Clock
from forewarn.instants import Micros
from forewarn.metadata import answers, limits
from forewarn.metadata.dates import Dates
from forewarn.metadata.endpoint import (
    Approve,
    Describe,
    Enable,
    Endpoint,
    Hold,
    Question,
    details,
)
from forewarn.metadata.gateway import ControlGateway
from forewarn.metadata.http import Request, Response
from forewarn.metadata.identity import Source
from forewarn.metadata.interceptor import Interceptor
from forewarn.metadata.reader import Received, Refused
from forewarn.metadata.request_cache import CachedRequest, RequestCache
from forewarn.metadata.routes import OwnRead
from forewarn.metadata.timers import Deadlines, DelayedResponses, IdleSweep, Wakeups
from forewarn.metadata.waiting import Wait
from forewarn.protocol.errors import ForewarnError

logger = logging.getLogger("forewarn.metadata")


NOWHERE = Source(address="")
"""A source without an address, for facts that hold for all callers."""


class Client(Protocol):
    """A connection as the hub uses it."""

    @property
    def source(self) -> Source:
        """The source of the connection."""
        ...

    @property
    def is_gone(self) -> bool:
        """Return whether the client can no longer read a response."""
        ...

    async def hold(self, until: Micros) -> None:
        """Return when the model time is `until`."""
        ...

    def check_idle(self) -> None:
        """Close the connection if it was idle for too long: called in each sweep."""
        ...

    def finish(self) -> None:
        """Close the connection when it is idle."""
        ...

    def detach(self) -> asyncio.Transport | None:
        """Return the transport for another protocol; None if the connection is busy."""
        ...

    def abort(self) -> None:
        """Close now."""
        ...


class Hub:
    """The server as a connection uses it."""

    gateway: ControlGateway
    """Set when a gateway is attached: a closed endpoint sends control no requests."""

    def __init__(
        self,
        *,
        endpoint: Endpoint,
        gateway: ControlGateway | None,
        clock: Clock,
        bounds: limits.Limits,
        interceptor: Interceptor | None = None,
    ) -> None:
        """Connect the core, the gateway to control, and the clock.

        `interceptor` sees all requests and answers.
        """
        self.endpoint = endpoint
        if gateway is not None:
            self.gateway = gateway
        self.clock = clock
        self.bounds = bounds
        self.interceptor = interceptor
        self.dates = Dates(clock)
        self.delayed_responses = DelayedResponses(clock)
        endpoint.on_delays_ended = self.delayed_responses.end
        self.wakeups = Wakeups(endpoint.waits, clock)
        self._deadlines = Deadlines(bounds.gateway_seconds)
        self.request_cache = RequestCache()
        self.is_stopping = False
        self.is_empty = asyncio.Event()
        self.is_empty.set()
        self.connections: set[Client] = set()
        self.idle_sweep = IdleSweep(self.connections, seconds=bounds.sweep_seconds)
        self.idle_sweeps = bounds.idle_sweeps
        self.open = 0
        self.listeners = 0
        """Number of open files of the listeners of single VMs."""
        self.refused: Counter[str] = Counter()
        """Number of refused connections by reason."""
        self._refused_logged = -math.inf
        self._by_source: dict[Source, int] = {}

    def admits(self, source: Source) -> bool:
        """Count a new connection; return False if there are too many."""
        bounds = self.bounds
        others = self._by_source.get(source, 0)
        crowded = (
            others >= bounds.connections_per_source
            # A metadata proxy forwards requests of many VMs from one address.
            and not self.endpoint.directory.is_proxy(source)
        )
        full = self.open + self.listeners >= bounds.connections
        if crowded or full or self.is_stopping:
            if not self.is_stopping:
                self._note_refused("source" if crowded else "all", source)
            return False
        self.open += 1
        self._by_source[source] = others + 1
        if self.open == 1:
            self.is_empty.clear()
            self.idle_sweep.begin()
        return True

    def _note_refused(self, why: str, source: Source) -> None:
        """Count a refused connection, and log it at a limited rate."""
        self.refused[why] += 1
        monotonic = self.clock.monotonic()
        if monotonic - self._refused_logged >= limits.REFUSED_LOG_SECONDS:
            self._refused_logged = monotonic
            logger.warning(
                "a connection from %r was refused: %d are open, %d refused so far; "
                "this process takes %d, and %d of one source",
                source.vm or source.address,
                self.open,
                self.refused.total(),
                self.bounds.connections - self.listeners,
                self.bounds.connections_per_source,
            )

    def dismiss(self, source: Source) -> None:
        """Stop counting an admitted connection."""
        self.open -= 1
        others = self._by_source[source] - 1
        if others:
            self._by_source[source] = others
        else:
            del self._by_source[source]
            self.endpoint.directory.forget_proxy(source)
        if not self.open:
            self.is_empty.set()

    async def resolve(
        self, request: Request, client: Client, question: Question
    ) -> Response | Wait:
        """Return the response to a request that first needs `question` from control.

        A request with `wait` may still have to wait after that.
        """
        endpoint, source = self.endpoint, client.source
        for _ in range(limits.QUESTIONS_MAX):
            vm = endpoint.identify(request, source)
            if vm is None:
                return endpoint.refuse_unknown(source, monotonic=self.clock.monotonic())
            try:
                if isinstance(question, Hold):
                    final = await client.hold(question.until)
                elif isinstance(question, Approve):
                    verdict = self.approve(question)
                    await asyncio.wait({verdict})
                    final = self.approved(question, verdict)
                else:
                    final = await self._ask(vm, question)
            except (ForewarnError, TimeoutError):
                return answers.BUSY
            if final is not None:
                return final
            # A VM that does not get this response must get a full document later (1.10).
            if self.is_stopping or client.is_gone:
                return answers.BUSY
            answer = endpoint.handle(
                request,
                source,
                now=self.clock.now(),
                monotonic=self.clock.monotonic(),
                again=True,
            )
            if isinstance(answer, Response | Wait):
                return answer
            question = answer
        return answers.BUSY

    def judge(self, source: Source, request: Request) -> Response | None:
        """Return the refusal of a request whose body must not be read; None: read it."""
        return self.endpoint.judge_head(
            request, source, monotonic=self.clock.monotonic()
        )

    def cache_request(self, data: bytes, received: Received | Refused) -> None:
        """Cache a request by its bytes, if `repeat` may respond to it again."""
        if isinstance(received, Received) and received.request.method == "GET":
            route = self.endpoint.repeatable(received.request, NOWHERE)
            if route is not None:
                self.request_cache.store(CachedRequest(data, received, route))

    def approve(self, question: Approve) -> "asyncio.Future[str | None]":
        """Request the verdict on an approval; pass it to `approved` later."""
        verdict = asyncio.ensure_future(
            self.gateway.approve(question.vm, question.event_ids)
        )
        self._deadlines.watch(verdict)
        return verdict

    def approved(
        self, question: Approve, verdict: "asyncio.Future[str | None]"
    ) -> Response:
        """Return the response to an approval with its verdict or timeout."""
        try:
            refusal = verdict.result()
        except (ForewarnError, asyncio.CancelledError):
            return answers.BUSY
        except Exception:
            logger.exception("a request could not be answered")
            return answers.FAULT
        return self.endpoint.approved(question.vm, refusal, now=self.clock.now())

    async def _ask(
        self, vm: str, question: Enable | Describe | OwnRead
    ) -> Response | None:
        async with asyncio.timeout(self.bounds.gateway_seconds):
            match question:
                case Enable():
                    await self.gateway.enable(vm)
                    return None
                case Describe():
                    facts = await self.gateway.instance(vm)
                    return self.endpoint.described(question, facts)
                case OwnRead():
                    return details(await self.gateway.own_events(vm))
