"""Why a VM is down: an operator or the driver said so."""

from forewarn.control.requests import failures, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.policy import Policy
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.protocol.operations import Action
from forewarn.reporting import failure_causes
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from tests.support.rollouts import fleet, name_of, world_of
from tests.support.worlds import World


def causes(world: World) -> list[str]:
    """Return the causes of the failures that last."""
    return world.read(
        lambda reader: [
            failure_causes.cause(reader, operation)
            for operation in reader.select(kinds.OPERATIONS_IN_STATE, "Impacting")
        ]
    )


def test_failed_call_that_left_a_vm_down_has_the_words_of_the_driver() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, reason="no power", leaves_down=True))
    world = World(
        store=MemoryStore,
        driver=driver,
        fleet=fleet([{"web": 0}]),
        policy=Policy(driver_attempts=1),
    )
    world.order(
        lambda work: verbs.maintain(work, [name_of(0)], Action.REBOOT, OrderOptions())
    )
    world.advance("1h")
    assert causes(world) == ["the driver failed once: no power"]


def test_failure_without_a_reason_has_no_cause() -> None:
    world = world_of([{"web": 0}])
    world.order(lambda work: failures.fail_host(work, name_of(0)))
    assert causes(world) == [""]
