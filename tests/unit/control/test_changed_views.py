"""Views that split, join and change kind under live events (2.10, 3.2, 7.2)."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.publishing import snapshot_of
from forewarn.instants import MINUTE
from forewarn.protocol.published import ViewSnapshot
from forewarn.protocol.views import View
from tests.spec.support import (
    approve_all,
    fleet,
    maintain,
    make_world,
    only_event,
    reboot,
    seen,
)
from tests.support.worlds import LastingStore, World

SET = {"tenant": "shop", "kind": "scale-set"}
GPU = {**SET, "gpu": True}
VMS = ("web_0", "web_1", "web_2")


def text(
    *,
    zones: Sequence[str] = ("", "", ""),
    web: Mapping[str, object] = SET,
    domains: Sequence[int] = (0, 0, 0),
    moved: str = "",
) -> str:
    """Return a fleet of one scale set over three hosts, and another scope."""
    return fleet(
        hosts=["h0", "h1", "h2"],
        zones=zones,
        scopes={"web": web, "other": {"tenant": "shop", "kind": "availability-set"}},
        vms={
            **{
                name: {
                    "host": f"h{n}",
                    "scope": "other" if name == moved else "web",
                    "fault_domain": domains[n],
                }
                for n, name in enumerate(VMS)
            },
            "other_0": {"host": "h0", "scope": "other"},
        },
    )


def snapshot(world: World, view_id: str) -> ViewSnapshot:
    """Return a view as endpoints get it."""
    view = world.read(lambda reader: reader.get(View, view_id))
    assert view is not None
    return snapshot_of(view, ())


def busy_world(**said: Any) -> World:
    """Return a world in which each VM has listened to some events."""
    world = make_world(text(**said), listening=VMS)
    for _ in range(3):
        reboot(world, "web_0")
        approve_all(world, "web_0")
        world.advance("1h")
    return world


def incarnations(world: World) -> dict[str, int]:
    return {name: world.vm(name).get().incarnation for name in VMS}


@pytest.mark.clause("2.10", "7.2", "7.4")
def test_zone_change_keeps_enablement_and_incarnation() -> None:
    world = busy_world()
    before = incarnations(world)
    assert before["web_0"] > 5
    world.apply_fleet(text(zones=("1", "2", "2")))
    # Before the next GET: somebody listens, so that nothing starts at once.
    reboot(world, "web_0")
    assert seen(world, "web_0")[0][0] == "Scheduled"
    after = incarnations(world)
    assert all(after[name] > before[name] for name in VMS), (before, after)


@pytest.mark.clause("2.10")
def test_change_with_equal_content_keeps_the_incarnation() -> None:
    world = busy_world()
    before = {name: world.vm(name).get() for name in VMS}
    world.apply_fleet(text(zones=("1", "1", "1")))
    for name in VMS:
        assert world.vm(name).get().body == before[name].body


@pytest.mark.clause("2.10", "7.2")
@pytest.mark.parametrize("kind", ["availability-set", "cloud-service"])
def test_change_of_kind_joins_views_at_the_highest_incarnation(kind: str) -> None:
    world = make_world(text(zones=("1", "2", "3")), listening=["web_0"])
    for _ in range(3):
        reboot(world, "web_0")
        approve_all(world, "web_0")
        world.advance("1h")
    before = incarnations(world)
    assert before["web_0"] > before["web_1"] == 1
    world.apply_fleet(text(zones=("1", "2", "3"), web={**SET, "kind": kind}))
    after = incarnations(world)
    assert len(set(after.values())) == 1
    assert after["web_0"] >= max(before.values())


@pytest.mark.clause("7.2", "7.4")
def test_enabled_view_stays_enabled_when_it_joins_a_disabled_one() -> None:
    world = make_world(text(zones=("1", "2", "2")), listening=["web_0"])
    world.apply_fleet(text(zones=("2", "2", "2")))
    reboot(world, "web_0", "web_1")
    assert [status for status, _, _ in seen(world, "web_0")] == ["Scheduled"] * 2


@pytest.mark.clause("7.2", "7.4")
def test_disabled_views_stay_disabled() -> None:
    world = make_world(text())
    world.apply_fleet(text(zones=("1", "2", "2")))
    reboot(world, "web_0")
    assert seen(world, "web_0")[0][0] == "Started"


@pytest.mark.clause("2.10")
@pytest.mark.parametrize("listening", [(), ("web_0",)])
def test_view_that_is_created_again_begins_above_its_old_one(
    listening: tuple[str, ...],
) -> None:
    """A relay that was away has seen the old one, and takes only what is newer."""
    here, elsewhere = text(zones=("1", "2", "2")), text(zones=("2", "2", "2"))
    lasting = LastingStore()
    world = make_world(here, store=lambda: lasting, listening=listening)
    reboot(world, "web_0")
    for restarts in (False, True):
        old = snapshot(world, "web@1")
        world.apply_fleet(elsewhere)
        assert world.read(lambda reader: reader.get(View, "web@1")) is None
        if restarts:
            world.restart()
        world.apply_fleet(here)
        assert snapshot(world, "web@1").rank > old.rank
        assert snapshot(world, "web@1").enabled == bool(listening)


@pytest.mark.clause("3.2", "3.4", "6.2")
def test_shown_event_stays_approvable_when_a_gpu_set_splits() -> None:
    world = busy_world(web=SET)
    maintain(world, "h2")
    event_id = only_event(world, "web_1")["EventId"]
    world.apply_fleet(text(web=GPU))
    assert world.vm("web_1").get().events == []
    assert world.vm("web_1").approve(event_id).status == 200
    assert seen(world, "web_2")[0][0] == "Started"
    world.advance("1h")
    assert world.vm("web_0").approve(event_id).status == 200
    # A later one was never in its document.
    maintain(world, "h2")
    later = only_event(world, "web_2")["EventId"]
    assert world.vm("web_0").approve(later).status == 400


@pytest.mark.clause("2.10", "6.2")
def test_split_and_join_of_a_gpu_set_lowers_no_incarnation() -> None:
    world = busy_world(web=GPU)
    maintain(world, "h1")
    last = incarnations(world)
    for domains in ((0, 1, 0), (0, 0, 0), (0, 1, 0)):
        world.apply_fleet(text(web=GPU, domains=domains))
        after = incarnations(world)
        assert all(after[name] >= last[name] for name in VMS), (last, after)
        last = after


@pytest.mark.clause("3.2", "3.3", "3.4")
def test_approval_by_vm_that_left_its_scope_has_no_effect() -> None:
    world = busy_world()
    world.vm("other_0").get()
    maintain(world, "h0")
    event_id = next(
        event.event_id for event in world.live_events() if event.scope == "web"
    )
    before = world.vm("web_1").get().incarnation
    world.apply_fleet(text(moved="web_1"))
    assert world.vm("web_1").approve(event_id).status == 200
    assert seen(world, "web_0")[0][0] == "Scheduled"
    assert world.vm("web_1").get().incarnation >= before
    reboot(world, "web_2")
    later = next(
        event.event_id
        for event in world.live_events()
        if event.scope == "web" and event.event_id != event_id
    )
    assert world.vm("web_1").approve(later).status == 400


@pytest.mark.clause("7.1")
def test_new_view_does_not_restart_a_delay() -> None:
    policy = Policy(first_answer_delay=2 * MINUTE, first_events_delay=5 * MINUTE)
    world = make_world(text(), policy=policy)
    world.vm("web_0").get()
    world.advance("5m")
    reboot(world, "web_0")
    world.apply_fleet(text(zones=("1", "2", "2")))
    for name in VMS:
        answer = world.vm(name).glance()
        assert answer is not None
        assert len(answer.events) == 1


@pytest.mark.clause("7.3")
def test_inactive_time_is_kept_across_a_change_of_view() -> None:
    world = make_world(text(), listening=VMS)
    world.advance("20h")
    world.apply_fleet(text(zones=("1", "2", "2")))
    world.advance("5h")
    reboot(world, "web_0")
    assert seen(world, "web_0")[0][0] == "Started"
