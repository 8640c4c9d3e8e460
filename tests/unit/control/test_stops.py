"""A driver that hangs when a call is to be stopped, and the thread that decides."""

import threading
from collections.abc import Callable, Iterator

import pytest

from forewarn.clock import VirtualClock
from forewarn.control.plane import Plane
from forewarn.control.requests import failures, fleet_changes, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.work import Who, Work
from forewarn.fleet.file import read_fleet
from forewarn.ids import RandomIds
from forewarn.instants import HOUR, MINUTE, SECOND, Micros
from forewarn.protocol.actors import operator
from forewarn.protocol.blockers import CallEnd, Trouble
from forewarn.protocol.operations import Action, CallState, Operation, OperationState
from forewarn.service import limits
from forewarn.service.inquirer import ThreadedInquirer
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.wording import operators
from tests.support.processes import PATIENCE_SECONDS, eventually
from tests.unit.admin.gateway import FLEET, START, LocalGateway, ObedientDriver


class HangingDriver(ObedientDriver):
    """Takes calls, never ends them, and hangs when one is to be stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.is_silent = True
        self.may_go_on = threading.Event()
        self.stops: list[tuple[str, int]] = []
        self.is_stopped = True

    def abort(self, operation_id: str, generation: int, *, now: Micros) -> bool:
        assert threading.current_thread() is not threading.main_thread(), (
            "the thread that decides waits for the driver"
        )
        self.stops.append((operation_id, generation))
        self.may_go_on.wait(PATIENCE_SECONDS)
        return self.is_stopped


class Story:
    """A reboot of h1 that is under way, at a driver that never ends it."""

    def __init__(self) -> None:
        self.clock = VirtualClock(START)
        self.store = MemoryStore()
        self.driver = HangingDriver()
        self.inquirer = ThreadedInquirer(self.driver, clock=self.clock)
        self.plane = Plane(
            store=self.store,
            driver=self.driver,
            policy=Policy(),
            ids=RandomIds(7),
            listener=LocalGateway(""),
            inquirer=self.inquirer,
        )
        self.plane.start(now=START)
        wanted = read_fleet(FLEET, name="fleet.toml")
        self.order(lambda work: fleet_changes.apply(work, wanted))
        self.order(
            lambda work: verbs.maintain(work, ["h1"], Action.REBOOT, OrderOptions())
        )
        self.wait(16 * MINUTE)
        assert self.operation().state is OperationState.IMPACTING

    def order(self, decide: Callable[[Work], object]) -> None:
        self.plane.order(Who(actor=operator("test")), decide, now=self.clock.now())

    def wait(self, duration: Micros) -> None:
        self.clock.advance_to(self.clock.now() + duration)
        while self.plane.advance(now=self.clock.now()):
            pass

    def operation(self) -> Operation:
        operations = self.store.read(lambda reader: reader.select(kinds.ALL_OPERATIONS))
        (reboot,) = (
            operation for operation in operations if operation.action is Action.REBOOT
        )
        return reboot

    def becomes(self, state: CallState) -> Operation:
        def look() -> Operation:
            self.wait(0)
            return self.operation()

        return eventually(look, lambda found: found.call_state is state)

    def time_out(self) -> None:
        """Let the call's time pass, and the driver say that it is still running."""
        self.wait(self.plane.policy.driver_timeout)
        self.becomes(CallState.OVERDUE)
        self.stop_is_asked()

    def stop_is_asked(self) -> None:
        def look() -> list[tuple[str, int]]:
            self.wait(0)
            return self.driver.stops

        assert eventually(look, bool) == [(self.operation().operation_id, 1)]


@pytest.fixture
def story() -> Iterator[Story]:
    begun = Story()
    yield begun
    begun.driver.may_go_on.set()


def test_failure_is_recorded_while_the_stop_of_a_call_hangs(story: Story) -> None:
    story.order(lambda work: failures.fail_host(work, "h1"))
    assert story.operation().state is OperationState.FAILED
    story.stop_is_asked()
    # Everything goes on meanwhile, and the answer changes nothing.
    story.order(lambda work: failures.restore_host(work, "h1"))
    story.driver.may_go_on.set()
    eventually(lambda: story.inquirer.waiting, lambda waiting: waiting == 0)
    story.wait(HOUR)
    assert story.operation().state is OperationState.FAILED


def test_timed_out_call_is_retried_after_it_was_stopped(story: Story) -> None:
    story.time_out()
    story.driver.may_go_on.set()
    assert story.becomes(CallState.RETRY).note == CallEnd(trouble=Trouble.STOPPED)


def test_timed_out_call_that_keeps_running_needs_an_operator(story: Story) -> None:
    story.driver.is_stopped = False
    story.time_out()
    story.driver.may_go_on.set()
    note = story.becomes(CallState.UNKNOWN).note
    assert note == CallEnd(trouble=Trouble.NOT_STOPPED)


def test_stop_without_an_answer_leaves_the_call_to_an_operator(story: Story) -> None:
    story.time_out()
    story.wait(round((limits.INQUIRY_SECONDS + 1) * SECOND))
    note = story.becomes(CallState.UNKNOWN).note
    assert note == CallEnd(
        trouble=Trouble.NOT_STOPPED, said="the driver did not answer within 20 s"
    )
    assert operators.note(note) == (
        "the call timed out; the driver did not answer within 20 s"
    )
