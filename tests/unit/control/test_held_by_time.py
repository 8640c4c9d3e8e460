"""What windows and blackouts hold, and until when: a part of `forewarn waits`."""

import pytest

from forewarn.control.requests import windows
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.window_fields import window_of
from forewarn.instants import HOUR, format_instant
from forewarn.protocol.operations import Action
from forewarn.reporting import held
from forewarn.reporting.held import Held, by_campaigns, by_scopes, held_report
from forewarn.store.memory import MemoryStore
from tests.support.campaigns import ONE_STAGE, start
from tests.support.rollouts import fleet, roll_out, world_of
from tests.support.worlds import World
from tests.unit.control.test_deferrals import defer

EXPECT = '[campaign.expect]\ntypical = "20m"\nslow = "30m"\n'

FREEZE = """
[[campaign.blackout]]
name = "freeze"
from = "2029-12-24T00:00"
until = "2030-01-02T06:00"
"""


def of(hosts: int) -> World:
    """Return a world of hosts, each with a VM of a scope of its own."""
    return world_of([{f"s{number}": 0} for number in range(hosts)])


def set_window(world: World, scope: str, line: str) -> None:
    world.order(lambda work: windows.set_windows(work, scope, (window_of(line),)))
    world.settle()


def scopes(world: World, **only: str) -> list[Held]:
    found, is_whole = world.read(lambda reader: by_scopes(reader, **only))
    assert is_whole
    return found


def campaigns(world: World) -> list[Held]:
    return world.read(lambda reader: by_campaigns(reader, now=world.now))


def test_nothing_is_held_while_windows_are_open() -> None:
    world = of(3)
    set_window(world, "s1", "00:00 24h")
    start(world, EXPECT + ONE_STAGE)
    assert scopes(world) == campaigns(world) == []


def test_window_of_a_scope_shows_its_hosts_and_next_opening() -> None:
    world = world_of([{"web": number, f"s{number}": 0} for number in range(3)])
    set_window(world, "web", "10:00 4h")
    set_window(world, "s2", "12:00 4h")
    roll_out(world, 3, action=Action.REBOOT)
    found = scopes(world)
    told = [held_report(hold) for hold in held.in_order(found)]
    web = told[0]
    assert (web["kind"], web["scope"], web["tenant"]) == (
        *("window closed", "web"),
        "shop",
    )
    assert web["until"] == "2030-01-01T10:00:00Z"
    assert web["text"] == (
        "the maintenance window of scope web opens at 2030-01-01T10:00:00Z"
    )
    # The third host waits for the window that opens last.
    assert sum(row["hosts"] for row in told) >= 3
    assert [scope.blocker.kind for scope in scopes(world, scope="web")] == [
        "window closed"
    ]
    assert scopes(world, tenant="bank") == scopes(world, scope="s0") == []


def test_host_that_its_tenant_deferred_is_held_until_then() -> None:
    world = of(2)
    roll_out(world, 2, action=Action.REBOOT)
    defer(world, "s1-1", 24 * HOUR)
    world.advance("6h")
    (hold,) = scopes(world)
    report = held_report(hold)
    assert (report["kind"], report["scope"], report["tenant"]) == (
        "deferred",
        "s1",
        "shop",
    )
    assert (report["hosts"], report["until"]) == (1, "2030-01-02T00:00:00Z")
    assert scopes(world, scope="s1") == scopes(world, tenant="shop") == [hold]
    assert scopes(world, scope="s0") == []
    world.advance("1d")
    assert scopes(world) == []


def test_approved_work_that_waits_for_its_window_is_counted() -> None:
    world = of(1)
    set_window(world, "s0", "00:10 4h")
    roll_out(world, 1, action=Action.REBOOT)
    assert scopes(world) == []
    set_window(world, "s0", "10:00 4h")
    world.advance("20m")
    (found,) = scopes(world)
    assert (found.hosts, format_instant(found.until)) == (1, "2030-01-01T10:00:00Z")


@pytest.mark.parametrize(
    ("table", "kind", "until"),
    [
        (
            '[[campaign.window]]\nstart = "10:00"\nlength = "2h"\n',
            "campaign window",
            "2030-01-01T09:45:00Z",
        ),
        (
            FREEZE,
            "blackout",
            "2030-01-02T06:00:00Z",
        ),
    ],
)
def test_campaign_shows_when_it_goes_on(table: str, kind: str, until: str) -> None:
    world = of(4)
    start(world, EXPECT + table + ONE_STAGE)
    (found,) = campaigns(world)
    told = held_report(found)
    assert (told["kind"], told["campaign"], told["until"]) == (kind, "bios", until)
    assert (told["hosts"], told["tenant"]) == (4, None)
    assert told["blackout"] == ("freeze" if kind == "blackout" else None)
    world.advance("3d")
    assert campaigns(world) == []


def test_many_held_hosts_are_not_all_read(monkeypatch: pytest.MonkeyPatch) -> None:
    world = of(4)
    for number in range(4):
        set_window(world, f"s{number}", "10:00 4h")
    roll_out(world, 4, action=Action.REBOOT)
    assert len(scopes(world)) == 4
    for limit in ("SCOPES_MAX", "OPERATIONS_MAX"):
        with monkeypatch.context() as patch:
            patch.setattr(held, limit, 2)
            found, is_whole = world.read(by_scopes)
            assert (len(found), is_whole) == (2, False)


def test_hold_without_an_end_is_last() -> None:
    world = World(
        store=MemoryStore, driver=SimulatedDriver(), fleet=fleet([{"s0": 0}, {"s1": 0}])
    )
    set_window(world, "s0", "10:00 4h")
    roll_out(world, 1, action=Action.REBOOT)
    (ends,) = scopes(world)
    never = Held(blocker=ends.blocker, hosts=1, until=0)
    assert held.in_order([never, ends]) == [ends, never]
    assert held_report(never)["until"] is None
