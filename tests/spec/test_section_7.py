"""Section 7: enabling."""

from pathlib import Path

import pytest

from forewarn.control.rules.policy import Policy
from forewarn.instants import HOUR, MINUTE, SECOND
from forewarn.sim.engine import START
from tests.spec import support
from tests.spec.support import durable_world, fleet, make_world, only_event, seen

ZONAL = fleet(
    hosts=["h1", "h2"],
    zones=["1", "2"],
    scopes={"pool": {"tenant": "shop", "kind": "scale-set"}},
    vms={
        "a": {"host": "h1", "scope": "pool", "fault_domain": 0},
        "b": {"host": "h2", "scope": "pool", "fault_domain": 1},
    },
)

SLOW = Policy(first_answer_delay=2 * MINUTE, first_events_delay=5 * MINUTE)


def restart_is_at_once(world: support.World, vm: str) -> bool:
    """Return whether a user's restart of the VM starts without a wait (7.4)."""
    (operation,) = support.reboot(world, vm)
    at_once = operation.state.value == "Impacting"
    if not at_once:
        support.cancel(world, operation.operation_id)
    return at_once


# 7.1


@pytest.mark.clause("7.1")
def test_first_get_enables_the_scope() -> None:
    assert restart_is_at_once(make_world(), "web_0")
    assert not restart_is_at_once(make_world(listening=["web_1"]), "web_0")


@pytest.mark.clause("7.1")
@pytest.mark.parametrize(
    "target",
    [
        "/metadata/scheduledevents",
        "/metadata/scheduledevents?api-version=latest",
        "/metadata/instance?api-version=2021-02-01",
        "/metadata/versions",
    ],
)
def test_only_a_valid_events_request_enables_a_scope(target: str) -> None:
    world = make_world()
    world.vm("web_0").ask("GET", target, headers={"metadata": ("true",)})
    world.vm("web_0").ask("GET", "/metadata/scheduledevents?api-version=2020-07-01")
    assert restart_is_at_once(world, "web_0")


@pytest.mark.clause("7.1")
def test_post_does_not_enable_the_scope() -> None:
    world = make_world()
    support.maintain(world, "h1")
    (event_id,) = (e.event_id for e in world.live_events() if e.scope == "web")
    assert world.vm("web_0").approve(event_id).status == 400
    assert restart_is_at_once(world, "web_1")


@pytest.mark.clause("7.1")
def test_first_document_shows_running_events_unchanged() -> None:
    world = make_world()
    support.maintain(world, "h1")
    world.advance("14m")
    assert only_event(world, "web_0")["NotBefore"] == "Tue, 01 Jan 2030 00:15:00 GMT"


@pytest.mark.clause("7.1")
def test_first_answer_and_first_events_can_be_delayed() -> None:
    world = make_world(policy=SLOW)
    support.maintain(world, "h1")
    first = world.vm("web_0").get()
    assert world.now == START + 2 * MINUTE
    assert (first.incarnation, first.events) == (1, [])
    second = world.vm("web_1").get()
    assert world.now == START + 2 * MINUTE
    assert second.body == first.body
    world.advance("2m59s")
    assert world.vm("web_0").get().events == []
    world.advance("1s")
    assert world.vm("web_0").get().incarnation == 2
    assert seen(world, "web_0") == [("Scheduled", "Freeze", ["web_0"])]


@pytest.mark.clause("7.1")
def test_event_cannot_be_approved_before_it_is_shown() -> None:
    world = make_world(policy=SLOW)
    support.maintain(world, "h1")
    world.vm("web_0").get()
    (event_id,) = (e.event_id for e in world.live_events() if e.scope == "web")
    assert world.vm("web_0").approve(event_id).status == 400
    world.advance("3m")
    assert world.vm("web_0").approve(event_id).status == 200


@pytest.mark.clause("7.1")
@pytest.mark.parametrize("by", ["GET", "304", "POST"])
def test_every_valid_request_keeps_the_scope_enabled(by: str) -> None:
    world = make_world(listening=["web_0"])
    support.reboot(world, "web_1")
    event_id = only_event(world, "web_0")["EventId"]
    for _ in range(4):
        world.advance("20h")
        if by == "POST":
            assert world.vm("web_1").approve(event_id).status == 200
        else:
            world.vm("web_1").get(etag='"4"' if by == "304" else "")
    world.advance("20h")
    assert not restart_is_at_once(world, "web_0")


@pytest.mark.clause("7.1", "7.3")
def test_refused_request_does_not_keep_the_scope_enabled() -> None:
    world = make_world(listening=["web_0"])
    world.advance("20h")
    assert world.vm("web_0").approve("x").status == 400
    assert world.vm("web_0").get("latest").status == 400
    world.advance("4h")
    assert restart_is_at_once(world, "web_0")


# 7.2


@pytest.mark.clause("7.2")
def test_enabling_a_scope_covers_the_whole_scope_and_no_other() -> None:
    world = make_world(listening=["web_0"])
    assert not restart_is_at_once(world, "web_1")
    assert restart_is_at_once(world, "db_0")


@pytest.mark.clause("7.2")
def test_each_zone_of_a_scale_set_is_enabled_separately() -> None:
    world = make_world(ZONAL, listening=["a"])
    assert not restart_is_at_once(world, "a")
    assert restart_is_at_once(world, "b")
    world.vm("b").get()
    world.advance("12m")
    assert not restart_is_at_once(world, "b")


@pytest.mark.clause("7.2", "6.1")
def test_enabled_zones_see_the_same_events() -> None:
    world = make_world(ZONAL, listening=["a", "b"])
    support.reboot(world, "a")
    assert seen(world, "a") == seen(world, "b") == [("Scheduled", "Reboot", ["a"])]


@pytest.mark.clause("7.2")
def test_availability_set_across_zones_is_one_scope() -> None:
    text = ZONAL.replace("scale-set", "availability-set")
    assert not restart_is_at_once(make_world(text, listening=["a"]), "b")


# 7.3


@pytest.mark.clause("7.3")
def test_scope_is_disabled_after_a_day_of_silence() -> None:
    world = make_world(listening=["web_0"])
    world.advance(24 * HOUR - SECOND)
    assert not restart_is_at_once(world, "web_0")
    world.advance(SECOND)
    assert restart_is_at_once(world, "web_1")


@pytest.mark.clause("7.3", "2.10")
def test_incarnation_resets_only_after_a_day_of_silence() -> None:
    world = make_world(listening=["web_0"])
    for _ in range(3):
        (operation,) = support.reboot(world, "web_0")
        support.cancel(world, operation.operation_id)
    assert world.vm("web_0").get().incarnation == 7
    world.advance("23h")
    assert world.vm("web_0").get().incarnation == 7
    world.advance("24h")
    assert world.vm("web_0").get().incarnation == 1


@pytest.mark.clause("7.3")
def test_time_until_disabling_is_configurable() -> None:
    world = make_world(listening=["web_0"], policy=Policy(disable_after=HOUR))
    world.advance("1h")
    assert restart_is_at_once(world, "web_0")


@pytest.mark.clause("7.3")
def test_service_downtime_does_not_count_as_silence(tmp_path: Path) -> None:
    with durable_world(tmp_path, listening=["web_0"]) as world:
        world.clock.advance_to(START + 48 * HOUR)
        world.restart()
        world.settle()
        assert not restart_is_at_once(world, "web_0")
        world.advance("24h")
        assert restart_is_at_once(world, "web_0")


# 7.4


@pytest.mark.clause("7.4")
def test_user_request_starts_at_once_without_events_enabled() -> None:
    world = make_world()
    (operation,) = support.redeploy(world, "web_0")
    assert operation.state.value == "Impacting"
    assert world.live_events()[0].approved_by == "(nobody listens)"
    assert seen(world, "web_0") == [("Started", "Redeploy", ["web_0"])]


@pytest.mark.clause("7.4")
@pytest.mark.parametrize("notice", ["5m", None])
@pytest.mark.parametrize("verb", ["redeploy", "terminate"])
def test_explicit_time_is_kept_without_events_enabled(
    verb: str, notice: str | None
) -> None:
    """Also where the VM has no event of it at all."""
    options = {"terminate_notice": notice} if notice else {}
    world = make_world(
        fleet(
            hosts=["h1", "h2"],
            scopes={"web": {**support.WEB, **options}},
            vms={"web_0": {"host": "h1", "scope": "web"}},
        )
    )
    order = {"redeploy": support.redeploy, "terminate": support.terminate}[verb]
    (operation,) = order(world, "web_0", not_before=world.now + 2 * HOUR)
    assert operation.state.value == "Announced"
    world.advance("1h59m59s")
    assert world.operation(operation.operation_id).state.value == "Announced"
    world.advance("1s")
    value = world.operation(operation.operation_id).state.value
    assert value in {"Impacting", "Recovering", "Done"}


@pytest.mark.clause("7.4")
def test_platform_keeps_its_notice_for_a_disabled_scope() -> None:
    world = make_world()
    (operation,) = support.maintain(world, "h1")
    assert operation.state.value == "Announced"
    world.advance("14m59s")
    assert world.operation(operation.operation_id).state.value == "Announced"
    world.advance("1s")
    assert world.operation(operation.operation_id).state.value == "Impacting"
