"""A service that is started with another kind of driver while calls are under way."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from forewarn.clock import VirtualClock
from forewarn.control.plane import Plane
from forewarn.control.requests import fleet_changes, outcome, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.work import Who, Work
from forewarn.drivers.port import Driver
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.file import read_fleet
from forewarn.ids import RandomIds
from forewarn.instants import MINUTE, Micros
from forewarn.protocol.actors import operator
from forewarn.protocol.operations import Action, CallState, Operation, OperationState
from forewarn.reporting import explanations
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from tests.support import planes
from tests.unit.admin.gateway import FLEET, START, LocalGateway, ObedientDriver

OPERATOR = Who(actor=operator("test"))


class Services:
    """One store, and a service on it with one driver after the other."""

    def __init__(self) -> None:
        self.clock = VirtualClock(START)
        self.store = MemoryStore()
        self.ids = RandomIds(7)
        self.simulated = SimulatedDriver(impacts={Action.REBOOT: 5 * MINUTE})
        self.other = ObedientDriver()
        self.start(self.simulated)
        wanted = read_fleet(FLEET, name="fleet.toml")
        self.order(lambda work: fleet_changes.apply(work, wanted))
        self.order(
            lambda work: verbs.maintain(work, ["h1"], Action.REBOOT, OrderOptions())
        )
        self.wait(16 * MINUTE)
        started = self.operation()
        assert started.state is OperationState.IMPACTING
        assert started.driver == "simulated"

    def start(self, driver: Driver) -> None:
        self.plane = Plane(
            store=self.store,
            driver=driver,
            policy=Policy(),
            ids=self.ids,
            listener=LocalGateway(""),
        )
        self.plane.start(now=self.clock.now())

    def order(self, decide: Callable[[Work], object]) -> None:
        self.plane.order(OPERATOR, decide, now=self.clock.now())

    def wait(self, duration: Micros) -> None:
        planes.wait(self.plane, self.clock, duration)

    def operation(self) -> Operation:
        [found] = self.store.read(lambda reader: reader.select(kinds.ALL_OPERATIONS))
        return found


@pytest.fixture
def services() -> Services:
    return Services()


def test_call_of_the_former_driver_is_not_rerun_by_the_new_one(
    services: Services,
) -> None:
    services.start(services.other)
    services.wait(60 * MINUTE)
    lost = services.operation()
    assert services.other.calls == []
    assert (lost.state, lost.call_state) == (
        OperationState.IMPACTING,
        CallState.UNKNOWN,
    )
    told = services.store.read(
        lambda reader: explanations.of_operation(reader, lost, now=services.clock.now())
    )
    assert told["blocked_by"] == [
        (
            "the driver cannot tell whether the call completed (the call was given to the "
            "simulated driver, and the service was started with the obedient one): "
            f"check the VMs, then run `forewarn resolve {lost.operation_id} done` or "
            "`failed`"
        )
    ]


def test_operator_can_resolve_a_call_of_another_driver(services: Services) -> None:
    services.start(services.other)
    name = services.operation().operation_id
    services.order(lambda work: outcome.resolve(work, name, done=True))
    assert services.operation().state is OperationState.RECOVERING
    services.wait(60 * MINUTE)
    assert services.operation().state is OperationState.DONE
    # What the former one says later is too late.
    services.start(services.simulated)
    services.wait(MINUTE)
    assert services.operation().state is OperationState.DONE


def test_former_driver_reports_the_end_of_its_call_after_it_returns(
    services: Services,
) -> None:
    services.start(services.other)
    assert services.operation().call_state is CallState.UNKNOWN
    services.start(services.simulated)
    services.wait(3 * MINUTE)
    assert services.operation().state is OperationState.IMPACTING
    services.wait(3 * MINUTE)
    assert services.operation().state is OperationState.RECOVERING


def test_later_operations_use_the_new_driver(services: Services) -> None:
    services.start(services.other)
    name = services.operation().operation_id
    services.order(lambda work: outcome.resolve(work, name, done=True))
    services.order(
        lambda work: verbs.maintain(work, ["h2"], Action.REBOOT, OrderOptions())
    )
    services.wait(60 * MINUTE)
    assert {call.host for call in services.other.calls} == {"h2"}
    operations = services.store.read(lambda reader: reader.select(kinds.ALL_OPERATIONS))
    assert {operation.host: operation.driver for operation in operations} == {
        "h1": "simulated",
        "h2": "obedient",
    }
    assert {operation.state for operation in operations} == {OperationState.DONE}


def test_call_without_a_stored_driver_kind_is_probed(services: Services) -> None:
    def forget(work: Work) -> None:
        operation = work.operation(services.operation().operation_id)
        work.save_operation(operation, replace(operation, driver=""))

    services.order(forget)
    services.start(services.other)
    # It says that it goes on.
    assert services.operation().call_state is CallState.ISSUED
