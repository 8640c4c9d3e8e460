"""VMs that do not run after the work of a campaign halt it above its limit."""

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import HaltCause
from forewarn.control.requests import campaign_changes, campaigns, failures
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.protocol.errors import BadRequestError
from forewarn.reporting.campaigns import campaign_report
from forewarn.store.memory import MemoryStore
from forewarn.wording import rollouts
from tests.support.campaigns import ONE_STAGE, announced, campaign, start, steer
from tests.support.counted import CountedStore
from tests.support.rollouts import name_of, world_of
from tests.support.worlds import World

TWO_DOWN = "[campaign.tolerance]\nvms_down = 2\n" + ONE_STAGE


def of(hosts: int) -> World:
    return world_of(
        [{f"s{number}": 0} for number in range(hosts)], driver=SimulatedDriver()
    )


def until_done(world: World, hosts: int) -> None:
    while campaign(world).done < hosts:
        world.advance("1m")


def lose(world: World, vm: int) -> None:
    world.order(lambda work: failures.fail_vm(work, f"s{vm}-{vm}"))
    world.settle()


def down(world: World) -> tuple[int, int | None]:
    """Return how many VMs are down after the work, and how many can be."""
    row = campaign(world)
    told = world.read(lambda reader: campaign_report(reader, row, now=world.now))
    return told["vms_down"], told["vms_down_max"]


@pytest.mark.parametrize("impact", ["freeze", "reboot", "live-migrate"])
def test_vms_that_go_down_after_the_work_halt_the_campaign(impact: str) -> None:
    world = of(8)
    start(world, TWO_DOWN, impact=impact)
    until_done(world, 4)
    lose(world, 7)
    assert down(world) == (0, 2), "the campaign has not worked on its host"
    lose(world, 0)
    lose(world, 1)
    assert (campaign(world).state, down(world)) == (CampaignState.RUNNING, (2, 2))
    world.order(lambda work: failures.restore_vm(work, "s0-0"))
    assert down(world) == (1, 2), "a VM that runs again no longer counts"
    lose(world, 2)
    lose(world, 3)
    row = campaign(world)
    assert row.halt is not None
    assert (row.halt.cause, row.halt.count) == (HaltCause.VMS_DOWN, 3)
    assert rollouts.halt(row.halt) == (
        "3 VMs are down after the work, and at most 2 can be; the last one was on host "
        f"{world.stored_vm('s3-3').host}"
    )
    world.advance("1d")
    assert announced(world) == []
    assert campaign(world).done < 8


def test_the_vms_of_a_host_that_crashes_after_its_work_count() -> None:
    world = of(4)
    start(world, TWO_DOWN, impact="freeze")
    until_done(world, 1)
    world.order(lambda work: failures.fail_host(work, name_of(0)))
    world.settle()
    assert down(world) == (1, 2)
    world.order(lambda work: failures.restore_host(work, name_of(0)))
    world.settle()
    assert down(world) == (0, 2)


def test_stages_before_the_last_one_tolerate_no_vm_that_is_down() -> None:
    world = of(4)
    start(
        world,
        "[campaign.tolerance]\nvms_down = 2\n"
        '[[campaign.stage]]\nhosts = 1\nsoak = "1h"\n',
    )
    until_done(world, 1)
    lose(world, 0)
    row = campaign(world)
    assert row.halt is not None
    assert (row.halt.cause, row.done) == (HaltCause.VMS_DOWN, 1)


def test_a_resumed_campaign_halts_at_the_next_loss_only() -> None:
    world = of(6)
    start(world, TWO_DOWN.replace("2", "0"))
    until_done(world, 2)
    lose(world, 0)
    assert campaign(world).state is CampaignState.HALTED
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    until_done(world, 3)
    lose(world, 1)
    assert campaign(world).state is CampaignState.HALTED
    steer(
        world,
        lambda work: campaign_changes.change(work, campaign(world), {"vms_down": "5"}),
    )
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    # The halt withdrew host 2, so host 3 was the third one.
    lose(world, 3)
    assert (campaign(world).state, down(world)) == (CampaignState.RUNNING, (3, 5))
    with pytest.raises(BadRequestError, match="vms_down: "):
        steer(
            world,
            lambda work: campaign_changes.change(
                work, campaign(world), {"vms_down": "all"}
            ),
        )


def test_without_a_limit_in_the_file_the_largest_host_is_the_limit() -> None:
    world = world_of([{f"s{number}": 0, "t": 0} for number in range(3)])
    start(world)
    assert campaign(world).tolerance.vms_down == 2


def test_a_loss_reads_neither_the_fleet_nor_the_campaign() -> None:
    costs: list[int] = []
    for hosts in (10, 60):
        store = CountedStore(MemoryStore())
        world = world_of(
            [{f"s{number}": 0} for number in range(hosts)],
            store=lambda store=store: store,
        )
        start(world, TWO_DOWN)
        until_done(world, 1)
        before = store.rows.total()
        lose(world, 0)
        costs.append(store.rows.total() - before)
        assert down(world) == (1, 2)
    assert costs[0] == costs[1]
