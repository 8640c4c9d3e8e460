"""The answers of the leader to approvals: they wait until the other replicas serve them.

A VM that asks another replica next reads what it wrote, without a word in its request. An
approval is durable before it waits, and a replica that is silent or late must not delay
it: after two seconds, it is answered without them. A leader that stops answers all of them
before it releases the lease and closes connections.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial

from forewarn.fleet.instance import InstanceFacts
from forewarn.metadata.gateway import ControlGateway
from forewarn.protocol.own_events import OwnEvents
from forewarn.service import limits
from forewarn.service.cluster.gate import ReplicaGate

_Verdict = asyncio.Future[str | None]


class LeaderGuests:
    """The gateway of VMs of a replica that leads (metadata.gateway.ControlGateway)."""

    def __init__(self, guests: ControlGateway, gate: ReplicaGate) -> None:
        """Let `guests` decide, and ask `gate` which commits the other replicas serve.

        It is created and used on the event loop.
        """
        self._guests, self._gate = guests, gate
        self._loop = asyncio.get_running_loop()
        self._new: list[_Verdict] = []
        """Answers to approvals that were decided in this iteration of the loop."""
        self._waiting: deque[tuple[int, _Verdict]] = deque()
        """Answers, with the numbers of their commits, which go up."""
        self._open: set[_Verdict] = set()
        """All answers that are not given."""
        self._has_ended = False

    async def enable(self, vm: str) -> None:
        """Enable the view of a VM."""
        await self._guests.enable(vm)

    async def instance(self, vm: str) -> InstanceFacts | None:
        """Return the instance metadata of `vm`; None if it is deleted."""
        return await self._guests.instance(vm)

    async def own_events(self, vm: str) -> OwnEvents | None:
        """Return the event details that `vm` can see; None if it is deleted."""
        return await self._guests.own_events(vm)

    def approve(self, vm: str, event_ids: Sequence[str]) -> _Verdict:
        """Approve the events for `vm`; the result is None or the reason of a refusal."""
        verdict = asyncio.ensure_future(self._guests.approve(vm, event_ids))
        answer: _Verdict = self._loop.create_future()
        verdict.add_done_callback(partial(self._decided, answer))
        answer.add_done_callback(partial(_cancel_too, verdict))
        self._open.add(answer)
        answer.add_done_callback(self._open.discard)
        return answer

    def _decided(self, answer: _Verdict, verdict: _Verdict) -> None:
        if answer.done():
            return
        if verdict.cancelled():
            answer.cancel()
        elif (error := verdict.exception()) is not None:
            answer.set_exception(error)
        elif (refusal := verdict.result()) is not None:
            answer.set_result(refusal)
        else:
            if not self._new:
                self._loop.call_soon(self._enter)
            self._new.append(answer)

    def _enter(self) -> None:
        """Wait for the readers of all that was approved meanwhile."""
        new, self._new = self._new, []
        place = self._gate.approved()
        self._waiting.extend((place, answer) for answer in new)
        if self._has_ended:
            self._answer(place)
            return
        self._loop.call_later(limits.SERVED_SECONDS, self._answer, place)

    def release(self) -> None:
        """Give the answers that wait for nothing any more."""
        while self._waiting and self._gate.is_read(self._waiting[0][0]):
            self._answer(self._waiting[0][0])

    async def end(self) -> None:
        """Return when all answers are given; the caller sends no more requests here.

        They wait for readers only while the term lasts: after it, the positions of the
        replicas are not read.
        """
        if self._open and self._gate.may_act():
            await asyncio.wait(self._open, timeout=limits.SERVED_SECONDS)
        self._has_ended = True
        self._enter()

    def _answer(self, place: int) -> None:
        self._gate.forget(place)
        while self._waiting and self._waiting[0][0] <= place:
            _, answer = self._waiting.popleft()
            if not answer.done():
                answer.set_result(None)


def _cancel_too(verdict: _Verdict, answer: _Verdict) -> None:
    if answer.cancelled():
        verdict.cancel()
