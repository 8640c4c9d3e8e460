"""What all connections of one server share, and how a question is settled."""

import asyncio
from collections import Counter
from typing import Protocol

from forewarn.clock import Clock
from forewarn.instants import Micros
from forewarn.metadata import answers, limits
from forewarn.metadata.desk import BusyError, Desk
from forewarn.metadata.endpoint import (
    Approve,
    Describe,
    Enable,
    Endpoint,
    Hold,
    Question,
)
from forewarn.metadata.holds import Holds
from forewarn.metadata.http import Request, Response
from forewarn.metadata.identity import Source
from forewarn.metadata.known import KnownRequests
from forewarn.metadata.limits import Limits


class Party(Protocol):
    """A connection, as the hub sees it."""

    @property
    def source(self) -> Source:
        """Where it comes from."""
        ...

    @property
    def is_gone(self) -> bool:
        """Tell whether nobody is left to read an answer."""
        ...

    async def hold(self, until: Micros) -> None:
        """Return when the model time is `until`."""
        ...

    def finish(self) -> None:
        """Close as soon as nothing is under way."""
        ...

    def abort(self) -> None:
        """Close now."""
        ...


class Hub:
    """The server as a connection sees it."""

    def __init__(
        self, *, endpoint: Endpoint, desk: Desk, clock: Clock, bounds: Limits
    ) -> None:
        """Join the core, the way to control, and the clock."""
        self.endpoint = endpoint
        self.desk = desk
        self.clock = clock
        self.bounds = bounds
        self.holds = Holds(clock)
        self.known = KnownRequests()
        self.is_stopping = False
        self.is_empty = asyncio.Event()
        self.is_empty.set()
        self.connections: set[Party] = set()
        self.open = 0
        self._by_source: Counter[Source] = Counter()

    def admits(self, source: Source) -> bool:
        """Count a new connection in, unless there are too many."""
        bounds = self.bounds
        crowded = (
            self._by_source[source] >= bounds.connections_per_source
            # A metadata proxy speaks for many VMs from one address.
            and (source.vm != "" or not self.endpoint.directory.trusts_proxy)
        )
        if crowded or self.open >= bounds.connections or self.is_stopping:
            return False
        self.open += 1
        self._by_source[source] += 1
        self.is_empty.clear()
        return True

    def dismiss(self, source: Source) -> None:
        """Count an admitted connection out."""
        self.open -= 1
        self._by_source[source] -= 1
        if not self._by_source[source]:
            del self._by_source[source]
        if not self.open:
            self.is_empty.set()

    async def settle(
        self, request: Request, party: Party, question: Question
    ) -> Response:
        """Return the answer to a request that began with `question`."""
        endpoint, source = self.endpoint, party.source
        for _ in range(limits.ROUNDS_MAX):
            vm = endpoint.identify(request, source)
            if vm is None:
                return endpoint.meet_stranger(source, monotonic=self.clock.monotonic())
            try:
                if isinstance(question, Hold):
                    final = await party.hold(question.until)
                else:
                    final = await self._ask(vm, question)
            except (BusyError, TimeoutError):
                return answers.BUSY
            if final is not None:
                return final
            # A VM that does not get the answer has not been greeted by it (1.10).
            if self.is_stopping or party.is_gone:
                return answers.BUSY
            answer = endpoint.handle(
                request,
                source,
                now=self.clock.now(),
                monotonic=self.clock.monotonic(),
                again=True,
            )
            if isinstance(answer, Response):
                return answer
            question = answer
        return answers.BUSY

    async def _ask(
        self, vm: str, question: Enable | Approve | Describe
    ) -> Response | None:
        async with asyncio.timeout(self.bounds.desk_seconds):
            match question:
                case Enable():
                    await self.desk.enable(vm)
                    return None
                case Approve():
                    refusal = await self.desk.approve(vm, question.event_ids)
                    return self.endpoint.approved(vm, refusal, now=self.clock.now())
                case Describe():
                    facts = await self.desk.instance(vm)
                    return self.endpoint.described(question, facts)
