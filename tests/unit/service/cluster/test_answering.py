"""The leader answers approvals when the other replicas serve them, and forwards the rest."""

import asyncio
from collections.abc import Sequence

import pytest

from forewarn.clock import Clock, SystemClock
from forewarn.cluster.calls import Commit, Positions
from forewarn.cluster.port import ReplicaRow
from forewarn.cluster.times import Times
from forewarn.fleet.instance import InstanceFacts
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.own_events import OwnEvents
from forewarn.service import limits
from forewarn.service.cluster.answering import LeaderGuests
from forewarn.service.cluster.gate import ReplicaGate
from tests.support.loops import in_loop

CLOCK: Clock = SystemClock()


class Guests:
    """The gateway that decides, when the test says so."""

    def __init__(self) -> None:
        self.verdicts: list[asyncio.Future[str | None]] = []

    def approve(
        self, vm: str, event_ids: Sequence[str]
    ) -> "asyncio.Future[str | None]":
        del vm, event_ids
        self.verdicts.append(asyncio.get_running_loop().create_future())
        return self.verdicts[-1]

    async def enable(self, vm: str) -> None:
        raise ForewarnError(f"{vm} enables")

    async def instance(self, vm: str) -> InstanceFacts | None:
        del vm

    async def own_events(self, vm: str) -> OwnEvents | None:
        del vm


class Leader:
    """The gateway of a leader, and the positions that its keeper reads."""

    def __init__(self) -> None:
        self.guests, self.number, self.wanted = Guests(), 1, 0
        self.gate = ReplicaGate(
            lambda: True,
            CLOCK,
            Times(),
            "a",
            takeover=Commit(number=0, at=0.0),
            wanted=self._want,
        )
        self.gate.use(lambda: self.number)
        self.answering = LeaderGuests(self.guests, self.gate)

    def _want(self) -> None:
        self.wanted += 1

    async def see(self, position: int) -> None:
        """Take the position of the other replica."""
        await turns()
        row = ReplicaRow(key="b", name="b", url="", position=position)
        if self.gate.take(Positions(asked=CLOCK.monotonic() + 1, rows=(row,))):
            self.answering.release()


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@in_loop
async def test_answer_comes_with_the_position_of_the_other_replica() -> None:
    leader = Leader()
    answers = [leader.answering.approve("web", ["1"]) for _ in range(2)]
    for verdict in leader.guests.verdicts:
        verdict.set_result(None)
    await leader.see(0)
    assert not any(answer.done() for answer in answers)
    # Both were decided together, so the keeper is asked once.
    assert leader.wanted == 1
    leader.number = 2
    answers.append(leader.answering.approve("web", ["2"]))
    leader.guests.verdicts[2].set_result(None)
    await leader.see(1)
    assert [answer.done() for answer in answers] == [True, True, False]
    await leader.see(2)
    assert [answer.result() for answer in answers] == [None] * 3


@in_loop
async def test_answer_comes_after_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SERVED_SECONDS", 0.05)
    leader = Leader()
    answer = leader.answering.approve("web", ["1"])
    leader.guests.verdicts[0].set_result(None)
    await leader.see(0)
    assert not answer.done()
    assert await answer is None
    assert not leader.gate.waits


@in_loop
async def test_refusals_and_errors_wait_for_nobody() -> None:
    leader = Leader()
    refused, failed, cancelled = (
        leader.answering.approve("web", ["1"]) for _ in range(3)
    )
    first, second, third = leader.guests.verdicts
    first.set_result("no such event")
    second.set_exception(ForewarnError("busy"))
    third.cancel()
    await turns()
    assert refused.result() == "no such event"
    assert isinstance(failed.exception(), ForewarnError)
    assert cancelled.cancelled()
    assert leader.wanted == 0


@in_loop
async def test_request_that_is_given_up_is_not_decided() -> None:
    leader = Leader()
    answer = leader.answering.approve("web", ["1"])
    answer.cancel()
    await turns()
    assert leader.guests.verdicts[0].cancelled()
    late = leader.answering.approve("web", ["1"])
    leader.guests.verdicts[1].set_result(None)
    await turns()
    late.cancel()
    await leader.see(1)
    assert late.cancelled()


@in_loop
async def test_other_requests_are_forwarded() -> None:
    leader = Leader()
    with pytest.raises(ForewarnError, match="web enables"):
        await leader.answering.enable("web")
    assert await leader.answering.instance("web") is None
    assert await leader.answering.own_events("web") is None


@in_loop
async def test_leader_that_ends_answers_what_is_durable_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "SERVED_SECONDS", 0.05)
    leader = Leader()
    durable, late, undecided = (
        leader.answering.approve("web", ["1"]) for _ in range(3)
    )
    leader.guests.verdicts[0].set_result(None)
    await turns()
    monkeypatch.setattr(limits, "SERVED_SECONDS", 0.0)
    await leader.answering.end()
    assert durable.result() is None
    leader.guests.verdicts[1].set_result(None)
    await turns()
    assert late.result() is None
    assert not undecided.done()
    assert not leader.gate.waits
