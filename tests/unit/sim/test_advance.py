"""Jumps in time: notices and impacts of this length are over, at any instant."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise

import hypothesis
import hypothesis.strategies as st
import pytest

from forewarn.control.requests import verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.work import Work
from forewarn.instants import MILLISECOND, MINUTE, SECOND, Micros
from forewarn.protocol.events import Event, EventSource, EventType
from forewarn.protocol.operations import Action, Verb
from forewarn.sim.engine import START
from forewarn.sim.fleets import fleet_text
from forewarn.sim.redating import ENDS_MAX
from forewarn.sim.scenario.setup import Setup, running_stage, virtual_stage
from forewarn.sim.sim_server import SimServer
from forewarn.sim.staged import Staged
from forewarn.store import kinds
from forewarn.store.port import every

TICK: Micros = 7
"""Advance of the machine's clock between two readings."""

LATENESS: Micros = MILLISECOND
"""More than the time on the machine's clock in one of these tests."""

FREEZE, RECOVERY = 7 * SECOND, 10 * MINUTE

SETUP = Setup(fleet=fleet_text(3))


class Running:
    """A machine's clock, which advances by itself."""

    def __init__(self, start: Micros) -> None:
        self._start = self._now = start

    def now(self) -> Micros:
        self._now += TICK
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._start) / SECOND


def begun(kind: str, phase: Micros) -> SimServer:
    """Return a server whose clock stops within a second, or advances from there."""
    if kind == "running":
        return running_stage(SETUP, clock=Running(START + phase), seed=0)
    stage = virtual_stage(SETUP)
    stage.advance(phase)
    assert stage.engine.now == START + phase
    return stage


def freeze(stage: SimServer, notice: Micros) -> None:
    stage.inject(
        Staged(
            event_type=EventType.FREEZE,
            vms=("web_0",),
            source=EventSource.PLATFORM,
            notice=notice,
        )
    )


def statuses(stage: SimServer) -> list[str]:
    """Return the status of the events in documents."""
    live_events = stage.engine.read(
        lambda reader: list(every(reader, kinds.LIVE_EVENTS))
    )
    return [event.status.value for event in live_events]


def events(stage: SimServer) -> list[Event]:
    return stage.engine.read(lambda reader: list(every(reader, kinds.LIVE_EVENTS)))


KINDS = pytest.mark.parametrize("kind", ["virtual", "running"])
EXAMPLES = hypothesis.settings(max_examples=30)
"""Each example starts a simulation."""

PHASES = st.integers(0, SECOND - 1)
NOTICES = st.one_of(
    st.integers(1, 900).map(lambda seconds: seconds * SECOND),
    st.integers(10 * MILLISECOND, 3 * SECOND),
)
PARTS = st.lists(st.floats(0, 1), max_size=4)


def parts_of(whole: Micros, cuts: Sequence[float]) -> list[Micros]:
    """Return lengths with a given sum."""
    places = sorted([0, *(round(whole * cut) for cut in cuts), whole])
    return [end - begin for begin, end in pairwise(places)]


@KINDS
@EXAMPLES
@hypothesis.given(phase=PHASES, notice=NOTICES, cuts=PARTS)
def test_notice_ends_when_its_length_has_passed(
    kind: str, phase: Micros, notice: Micros, cuts: list[float]
) -> None:
    async def story() -> None:
        stage = begun(kind, phase)
        freeze(stage, notice)
        for by in parts_of(notice - LATENESS, cuts):
            stage.advance(by)
        assert statuses(stage) == ["Scheduled"]
        [event] = events(stage)
        assert event.not_before % SECOND == 0
        assert stage.engine.now < event.not_before
        stage.advance(LATENESS)
        assert statuses(stage) == ["Started"]
        [event] = events(stage)
        assert event.started_at >= event.not_before
        await stage.end()

    asyncio.run(story())


@KINDS
@EXAMPLES
@hypothesis.given(phase=PHASES, notice=NOTICES)
def test_event_ends_when_its_total_length_has_passed(
    kind: str, phase: Micros, notice: Micros
) -> None:
    async def story() -> None:
        stage = begun(kind, phase)
        freeze(stage, notice)
        stage.advance(notice + FREEZE + RECOVERY - LATENESS)
        assert statuses(stage) == ["Started"]
        stage.advance(2 * LATENESS)
        assert statuses(stage) == []
        await stage.end()

    asyncio.run(story())


def reboot(work: Work) -> object:
    return verbs.change_vms(work, ["web_0"], Verb.REBOOT, OrderOptions())


def maintain_two(work: Work) -> object:
    """The rollout announces the first host at once."""
    return verbs.maintain(work, ["h0", "h1"], Action.FREEZE, OrderOptions())


@KINDS
@EXAMPLES
@hypothesis.given(phase=PHASES, order=st.sampled_from([reboot, maintain_two]))
def test_notice_of_each_request_ends_when_its_length_has_passed(
    kind: str, phase: Micros, order: Callable[[Work], object]
) -> None:
    async def story() -> None:
        stage = begun(kind, phase)
        engine = stage.engine
        engine.plane.enable("web_0", now=engine.now)
        engine.order(order)
        stage.advance(15 * MINUTE - LATENESS)
        assert statuses(stage) == ["Scheduled"]
        stage.advance(LATENESS)
        assert statuses(stage) == ["Started"]
        await stage.end()

    asyncio.run(story())


def test_notice_of_a_forgotten_operation_ends_at_not_before() -> None:
    async def story() -> None:
        stage = begun("virtual", MILLISECOND)
        freeze(stage, MINUTE)
        ends = stage.engine.notice_ends
        [operation] = stage.engine.read(
            lambda reader: list(every(reader, kinds.OPEN_OPERATIONS))
        )
        assert ends.of(operation) == START + MILLISECOND + MINUTE
        for number in range(ENDS_MAX):
            ends.not_before(f"op-{number}", START)
        assert ends.of(operation) == operation.not_before == START + 61 * SECOND
        await stage.end()

    asyncio.run(story())
