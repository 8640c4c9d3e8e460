"""The service is killed and its driver's memory lost; the VMs keep marks of the calls."""

from collections.abc import Callable

import pytest

from forewarn.clock import VirtualClock
from forewarn.control.plane import Plane
from forewarn.control.requests import fleet_changes, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.work import Who, Work
from forewarn.drivers.journal import MemoryJournal
from forewarn.drivers.port import Call
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.fleet.file import read_fleet
from forewarn.ids import RandomIds
from forewarn.instants import MINUTE, SECOND, Micros
from forewarn.protocol.actors import operator
from forewarn.protocol.operations import Action, CallState, Operation, OperationState
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from tests.support import planes
from tests.unit.admin.gateway import FLEET, START, LocalGateway


class CountingDriver(SimulatedDriver):
    """Counts the calls that are made, over all processes."""

    def __init__(self, *, journal: MemoryJournal, marks: MemoryJournal | None) -> None:
        self.begun: list[tuple[str, int]] = []
        super().__init__(journal=journal, marks=marks)

    def begin(self, call: Call, *, now: Micros) -> None:
        self.begun.append(call.name)
        super().begin(call, now=now)


class Service:
    """A service whose driver can lose its memory, before VMs that keep theirs."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.journal = MemoryJournal()
        self.marks: MemoryJournal | None = MemoryJournal()
        self.clock = VirtualClock(START)
        self.start()
        wanted = read_fleet(FLEET, name="fleet.toml")
        self.order(lambda work: fleet_changes.apply(work, wanted))

    def start(self) -> None:
        self.driver = CountingDriver(journal=self.journal, marks=self.marks)
        self.plane = Plane(
            store=self.store,
            driver=self.driver,
            policy=Policy(retry_delay=MINUTE),
            ids=RandomIds(7),
            listener=LocalGateway(""),
        )
        self.plane.start(now=self.clock.now())

    def lose_memory(self) -> None:
        """Kill the service, and start it with an empty memory of its driver."""
        self.journal = MemoryJournal()
        self.start()
        self.wait(SECOND)

    def order(self, decide: Callable[[Work], object]) -> None:
        self.plane.order(Who(actor=operator("test")), decide, now=self.clock.now())

    def reboot(self, fault: FaultKind | None = None) -> None:
        """Reboot h1, and stop while its call runs."""
        if fault is not None:
            self.driver.inject(Fault(kind=fault))
        self.order(
            lambda work: verbs.maintain(work, ["h1"], Action.REBOOT, OrderOptions())
        )
        for _ in range(100):
            if self.operation().call_state is CallState.ISSUED:
                break
            self.wait(10 * SECOND)
        assert self.operation().call_state is CallState.ISSUED

    def wait(self, duration: Micros) -> None:
        planes.wait(self.plane, self.clock, duration)

    def operation(self) -> Operation:
        [found] = self.store.read(lambda reader: reader.select(kinds.ALL_OPERATIONS))
        return found


@pytest.fixture
def service() -> Service:
    return Service()


def test_running_reboot_completes_although_the_memory_of_its_call_is_lost(
    service: Service,
) -> None:
    service.reboot()
    service.lose_memory()
    assert service.operation().call_state is CallState.ISSUED
    service.wait(15 * MINUTE)
    assert service.operation().state is OperationState.DONE
    assert service.operation().generation == 1
    assert service.driver.begun == []


def test_reboot_that_ended_meanwhile_completes_too(service: Service) -> None:
    service.reboot()
    service.clock.advance_to(service.clock.now() + 5 * MINUTE)
    service.lose_memory()
    service.wait(15 * MINUTE)
    assert service.operation().state is OperationState.DONE
    assert service.driver.begun == []


def test_failed_reboot_is_tried_again_and_not_taken_for_a_success(
    service: Service,
) -> None:
    service.reboot(FaultKind.FAIL)
    service.clock.advance_to(service.clock.now() + 5 * MINUTE)
    service.lose_memory()
    assert service.operation().call_state is CallState.RETRY
    service.wait(20 * MINUTE)
    assert service.operation().state is OperationState.DONE
    assert [generation for _, generation in service.driver.begun] == [2]


@pytest.mark.parametrize(
    "fault", [FaultKind.MARK_LOST, FaultKind.MARK_ONLY, FaultKind.MARK_UNREADABLE]
)
def test_reboot_whose_marks_do_not_tell_waits_for_an_operator(
    service: Service, fault: FaultKind
) -> None:
    service.reboot(fault)
    service.lose_memory()
    service.wait(20 * MINUTE)
    assert service.operation().call_state is CallState.UNKNOWN
    assert service.driver.begun == []


def test_without_marks_a_lost_memory_leaves_the_outcome_unknown(
    service: Service,
) -> None:
    service.marks = None
    service.start()
    service.reboot()
    service.lose_memory()
    service.wait(20 * MINUTE)
    assert service.operation().call_state is CallState.UNKNOWN


def test_memory_that_is_lost_again_and_again_makes_no_call_twice(
    service: Service,
) -> None:
    service.reboot()
    for _ in range(3):
        service.lose_memory()
    service.wait(15 * MINUTE)
    assert service.operation().state is OperationState.DONE
    assert service.driver.begun == []
