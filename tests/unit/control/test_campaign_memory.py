"""The clusters of a large campaign, which are brought up to date with each read."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.control.requests import campaigns
from forewarn.control.requests.verbs.campaign_hosts import add_hosts
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.protocol.operations import Action
from forewarn.reporting import campaign_memory, lanes
from forewarn.reporting.campaign_memory import CampaignMemory
from forewarn.reporting.campaign_states import HostState
from forewarn.reporting.lanes import Stretch
from forewarn.store.port import Reader
from tests.support.campaigns import campaign, start, steer
from tests.support.counted import Counted
from tests.support.worlds import World
from tests.unit.control.test_campaign_tree import (
    TWO_AT_ONCE,
    placed,
    tree,
    world_of,
)

Step = Callable[[World], Any]


def kept(world: World, memory: CampaignMemory) -> tuple[dict[str, Any], Counter[str]]:
    """Return what the memory says, and the rows that it read for it."""
    rows = Counter[str]()

    def read(reader: Reader) -> dict[str, Any]:
        known = Counted(reader, rows).reader
        return memory.tree(known, campaign(world), now=world.now)

    return world.read(read), rows


def check(world: World, memory: CampaignMemory) -> dict[str, Any]:
    """Return what the memory says, which is what reading all hosts says."""
    found, _ = kept(world, memory)
    whole = tree(world)
    left_out = sum(cluster["racks"] for cluster in whole["clusters"])
    assert found == {**whole, "racks": [], "racks_left_out": left_out}
    return found


def order(decide: Callable[..., Any]) -> Step:
    return lambda world: steer(world, decide)


def until_failed(world: World) -> None:
    while not campaign(world).failed:
        world.advance("1m")


STORY: list[Step] = [
    order(lambda work: campaigns.pause(work, "bios")),
    order(lambda work: campaigns.resume(work, "bios", by_all=False)),
    until_failed,
    order(lambda work: campaigns.retry(work, "bios", [])),
    order(lambda work: campaigns.skip(work, "bios", ["h0006"])),
    lambda world: world.apply_fleet(
        placed(9).replace('rack = "r1"\ncluster = "c0"', 'rack = "r7"\ncluster = "c7"')
    ),
    order(lambda work: add_hosts(work, "bios", ["h0008"], with_drift=False)),
    order(lambda work: campaigns.halt(work, "bios")),
    order(lambda work: campaigns.resume(work, "bios", by_all=False)),
    order(lambda work: campaigns.abort(work, "bios")),
]


def test_memory_says_what_reading_all_hosts_says_after_each_change() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s1-1", times=3))
    world = world_of(driver=driver)
    start(world, TWO_AT_ONCE)
    memory = CampaignMemory()
    seen = set[str]()
    for step in STORY:
        world.advance("2m")
        seen |= set(check(world, memory)["counts"])
        step(world)
        seen |= set(check(world, memory)["counts"])
    while not campaign(world).has_ended:
        world.advance("5m")
        check(world, memory)
    assert {"planned", "announced", "failed", "done", "skipped"} <= seen
    assert "c7" in {cluster["cluster"] for cluster in check(world, memory)["clusters"]}


def test_next_read_depends_on_what_changed_and_not_on_the_hosts() -> None:
    def rows(hosts: int) -> int:
        world = world_of(hosts)
        start(world, TWO_AT_ONCE)
        world.advance("1m")
        memory = CampaignMemory()
        _, first = kept(world, memory)
        assert first["operations_of_request"] > hosts
        world.advance("20m")
        _, read = kept(world, memory)
        assert kept(world, memory)[1].total() < 10
        return read.total()

    assert rows(8) == rows(40)


def test_all_hosts_are_read_again_after_very_many_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_of()
    start(world, TWO_AT_ONCE)
    memory = CampaignMemory()
    check(world, memory)
    monkeypatch.setattr(campaign_memory, "ENTRIES_MAX", 3)
    world.advance("25m")
    _, rows = kept(world, memory)
    assert rows["operations_of_request"]
    check(world, memory)


TIMES = st.integers(0, 50)


@given(
    st.lists(st.tuples(TIMES, st.integers(0, 20), st.booleans())),
    TIMES,
    st.integers(1, 60),
    st.integers(1, 7),
)
def test_busy_hosts_are_counted_the_same_from_sorted_instants(
    work: list[tuple[int, int, bool]], first: int, width: int, steps: int
) -> None:
    stretches = [
        Stretch(HostState.DONE, begins, 0 if goes_on else begins + length + 1)
        for begins, length, goes_on in work
    ]
    begins = sorted(stretch.begins for stretch in stretches)
    ends = sorted(stretch.ends for stretch in stretches if stretch.ends)
    last = first + width
    assert lanes.busy_between(begins, ends, first, last, steps=steps) == lanes.busy(
        stretches, first, last, steps=steps
    )
