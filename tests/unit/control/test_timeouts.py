"""The time-out of a driver call, when the service restarts while it is asked after."""

from collections.abc import Callable, Sequence

import pytest

from forewarn.clock import VirtualClock
from forewarn.control.plane import Plane
from forewarn.control.requests import fleet_changes, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.inquiries import (
    Answer,
    DirectInquirer,
    Inquirer,
    Question,
)
from forewarn.control.transactions.work import Who, Work
from forewarn.fleet.file import read_fleet
from forewarn.ids import RandomIds
from forewarn.instants import HOUR, MINUTE, SECOND, Micros
from forewarn.protocol.actors import operator
from forewarn.protocol.operations import Action, CallState, Operation
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from tests.unit.admin.gateway import FLEET, START, LocalGateway, ObedientDriver

TIMEOUT = Policy().driver_timeout


class SilentInquirer:
    """Takes questions, and has no answer until the service is killed."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    def ask(self, question: Question, *, now: Micros) -> None:
        self.asked.append(question)

    def answers(self) -> Sequence[Answer]:
        return ()


class Story:
    """A reboot of h1 whose call never ends, and services that are killed."""

    def __init__(self) -> None:
        self.clock = VirtualClock(START)
        self.store = MemoryStore()
        self.driver = ObedientDriver()
        self.driver.is_silent = True
        self.start()
        wanted = read_fleet(FLEET, name="fleet.toml")
        self.order(lambda work: fleet_changes.apply(work, wanted))
        self.order(
            lambda work: verbs.maintain(work, ["h1"], Action.REBOOT, OrderOptions())
        )
        self.wait(16 * MINUTE)
        self.ends = self.call().due_at
        assert self.ends == self.clock.now() + TIMEOUT

    def start(self, *, silent: bool = False) -> SilentInquirer:
        """Kill the service and start it again; return what asks no driver."""
        mute = SilentInquirer()
        inquirer: Inquirer = mute if silent else DirectInquirer(self.driver)
        self.plane = Plane(
            store=self.store,
            driver=self.driver,
            policy=Policy(),
            ids=RandomIds(7),
            listener=LocalGateway(""),
            inquirer=inquirer,
        )
        self.read_clocks()
        self.plane.start(now=self.clock.now())
        return mute

    def read_clocks(self) -> None:
        now = self.clock.now()
        self.plane.read_clocks(now=now, monotonic=self.clock.monotonic())

    def order(self, decide: Callable[[Work], object]) -> None:
        self.plane.order(Who(actor=operator("test")), decide, now=self.clock.now())

    def wait(self, duration: Micros) -> None:
        self.clock.advance_to(self.clock.now() + duration)
        self.read_clocks()
        while self.plane.advance(now=self.clock.now()):
            pass

    def call(self) -> Operation:
        [operation] = self.store.read(
            lambda reader: reader.select(kinds.ALL_OPERATIONS)
        )
        return operation


@pytest.fixture
def story() -> Story:
    return Story()


def test_crash_during_a_probe_keeps_the_timeout(story: Story) -> None:
    story.wait(TIMEOUT // 3)
    story.start(silent=True)
    assert story.call().call_state is CallState.PROBING
    story.wait(TIMEOUT // 3)
    story.start()
    call = story.call()
    assert (call.call_state, call.due_at) == (CallState.ISSUED, story.ends)
    story.wait(TIMEOUT // 3 - SECOND)
    assert story.call().call_state is CallState.ISSUED
    story.wait(SECOND)
    assert story.call().call_state is CallState.RETRY


def test_call_times_out_once_despite_repeated_crashes(story: Story) -> None:
    while story.clock.now() < story.ends:
        story.wait(TIMEOUT // 3)
        story.start(silent=True)
    # Asked after in time again and again, it is late now.
    story.start()
    story.wait(0)
    assert story.call().call_state is CallState.RETRY


def test_crash_during_the_probe_of_a_late_call_adds_no_time(
    story: Story,
) -> None:
    story.start(silent=True)
    story.wait(TIMEOUT)
    assert story.call().call_state is CallState.OVERDUE
    mute = story.start(silent=True)
    assert [getattr(question, "is_late", False) for question in mute.asked] == [True]
    story.start()
    assert story.call().call_state is CallState.RETRY


def test_probe_answer_after_the_timeout_causes_another_probe(
    story: Story,
) -> None:
    mute = story.start(silent=True)
    [question] = mute.asked
    story.wait(TIMEOUT)
    direct = DirectInquirer(story.driver)
    direct.ask(question, now=story.clock.now())
    answers = list(direct.answers())
    mute.answers = lambda: [answers.pop()] if answers else ()
    story.wait(0)
    assert story.call().call_state is CallState.OVERDUE
    assert [getattr(question, "is_late", False) for question in mute.asked][-1]


def test_clock_step_moves_the_timeout_of_a_probed_call(
    story: Story,
) -> None:
    mute = story.start(silent=True)
    story.clock.step(HOUR)
    story.read_clocks()
    assert story.call().due_at == story.ends + HOUR
    direct = DirectInquirer(story.driver)
    direct.ask(mute.asked[0], now=story.clock.now())
    mute.answers = direct.answers
    story.wait(0)
    call = story.call()
    assert (call.call_state, call.due_at) == (CallState.ISSUED, story.ends + HOUR)


def test_step_back_while_down_extends_a_call_by_one_timeout_at_most(
    story: Story,
) -> None:
    story.start(silent=True)
    story.clock.step(-24 * HOUR)
    story.start()
    assert story.call().due_at == story.clock.now() + TIMEOUT
