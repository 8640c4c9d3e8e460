"""A backup is put back while the driver's memory stays: nothing is stuck for it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.clock import VirtualClock
from forewarn.control.plane import Plane
from forewarn.control.requests import fleet_changes, outcome, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.work import Who, Work
from forewarn.drivers.journal import MemoryJournal
from forewarn.drivers.port import Call, CallVm
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.fleet.availability import Period
from forewarn.fleet.file import read_fleet
from forewarn.ids import RandomIds
from forewarn.instants import MINUTE, Micros
from forewarn.protocol.actors import operator
from forewarn.protocol.operations import Action, CallState, Operation, OperationState
from forewarn.reporting import explanations, uptime
from forewarn.store import kinds
from forewarn.store.backup import backup
from forewarn.store.check import check
from forewarn.store.sqlite import SqliteStore
from tests.support import planes
from tests.unit.admin.gateway import FLEET, START, LocalGateway


class Service:
    """A service whose store may be put back, before a hypervisor that goes on."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.journal = MemoryJournal()
        self.clock = VirtualClock(START)
        self._open(directory / "forewarn.db")
        wanted = read_fleet(FLEET, name="fleet.toml")
        self.order(lambda work: fleet_changes.apply(work, wanted))

    def _open(self, file: Path) -> None:
        self.file = file
        self.store = SqliteStore(file)
        self.driver = SimulatedDriver(journal=self.journal)
        self.plane = Plane(
            store=self.store,
            driver=self.driver,
            policy=Policy(retry_delay=MINUTE),
            ids=RandomIds(7),
            listener=LocalGateway(""),
        )
        self.plane.start(now=self.clock.now())

    def order(self, decide: Callable[[Work], object]) -> None:
        self.plane.order(Who(actor=operator("test")), decide, now=self.clock.now())

    def back_up(self) -> None:
        backup(self.file, self._directory / "b.db")

    def restore(self) -> None:
        """Put the backup in place, as docs/how-to/operate/back-up.md says."""
        self.store.close()
        self._open(self._directory / "b.db")

    def wait(self, duration: Micros) -> None:
        planes.wait(self.plane, self.clock, duration)

    def operation(self) -> Operation:
        [found] = self.store.read(lambda reader: reader.select(kinds.ALL_OPERATIONS))
        return found

    def down(self) -> float:
        asked = uptime.SpanSelection(period=Period(since=START, until=self.clock.now()))
        told = self.store.read(
            lambda reader: uptime.page(reader, asked, after="", limit=9)
        )
        return float(told["total"]["planned_seconds"])


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return Service(tmp_path)


def maintain(action: Action) -> Callable[[Work], object]:
    return lambda work: verbs.maintain(work, ["h1"], action, OrderOptions())


def test_operation_done_after_the_backup_completes_at_once(service: Service) -> None:
    service.order(maintain(Action.REBOOT))
    service.back_up()
    service.wait(40 * MINUTE)
    assert service.operation().state is OperationState.DONE
    service.restore()
    started = service.operation()
    assert started.state is OperationState.ANNOUNCED
    service.wait(1)
    # Its NotBefore was long ago; its call is not made a second time.
    assert service.operation().state is OperationState.RECOVERING
    assert service.down() == 0
    service.wait(11 * MINUTE)
    assert service.operation().state is OperationState.DONE
    assert check(service.file) == []


def test_each_sequential_move_is_reported_again(service: Service) -> None:
    service.order(maintain(Action.LIVE_MIGRATE))
    service.back_up()
    service.wait(40 * MINUTE)
    assert service.operation().generation == 2
    service.restore()
    service.wait(1)
    assert service.operation().state is OperationState.RECOVERING
    assert all(move.done for move in service.operation().moves)
    assert check(service.file) == []


def test_failed_attempt_and_its_success_are_reported_again(service: Service) -> None:
    service.order(maintain(Action.FREEZE))
    service.back_up()
    service.driver.inject(Fault(kind=FaultKind.FAIL, times=1, reason="busy"))
    service.wait(40 * MINUTE)
    assert service.operation().state is OperationState.DONE
    service.restore()
    service.wait(1)
    assert service.operation().call_state is CallState.RETRY
    service.wait(MINUTE)
    assert service.operation().state is OperationState.RECOVERING


def test_operator_resolves_a_call_that_the_driver_cannot_report(
    service: Service,
) -> None:
    service.order(maintain(Action.REBOOT))
    operation = service.operation()
    service.driver.begin(
        Call(
            operation_id=operation.operation_id,
            generation=5,
            action=Action.REBOOT,
            host="h1",
            vms=(CallVm(vm="web_0"),),
            duration_seconds=-1,
        ),
        now=START,
    )
    service.wait(16 * MINUTE)
    lost = service.operation()
    assert lost.call_state is CallState.UNKNOWN
    told = service.store.read(
        lambda reader: explanations.of_operation(reader, lost, now=service.clock.now())
    )
    assert told["blocked_by"] == [
        (
            "the driver cannot tell whether the call completed (the driver has recorded call 5 of "
            "this operation, but not the end of call 1): check the VMs, then run "
            f"`forewarn resolve {lost.operation_id} done` or `failed`"
        )
    ]
    service.order(lambda work: outcome.resolve(work, lost.operation_id, done=True))
    assert service.operation().state is OperationState.RECOVERING
