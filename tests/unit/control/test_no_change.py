"""Orders that change nothing write nothing: a client can repeat them as often as it likes."""

from collections.abc import Callable

import pytest

from forewarn.control.requests import blackouts, windows
from forewarn.control.transactions.work import Work
from forewarn.fleet.window_fields import window_of
from forewarn.instants import DAY, HOUR, MINUTE
from forewarn.protocol.operations import OperationState
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import AuditKind
from tests.support.campaigns import campaign, start
from tests.support.worlds import World
from tests.unit.control.test_campaign_blackouts import change, of
from tests.unit.control.test_deferrals import (
    defer,
    expedite,
    maintain,
    on,
    order,
    world,
)

__all__ = ["world"]


def entries(world: World) -> list[AuditKind]:
    """Return the kinds of all history entries."""
    found = world.read(lambda reader: list(every(reader, kinds.ALL_AUDIT)))
    return [entry.kind for entry in found]


def check_once(world: World, act: Callable[[World], object]) -> None:
    """Check that an act writes history, and nothing at all when it is repeated."""
    before = entries(world)
    act(world)
    after = entries(world)
    assert len(after) > len(before)
    revisions = [operation.revision for operation in world.operations()]
    act(world)
    assert entries(world) == after
    assert [operation.revision for operation in world.operations()] == revisions


def night(world: World) -> None:
    wanted = (window_of("22:00 4h"),)
    order(world, lambda work: windows.set_windows(work, "web", wanted), "shop")


def test_same_windows_are_not_set_again(world: World) -> None:
    maintain(world, "h0")
    check_once(world, night)


def test_same_blackout_is_not_set_again(world: World) -> None:
    def forbid(time: str) -> Callable[[World], object]:
        def decide(work: Work) -> object:
            return blackouts.set_blackout(work, "week", time)

        return lambda world: order(world, decide, "shop", reason="week of the sales")

    check_once(world, forbid("mon 09:00 8h"))
    check_once(world, forbid("tue 09:00 8h"))


def test_vm_is_expedited_once(world: World) -> None:
    maintain(world, "h0", not_before=4 * HOUR)
    check_once(world, lambda world: expedite(world, "web_0"))
    maintain(world, "h1", "h2")
    check_once(world, lambda world: expedite(world, "web_2"))
    defer(world, "web_2")
    check_once(world, lambda world: expedite(world, "web_2"))


def test_vm_is_expedited_again_after_its_scope_was_deferred(world: World) -> None:
    maintain(world, "h0", "h1", not_before=4 * HOUR)
    expedite(world, "web_0")
    world.advance(MINUTE)
    defer(world, "web")
    check_once(world, lambda world: expedite(world, "web_0"))


def test_same_deferral_counts_once(world: World) -> None:
    maintain(world, "h0", not_before=4 * HOUR)
    until = world.now + 2 * DAY
    for ahead in (2 * DAY, 2 * DAY, 3 * DAY, 3 * DAY):
        defer(world, "web_0", ahead)
    assert on(world, "h0").state is OperationState.PLANNED
    world.advance(until - world.now)
    assert on(world, "h0").state is OperationState.PLANNED


def test_repeated_deferral_of_an_announced_host_withdraws_it_once(world: World) -> None:
    maintain(world, "h0", not_before=4 * HOUR)
    check_once(world, lambda world: defer(world, "web_0", 2 * DAY))
    until = world.now + 2 * DAY
    world.advance(2 * DAY - 10 * MINUTE)
    assert on(world, "h0").state is OperationState.ANNOUNCED
    defer(world, "web_0", until - world.now)
    assert on(world, "h0").state is OperationState.ANNOUNCED


@pytest.mark.parametrize("values", [{"in_flight": "3"}, {"blackout": "x mon 09:00 8h"}])
def test_same_terms_of_a_campaign_are_not_set_again(values: dict[str, str]) -> None:
    it = of(3)
    start(it)
    change(it, **values)
    after = entries(it)
    revision = campaign(it).revision
    change(it, **values)
    assert entries(it) == after
    assert campaign(it).revision == revision
