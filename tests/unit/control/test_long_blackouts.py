"""A blackout of the service is a problem when hosts wait long for it."""

from collections.abc import Sequence

import pytest

from forewarn.control.requests import blackouts, brake, verbs, windows
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.work import Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.window_fields import window_of
from forewarn.instants import HOUR, SECOND, format_instant
from forewarn.protocol.operations import Action, OperationState
from forewarn.reporting import attention
from forewarn.reporting.held import by_campaigns
from forewarn.reporting.problem import Problem, ProblemKind
from forewarn.store.memory import MemoryStore
from tests.support.campaigns import (
    ONE_STAGE,
    campaign,
    in_work,
    start,
    waits_for,
)
from tests.support.rollouts import PLANNED, fleet, name_of, world_of
from tests.support.worlds import World

HOSTS = 4

AFTERNOONS = """
[campaign.expect]
typical = "20m"
slow = "30m"
[[campaign.window]]
start = "14:00"
length = "3h"
"""


def waiting_host(world: World) -> str:
    """Return the first host that is not announced."""
    planned = (
        operation for operation in world.operations() if operation.state is PLANNED
    )
    return min(planned, key=lambda operation: operation.position).host


@pytest.fixture
def it() -> World:
    return world_of([{f"s{number}": 0} for number in range(HOSTS)])


def moment(world: World, hours: float) -> str:
    at = world.now + round(hours * HOUR)
    return format_instant(at - at % SECOND).removesuffix("Z")


def put(world: World, begins: float, ends: float, *, name: str = "freeze") -> None:
    """Set a blackout of the fleet between two times in hours from now."""
    put_line(world, f"{moment(world, begins)} {moment(world, ends)}", name=name)


def put_line(
    world: World, line: str, *, name: str = "freeze", where: Sequence[str] = ()
) -> None:
    world.order(
        lambda work: blackouts.set_blackout(work, name, line, where),
        actor="alice",
        reason="change freeze",
    )
    world.settle()


def put_window(world: World, line: str) -> None:
    wanted = (window_of(line),)
    world.order(lambda work: windows.set_windows(work, "s0", wanted), actor="alice")
    world.settle()


def remove(world: World) -> None:
    def decide(work: Work) -> None:
        blackouts.remove(work, "freeze")

    world.order(decide, actor="alice", reason="it is over")
    world.settle()


def maintain(world: World, *hosts: int) -> None:
    names = [name_of(number) for number in hosts]
    world.order(
        lambda work: verbs.maintain(work, names, Action.REBOOT, OrderOptions()),
        actor="bob",
    )
    world.settle()


def found(world: World) -> list[Problem]:
    problems = world.read(lambda reader: attention.problems(reader, now=world.now))
    return [problem for problem in problems if problem.kind is ProblemKind.BLACKOUT]


def test_freeze_of_a_week_is_a_problem_while_hosts_wait_for_it(it: World) -> None:
    begins, ends = moment(it, -1), moment(it, 24 * 7)
    put(it, -1, 24 * 7)
    assert found(it) == []
    maintain(it, 0, 1, 2)
    [problem] = found(it)
    assert problem.text == (
        f"blackout freeze holds 3 hosts until {ends}Z, set by alice: change freeze"
    )
    assert format_instant(problem.since) == f"{begins}Z"
    assert (problem.name, problem.actions) == ("freeze", ("blackout remove",))
    # On its last day, nobody needs to be told.
    it.advance(f"{24 * 6 + 1}h")
    assert found(it) == []


def test_blackout_that_ends_today_is_no_problem(it: World) -> None:
    put(it, -1, 23)
    maintain(it, 0, 1, 2)
    assert found(it) == []


def test_host_waits_for_the_blackouts_that_follow_each_other(it: World) -> None:
    """Two short ones are a long one; the first is named, since removing it helps."""
    put(it, -1, 20, name="first")
    put(it, 19, 48, name="second")
    maintain(it, 0)
    [problem] = found(it)
    assert problem.name == "first"
    assert f"until {moment(it, 48)}Z" in problem.text


def test_campaign_that_waits_for_a_freeze_counts_its_hosts(it: World) -> None:
    put(it, -1, 24 * 7)
    start(it, ONE_STAGE)
    [problem] = found(it)
    assert f"freeze holds {HOSTS} hosts of campaign bios until" in problem.text
    assert problem.campaign == "bios"
    it.order(lambda work: blackouts.remove(work, "freeze"), actor="bob", reason="over")
    it.settle()
    assert found(it) == []


def test_blackout_in_all_windows_of_a_campaign_leaves_it_no_time(it: World) -> None:
    """It was set after the start: a plan would have been refused."""
    start(it, AFTERNOONS + ONE_STAGE)
    put_line(it, "mon,tue,wed,thu,fri,sat,sun 12:00 10h", name="day")
    for _ in range(2):
        # It is the reason before it begins, too.
        [problem] = found(it)
        assert problem.name == "day"
        assert f"holds {HOSTS} hosts of campaign bios and leaves" in problem.text
        assert waits_for(it) == "blackout day never ends for it"
        it.advance("13h")


def in_racks() -> World:
    """Return a world whose hosts stand in two racks by turns."""
    text = fleet([{f"s{number}": 0} for number in range(HOSTS)])
    for number in range(HOSTS):
        name = f'name = "{name_of(number)}"'
        text = text.replace(name, f'{name}\nrack = "r{number % 2}"')
    return World(store=MemoryStore, driver=SimulatedDriver(), fleet=text)


def test_freeze_of_a_rack_names_the_campaigns_that_it_holds() -> None:
    world = in_racks()
    put_line(world, f"{moment(world, -1)} {moment(world, 72)}", where=["rack=r0"])
    until = moment(world, 72)
    start(world, ONE_STAGE)
    assert waits_for(world) == "campaign bios: 1 of 1 hosts are in flight"
    world.advance("12h")
    # The hosts of the other rack are done, and nothing else is a reason.
    assert campaign(world).done == 2
    reason = f"blackout freeze forbids it until {until}Z"
    host = waiting_host(world)
    assert waits_for(world) == (
        f"no host of the stage can be announced now: host {host} waits: {reason}"
    )
    [problem] = found(world)
    assert "freeze holds 2 hosts of campaign bios until" in problem.text
    assert problem.campaign == "bios"
    world.order(
        lambda work: blackouts.remove(work, "freeze"), actor="bob", reason="over"
    )
    world.settle()
    world.advance("1h")
    assert campaign(world).done > 2


def test_brake_is_the_reason_of_a_campaign_that_could_announce_hosts(
    it: World,
) -> None:
    start(it, ONE_STAGE)
    it.order(brake.put_on, actor="bob", reason="network fault")
    it.advance("1h")
    assert waits_for(it) == (
        "the brake is on until `forewarn brake off`, by bob: network fault"
    )
    it.order(brake.take_off, actor="bob", reason="repaired")
    it.settle()
    assert len(in_work(it)) == 1


def test_freeze_of_a_rack_holds_its_hosts_alone() -> None:
    world = in_racks()
    put_line(world, f"{moment(world, -1)} {moment(world, 72)}", where=["rack=r0"])
    for number in range(HOSTS):
        maintain(world, number)
    [problem] = found(world)
    assert "freeze holds 2 hosts until" in problem.text


def test_short_blackout_is_not_blamed_for_the_window_after_it(it: World) -> None:
    put(it, -1, 2)
    weekly = AFTERNOONS.replace('start = "14:00"', 'start = "14:00"\ndays = ["sun"]')
    start(it, weekly + ONE_STAGE)
    assert found(it) == []
    held = it.read(lambda reader: by_campaigns(reader, now=it.now))
    assert [hold.blocker.kind for hold in held] == ["campaign window"]
    assert held[0].until > it.now + 24 * HOUR
    # One that covers the window as well is the reason, even if it begins later.
    put(it, 24, 24 * 7, name="sales")
    held = it.read(lambda reader: by_campaigns(reader, now=it.now))
    assert [getattr(hold.blocker, "blackout", "") for hold in held] == ["sales"]
    assert [problem.name for problem in found(it)] == ["sales"]


def test_waiting_host_that_waits_for_a_window_and_a_blackout_is_woken_by_both() -> None:
    world = in_racks()
    put_line(world, f"{moment(world, -1)} {moment(world, 24 * 5)}", where=["rack=r0"])
    put_window(world, "23:00 1h")
    maintain(world, 0)
    assert world.operations()[0].state is OperationState.PLANNED
    remove(world)
    world.advance("23h")
    assert world.operations()[0].started_at == world.now
