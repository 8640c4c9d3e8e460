"""A host of a campaign that is passed over gets its turn, whatever the others do."""

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.control.requests.rollouts import PATIENCE
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import DAY, HOUR
from forewarn.protocol.operations import Operation, OperationState
from forewarn.store.memory import MemoryStore
from tests.support.campaigns import ONE_STAGE, campaign, start
from tests.support.rollouts import fleet, name_of
from tests.support.worlds import World

HOSTS = 240
OTHER = 5
"""Number of the only host with the other fault domain of the shared scope."""

BUDGET = "[campaign.budget]\nin_flight = 6\n" + ONE_STAGE

CLOSED = """
[[scope]]
name = "bank"
tenant = "shop"
kind = "availability-set"
maintenance_window = { days = ["sun"], start = "02:00", length = "8h", timezone = "UTC" }
[[vm]]
name = "bank_0"
host = "h0000"
scope = "bank"
fault_domain = 0
"""
"""A VM of the first host, whose window is closed for days."""


def of() -> World:
    """Return hosts that share a scope; all but one have the same fault domain of it."""
    hosts = [{"db": 1 if number == OTHER else 0} for number in range(HOSTS)]
    hosts[0] = {}
    return World(
        store=MemoryStore, driver=SimulatedDriver(), fleet=fleet(hosts) + CLOSED
    )


def of_host(world: World, number: int) -> Operation:
    (found,) = [
        operation
        for operation in world.operations()
        if operation.host == name_of(number)
    ]
    return found


def test_a_passed_over_host_reserves_its_scope_though_the_first_host_is_held() -> None:
    world = of()
    start(world, BUDGET)
    while not of_host(world, OTHER).held_by:
        world.advance("1m")
    since = world.now
    while not of_host(world, OTHER).started_at:
        world.advance("5m")
        assert world.now < since + PATIENCE + HOUR, "it is passed over indefinitely"
    row = campaign(world)
    assert row.done < HOSTS // 10, "it did not wait until all others were done"
    assert of_host(world, 0).state is OperationState.PLANNED
    while campaign(world).state is not CampaignState.DONE:
        world.advance("2h")
        assert world.now < since + 10 * DAY
    assert campaign(world).done == HOSTS
