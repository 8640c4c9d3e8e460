"""Driver calls wait until all replicas serve the documents of their commit."""

from itertools import count

import pytest

from forewarn.clock import VirtualClock
from forewarn.control.call_gate import HeldCalls
from forewarn.control.execution import release
from forewarn.control.plane import Plane
from forewarn.control.requests import failures, fleet_changes, outcome, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.work import Who, Work
from forewarn.drivers.journal import MemoryJournal
from forewarn.drivers.port import Call, DriverError
from forewarn.drivers.simulated import Fault, FaultKind, SimulatedDriver
from forewarn.fleet.file import read_fleet
from forewarn.ids import RandomIds
from forewarn.instants import MINUTE, Micros
from forewarn.protocol.actors import operator
from forewarn.protocol.events import EventStatus
from forewarn.protocol.operations import Action, CallState, Operation
from forewarn.protocol.published import Publication
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import every
from tests.support import planes
from tests.unit.admin.gateway import START, LocalGateway

FLEET = """\
[[tenant]]
name = "shop"

[[host]]
name = "h1"

[[host]]
name = "h2"

[[vm]]
name = "web"
tenant = "shop"
host = "h1"

[[vm]]
name = "db"
tenant = "shop"
host = "h2"
"""


class Gate:
    """A gate that the test opens up to a place."""

    def __init__(self, *, is_shared: bool = True) -> None:
        self.is_shared = is_shared
        self.commits = 0
        self.open_to = 0

    def place(self) -> int:
        self.commits += 1
        return self.commits

    def is_open(self, place: int) -> bool:
        return place <= self.open_to

    def may_act(self) -> bool:
        raise AssertionError("a simulated driver starts its calls at once")


class Log(SimulatedDriver):
    """Writes down which calls were made, over all services."""

    made: list[tuple[str, int]]
    paused_at: Call | None = None
    """The call that its process is about to make, and does not; None: it is not paused."""
    pauses = False

    def begin(self, call: Call, *, now: Micros) -> None:
        if self.pauses:
            self.paused_at = call
            return
        self.made.append(call.name)
        super().begin(call, now=now)


class Listener(LocalGateway):
    """Counts the documents with a started event."""

    started = 0

    def publish(self, publication: Publication) -> None:
        self.started += sum(
            event.status is EventStatus.STARTED
            for view in publication.views
            for event in view.events
        )
        super().publish(publication)


class Service:
    """A plane with a gate, which can be killed."""

    def __init__(self) -> None:
        self.store, self.journal = MemoryStore(), MemoryJournal()
        self.marks, self.is_shared = MemoryJournal(), True
        self.clock = VirtualClock(START)
        self.seeds = count(7)
        self.made: list[tuple[str, int]] = []
        self.start()
        wanted = read_fleet(FLEET, name="fleet.toml")
        self.plane.order(
            Who(actor=operator("test")),
            lambda work: fleet_changes.apply(work, wanted),
            now=START,
        )
        for vm in ("web", "db"):
            self.plane.enable(vm, now=START)

    def start(self) -> None:
        self.gate, self.listener = Gate(is_shared=self.is_shared), Listener("")
        self.driver = driver = Log(journal=self.journal, marks=self.marks)
        driver.made = self.made
        self.plane = Plane(
            store=self.store,
            driver=driver,
            policy=Policy(retry_delay=MINUTE, driver_timeout=10 * MINUTE),
            # No service has the IDs of another one.
            ids=RandomIds(next(self.seeds)),
            listener=self.listener,
            gate=self.gate,
        )
        self.plane.start(now=self.clock.now())

    def freeze(self, *hosts: str) -> None:
        for host in hosts:
            self.plane.order(
                Who(actor=operator("test")),
                lambda work, host=host: verbs.maintain(
                    work, [host], Action.FREEZE, OrderOptions()
                ),
                now=self.clock.now(),
            )
        self.wait(16 * MINUTE)

    def open(self, place: int) -> None:
        """Let the calls up to a place begin, and tell the plane, as the runner is told."""
        self.gate.open_to = place
        self.plane.advance(now=self.clock.now())

    def wait(self, duration: Micros) -> None:
        planes.wait(self.plane, self.clock, duration)

    def operations(self) -> list[Operation]:
        return self.store.read(lambda reader: reader.select(kinds.ALL_OPERATIONS))


@pytest.fixture
def service() -> Service:
    return Service()


def test_call_waits_for_its_documents_and_begins_when_the_gate_opens(
    service: Service,
) -> None:
    service.freeze("h1")
    [operation] = service.operations()
    assert operation.call_state is CallState.ISSUED
    assert service.listener.started > 0
    assert service.made == []
    service.open(service.gate.commits)
    assert service.made == [(operation.operation_id, 1)]


def test_later_calls_do_not_overtake_one_that_waits(service: Service) -> None:
    service.freeze("h1", "h2")
    service.open(1)
    assert len(service.made) == 1
    service.open(2)
    assert len(service.made) == len(set(service.made)) == 2


def test_call_that_timed_out_while_it_waited_is_made_again_and_not_twice(
    service: Service,
) -> None:
    service.freeze("h1")
    service.wait(10 * MINUTE)
    [operation] = service.operations()
    assert service.made == []
    assert operation.generation > 1
    service.open(service.gate.commits)
    assert service.made == [(operation.operation_id, operation.generation)]


def test_killed_while_a_call_waits_the_next_start_makes_it_once(
    service: Service,
) -> None:
    service.freeze("h1")
    service.start()
    assert service.made == []
    service.open(1)
    [operation] = service.operations()
    assert service.made == [(operation.operation_id, 1)]


@pytest.mark.parametrize("is_shared", [True, False])
def test_call_that_another_replica_may_still_make_is_not_made_here(
    service: Service, is_shared: bool
) -> None:
    """Its process can be paused before the call. A service alone is the only one."""
    service.driver.inject(Fault(kind=FaultKind.FAIL, action=Action.FREEZE))
    service.freeze("h1")
    service.open(1)
    service.wait(3 * MINUTE)
    [operation] = service.operations()
    first, second = ((operation.operation_id, number) for number in (1, 2))
    assert (operation.generation, operation.call_state) == (2, CallState.ISSUED)
    assert service.made == [first]
    # Another machine leads. The mark of the VM names the first call.
    service.journal, service.is_shared = MemoryJournal(), is_shared
    service.start()
    service.open(service.gate.commits)
    [operation] = service.operations()
    assert service.made == ([first] if is_shared else [first, second])
    is_unknown = operation.call_state is CallState.UNKNOWN
    assert is_unknown is is_shared


def test_call_of_a_leader_that_was_paused_changes_nothing_after_a_newer_call(
    service: Service,
) -> None:
    """Its process passes the gate, and is paused until the next leader has made a call."""
    service.driver.pauses = True
    service.freeze("h1")
    service.open(service.gate.commits)
    late, journal = service.driver.paused_at, service.journal
    assert late is not None
    # Another machine leads. An operator says that the call was not made.
    service.journal = MemoryJournal()
    service.start()
    service.open(99)
    service.plane.order(
        Who(actor=operator("test")),
        lambda work: outcome.resolve(work, late.operation_id, done=False),
        now=service.clock.now(),
    )
    service.freeze("h1")
    [newer] = service.made
    assert newer != late.name
    # The first machine continues. It sees the marks as they are now.
    former = SimulatedDriver(journal=journal, marks=service.marks)
    with pytest.raises(DriverError, match=f"{newer[0]}.{newer[1]}.freeze meanwhile"):
        former.begin(late, now=service.clock.now())
    former.close()


def test_calls_of_a_service_alone_have_no_term(service: Service) -> None:
    service.is_shared = False
    service.start()
    service.driver.pauses = True
    service.freeze("h1")
    service.open(service.gate.commits)
    call = service.driver.paused_at
    assert call is not None
    assert (call.term, call.store) == (0, "")


def test_call_that_ends_in_the_transaction_that_starts_it_is_never_made(
    service: Service,
) -> None:
    who = Who(actor=operator("test"))
    service.gate.open_to = 99
    service.plane.order(
        who,
        lambda work: verbs.maintain(work, ["h1"], Action.FREEZE, OrderOptions()),
        now=START,
    )

    def start_and_fail(work: Work) -> None:
        [operation] = every(work.tx, kinds.OPEN_OPERATIONS_OF_HOST, "h1")
        release.start_if_ready(work, operation.operation_id)
        assert work.operation(operation.operation_id).call_state is CallState.ISSUED
        failures.fail_host(work, "h1")

    service.plane.order(who, start_and_fail, now=START + 16 * MINUTE)
    assert service.made == []


def test_dropped_call_is_never_ready() -> None:
    gate = Gate()
    held = HeldCalls(gate)
    first, second = (
        Call(
            operation_id=name,
            generation=1,
            action=Action.FREEZE,
            host="h1",
            vms=(),
            duration_seconds=5,
        )
        for name in ("op-1", "op-2")
    )
    held.add(first)
    held.add(second)
    held.drop("op-1", 2)
    assert len(held) == 2
    held.drop("op-1", 1)
    assert not held.has_ready()
    gate.open_to = 2
    assert list(held.ready()) == [second]
    assert len(held) == 0
