"""Section 5: what causes events, and with how much notice."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forewarn.control.requests import failures
from forewarn.control.rules.policy import Policy
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.errors import FleetFileError
from forewarn.instants import MINUTE, SECOND, Micros, parse_duration
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import EventType
from forewarn.protocol.operations import Action, Verb
from tests.spec import support
from tests.spec.support import approve_all, fleet, make_world, only_event, seen
from tests.support.worlds import START, World

PROTOCOL = Path(__file__).parents[2] / "docs" / "reference" / "protocol.md"

POOL = {
    "tenant": "shop",
    "kind": "scale-set",
    "terminate_notice": "5m",
    "os_image_notice": "15m",
}

FLEET = fleet(
    hosts=["h1", "h2", "h3"],
    scopes={"pool": POOL},
    vms={
        "a": {"host": "h1", "scope": "pool", "fault_domain": 0},
        "b": {"host": "h2", "scope": "pool", "fault_domain": 1},
        "spot": {"host": "h2", "scope": "pool", "fault_domain": 1, "spot": True},
        "big": {
            "host": "h1",
            "scope": "pool",
            "fault_domain": 0,
            "memory_preserving": False,
        },
    },
)
"""A scale set with every notification on, a Spot VM and a VM of a large size."""

Order = Callable[[World], object]

MAINTENANCE: dict[str, tuple[Order, str]] = {
    "maintain, freeze": (lambda w: support.maintain(w, "h1"), "15m"),
    "maintain, live-migrate": (
        lambda w: support.maintain(w, "h1", action=Action.LIVE_MIGRATE),
        "15m",
    ),
    "maintain, reboot": (
        lambda w: support.maintain(w, "h1", action=Action.REBOOT),
        "15m",
    ),
    "maintain, redeploy": (
        lambda w: support.maintain(w, "h1", action=Action.REDEPLOY),
        "10m",
    ),
}

ORDERS: dict[str, tuple[Order, str]] = {
    **MAINTENANCE,
    "reboot": (lambda w: support.reboot(w, "a"), "15m"),
    "redeploy": (lambda w: support.redeploy(w, "a"), "10m"),
    "evict": (lambda w: support.evict(w, "spot"), "30s"),
    "terminate": (lambda w: support.terminate(w, "a"), "5m"),
    "predict-failure": (lambda w: support.predict_failure(w, "h2"), "7d"),
    "upgrade-os": (lambda w: support.renew_image(w, "a", verb=Verb.UPGRADE_OS), "15m"),
    "reimage": (lambda w: support.renew_image(w, "a"), "15m"),
}
"""Each order of table 5.9 that gives notice, and how much."""


def first_event(world: World) -> dict[str, Any]:
    return world.vm("a").get().events[0]


# 5.1


@pytest.mark.clause("5.1")
@pytest.mark.parametrize("order", ORDERS)
def test_each_request_has_its_minimum_notice(order: str) -> None:
    world = make_world(FLEET, listening=["a"])
    give, notice = ORDERS[order]
    give(world)
    (event, *_) = world.live_events()
    assert event.not_before == START + parse_duration(notice)
    if event.event_type is EventType.REDEPLOY and notice == "7d":
        return
    world.advance_to(event.not_before - 1)
    assert first_event(world)["EventStatus"] == "Scheduled"
    world.advance(1)
    assert "Started" in {status for status, _, _ in seen(world, "a")}


@pytest.mark.clause("5.1")
@pytest.mark.parametrize("minutes", [5, 10, 15])
def test_owner_sets_the_notice_of_a_deletion(minutes: int) -> None:
    text = FLEET.replace('terminate_notice = "5m"', f'terminate_notice = "{minutes}m"')
    world = make_world(text, listening=["a"])
    support.terminate(world, "a")
    assert world.live_events()[0].not_before == START + minutes * MINUTE


@pytest.mark.clause("5.1")
@pytest.mark.parametrize("notice", ["4m59s", "15m1s"])
def test_invalid_terminate_notice_is_refused(notice: str) -> None:
    with pytest.raises(FleetFileError, match="must be 5m to 15m"):
        make_world(
            FLEET.replace('terminate_notice = "5m"', f'terminate_notice = "{notice}"')
        )


BY_HAND: dict[str, tuple[Callable[[World, str], object], Micros]] = {
    "freeze": (lambda w, t: support.maintain(w, "h1", not_before=t), 15 * MINUTE),
    "reboot": (lambda w, t: support.reboot(w, "a", not_before=t), 15 * MINUTE),
    "redeploy": (lambda w, t: support.redeploy(w, "a", not_before=t), 10 * MINUTE),
    "evict": (lambda w, t: support.evict(w, "spot", not_before=t), 30 * SECOND),
    "terminate": (lambda w, t: support.terminate(w, "a", not_before=t), 5 * MINUTE),
    "predict": (lambda w, t: support.predict_failure(w, "h1", notice=t), 10 * MINUTE),
}


@pytest.mark.clause("5.1")
@pytest.mark.parametrize("order", BY_HAND)
def test_too_short_manual_notice_is_refused(order: str) -> None:
    give, least = BY_HAND[order]
    world = make_world(FLEET, listening=["a"])
    with pytest.raises(RefusedError, match="notice of at least"):
        give(world, f"{least - 2 * SECOND}us")
    assert world.operations() == []
    give(world, f"{least}us")
    assert {op.not_before for op in world.operations()} == {START + least}


@pytest.mark.clause("5.1")
def test_speed_divides_default_notices_but_not_manual_times() -> None:
    policy = Policy(speed=60, reboot_notice=15 * SECOND)
    world = make_world(FLEET, listening=["a"], policy=policy)
    support.terminate(world, "a")
    support.reboot(world, "b", not_before="1h")
    assert [event.not_before - START for event in world.live_events()] in (
        [5 * SECOND, 60 * MINUTE],
        [60 * MINUTE, 5 * SECOND],
    )


# 5.2 and 5.3


@pytest.mark.clause("5.2")
@pytest.mark.parametrize(
    ("order", "event_type", "moves"),
    [
        ("maintain, freeze", "Freeze", False),
        ("maintain, live-migrate", "Freeze", True),
        ("maintain, reboot", "Reboot", False),
        ("maintain, redeploy", "Redeploy", True),
    ],
)
def test_maintenance_events_come_from_the_platform(
    order: str, event_type: str, moves: bool
) -> None:
    world = make_world(FLEET, listening=["a"])
    MAINTENANCE[order][0](world)
    event = first_event(world)
    assert (event["EventType"], event["EventSource"]) == (event_type, "Platform")
    world.advance("40m")
    assert (world.stored_vm("a").host == "h3") is moves


@pytest.mark.clause("5.3")
@pytest.mark.parametrize(
    ("order", "event_type", "switch"),
    [
        ("reboot", "Reboot", "approve_user_reboot"),
        ("redeploy", "Redeploy", "approve_user_redeploy"),
    ],
)
def test_user_requests_wait_unless_the_policy_approves_them(
    order: str, event_type: str, switch: str
) -> None:
    waiting = make_world(FLEET, listening=["a"])
    ORDERS[order][0](waiting)
    event = first_event(waiting)
    assert (event["EventType"], event["EventSource"]) == (event_type, "User")
    assert event["EventStatus"] == "Scheduled"

    text = FLEET.replace('name = "pool"', f'name = "pool"\n{switch} = true')
    at_once = make_world(text, listening=["a"])
    ORDERS[order][0](at_once)
    assert first_event(at_once)["EventStatus"] == "Started"
    assert at_once.live_events()[0].approved_by == "(policy)"


@pytest.mark.clause("5.3")
def test_policy_applies_to_one_kind_of_request() -> None:
    text = FLEET.replace('name = "pool"', 'name = "pool"\napprove_user_reboot = true')
    world = make_world(text, listening=["a"])
    support.redeploy(world, "a")
    support.maintain(world, "h1", action=Action.REBOOT)
    assert {status for status, _, _ in seen(world, "a")} == {"Scheduled"}


@pytest.mark.clause("5.3")
def test_vm_that_is_already_down_is_not_waited_for() -> None:
    world = make_world(FLEET, listening=["a"])
    world.order(lambda work: failures.fail_vm(work, "a"))
    support.reboot(world, "a")
    assert [status for status, _, _ in seen(world, "a")] == ["Started", "Started"]
    world.advance("2m")
    assert world.stored_vm("a").state.value == "running"
    world.advance("10m")
    assert seen(world, "a") == []


# 5.4


@pytest.mark.clause("5.4")
def test_predicted_failure_is_days_ahead_and_separate_for_each_vm() -> None:
    world = make_world(FLEET, listening=["a"])
    support.predict_failure(world, "h1")
    assert sorted(names for _, _, names in seen(world, "a")) == [["a"], ["big"]]
    assert {event["NotBefore"] for event in world.vm("a").get().events} == {
        "Tue, 08 Jan 2030 00:00:00 GMT"
    }


@pytest.mark.clause("5.4")
def test_approval_moves_only_the_approving_vm_early() -> None:
    world = make_world(FLEET, listening=["a"])
    support.predict_failure(world, "h1")
    ids = {e["Resources"][0]: e["EventId"] for e in world.vm("a").get().events}
    assert world.vm("a").approve(ids["a"]).status == 200
    world.advance("15m")
    assert world.stored_vm("a").host == "h3"
    assert world.stored_vm("big").host == "h1"
    assert seen(world, "a") == [("Scheduled", "Redeploy", ["big"])]


@pytest.mark.clause("5.4")
def test_redeploy_by_the_user_ends_the_predicted_failure() -> None:
    world = make_world(FLEET, listening=["a"])
    predicted, _ = support.predict_failure(world, "h1")
    support.redeploy(world, "a")
    world.advance("12m")
    assert world.stored_vm("a").host == "h3"
    assert world.operation(predicted.operation_id).state.value == "Cancelled"


@pytest.mark.clause("5.4", "6.3")
def test_predicted_failure_is_treated_as_routine() -> None:
    world = make_world(FLEET, listening=["a"])
    operations = support.predict_failure(world, "h1")
    support.fail_host(world, "h2")
    approve_all(world, "a")
    assert [world.operation(op.operation_id).state.value for op in operations] == [
        "Ready",
        "Ready",
    ]


# 5.5


@pytest.mark.clause("5.5")
def test_failure_cancels_operations_and_announces_itself_in_one_step() -> None:
    world = make_world(listening=["web_0", "db_0"])
    (maintenance,) = support.maintain(world, "h1")
    (restart,) = support.reboot(world, "web_0")
    before = world.vm("web_0").get().incarnation
    support.fail_host(world, "h1")
    answer = world.vm("web_0").get()
    assert answer.incarnation == before + 1
    assert seen(world, "web_0") == [("Started", "Reboot", ["web_0"])]
    assert seen(world, "db_0") == [("Started", "Reboot", ["db_0"])]
    for operation in (maintenance, restart):
        assert world.operation(operation.operation_id).state.value == "Cancelled"


@pytest.mark.clause("5.5")
def test_a_failure_lasts_until_its_vms_run() -> None:
    world = make_world(listening=["web_0", "db_0"])
    support.fail_host(world, "h1")
    world.advance("20h")
    assert seen(world, "web_0") == [("Started", "Reboot", ["web_0"])]
    support.redeploy(world, "web_0")
    world.advance("1m")
    assert [event_type for _, event_type, _ in seen(world, "web_0")] == ["Redeploy"]
    assert world.stored_vm("web_0").host == "h3"
    assert seen(world, "db_0") == [("Started", "Reboot", ["db_0"])]
    support.restore_host(world, "h1")
    assert seen(world, "db_0") == []


@pytest.mark.clause("5.5")
def test_failure_can_be_shown_as_a_redeploy() -> None:
    policy = Policy(failure_event=EventType.REDEPLOY)
    world = make_world(listening=["web_0"], policy=policy)
    support.fail_host(world, "h1")
    assert seen(world, "web_0") == [("Started", "Redeploy", ["web_0"])]


@pytest.mark.clause("5.5")
def test_deletion_survives_a_failure_and_a_started_operation_fails() -> None:
    world = make_world(FLEET, listening=["a"])
    (started,) = support.reboot(world, "a")
    approve_all(world, "a")
    (deletion,) = support.terminate(world, "b")
    support.fail_host(world, "h1")
    support.fail_host(world, "h2")
    assert world.operation(started.operation_id).state.value == "Failed"
    assert world.operation(deletion.operation_id).state.value == "Announced"


# 5.6 and 5.7


@pytest.mark.clause("5.6")
def test_an_eviction_is_a_preempt_of_a_spot_vm() -> None:
    world = make_world(FLEET, listening=["a"])
    with pytest.raises(RefusedError, match="VM a is not a Spot VM"):
        support.evict(world, "a")
    support.evict(world, "spot")
    assert seen(world, "a") == [("Scheduled", "Preempt", ["spot"])]
    world.advance("35s")
    assert world.vm("spot").get().status == 404


@pytest.mark.clause("5.6", "7.4")
def test_eviction_keeps_its_notice_without_events_enabled() -> None:
    world = make_world(FLEET)
    support.evict(world, "spot")
    assert seen(world, "spot") == [("Scheduled", "Preempt", ["spot"])]


@pytest.mark.clause("5.7")
def test_a_deletion_is_a_terminate_except_for_spot_vms() -> None:
    world = make_world(FLEET, listening=["a"])
    support.terminate(world, "a")
    support.terminate(world, "spot")
    assert seen(world, "a") == [("Scheduled", "Terminate", ["a"])]
    assert world.stored_vm("spot").started
    world.advance("5s")
    assert world.stored_vm("spot").state.value == "deleted"
    assert world.stored_vm("a").state.value == "running"


@pytest.mark.clause("5.7", "4.7")
def test_deletion_without_the_profile_has_no_event() -> None:
    text = FLEET.replace('terminate_notice = "5m"', "")
    world = make_world(text, listening=["a"])
    support.terminate(world, "a")
    assert seen(world, "b") == []
    world.advance("5s")
    assert world.stored_vm("a").state.value == "deleted"


@pytest.mark.clause("5.7")
def test_timeout_of_an_existing_event_does_not_change() -> None:
    world = make_world(FLEET, listening=["a"])
    support.terminate(world, "a")
    before = world.vm("a").get().body
    world.apply_fleet(
        FLEET.replace('terminate_notice = "5m"', 'terminate_notice = "15m"')
    )
    assert world.vm("a").get().body == before
    support.terminate(world, "b")
    assert [event["NotBefore"][17:25] for event in world.vm("a").get().events] in (
        ["00:05:00", "00:15:00"],
        ["00:15:00", "00:05:00"],
    )


# 5.8


@pytest.mark.clause("5.8")
@pytest.mark.parametrize("verb", [Verb.REIMAGE, Verb.UPGRADE_OS])
def test_image_renewal_is_announced_if_the_profile_is_set(verb: Verb) -> None:
    world = make_world(FLEET, listening=["a"])
    support.renew_image(world, "a", verb=verb)
    assert seen(world, "a") == [("Scheduled", "Reboot", ["a"])]


@pytest.mark.clause("5.8", "4.7")
def test_image_renewal_has_no_event_without_profile_or_for_large_sizes() -> None:
    world = make_world(FLEET, listening=["a"])
    (large,) = support.renew_image(world, "big")
    assert large.state.value == "Impacting"
    off = make_world(FLEET.replace('os_image_notice = "15m"', ""), listening=["a"])
    (plain,) = support.renew_image(off, "a")
    assert plain.state.value == "Impacting"
    assert seen(world, "a") == seen(off, "a") == []


@pytest.mark.clause("5.8", "6.3")
def test_image_renewal_without_an_event_is_also_guarded() -> None:
    text = FLEET.replace('os_image_notice = "15m"', "")
    driver = SimulatedDriver()
    world = make_world(text, listening=["a"], driver=driver)
    operations = support.renew_image(world, "a", "b")
    states = [world.operation(op.operation_id).state.value for op in operations]
    assert sorted(states) == ["Impacting", "Ready"]
    world.advance("11m")
    states = [world.operation(op.operation_id).state.value for op in operations]
    assert sorted(states) == ["Done", "Impacting"]


@pytest.mark.clause("5.8")
def test_image_renewal_is_only_for_scale_sets() -> None:
    world = make_world(listening=["web_0"])
    with pytest.raises(RefusedError, match="not a scale-set instance"):
        support.renew_image(world, "web_0")


# 5.9


def table() -> dict[str, tuple[str, str, str, str]]:
    """Return table 5.9 of the document, by the first column."""
    section = PROTOCOL.read_text(encoding="utf-8").split("\n### 5.9 ")[1]
    rows = re.findall(r"^\|(.*)\|$", section.split("\n## ")[0], flags=re.MULTILINE)
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    return {row[0]: (row[1], row[2], row[3], row[4]) for row in cells[2:]}


def test_table_lists_every_request() -> None:
    assert {*table()} == {*ORDERS, "fail", "maintain, as an emergency"}


@pytest.mark.clause("5.9")
@pytest.mark.parametrize("order", [*ORDERS, "fail"])
def test_event_fields_match_the_table(order: str) -> None:
    world = make_world(FLEET, listening=["a"])
    if order == "fail":
        support.fail_host(world, "h1")
    else:
        ORDERS[order][0](world)
    event = first_event(world)
    assert (
        event["EventType"],
        event["EventSource"],
        str(event["DurationInSeconds"]),
        event["Description"],
    ) == table()[order]


@pytest.mark.clause("5.9")
def test_emergency_is_stated_in_the_description() -> None:
    world = make_world(FLEET, listening=["a"])
    support.maintain(world, "h1", action=Action.REDEPLOY, emergency=True)
    assert first_event(world)["Description"] == table()["maintain, as an emergency"][3]


@pytest.mark.clause("5.9")
def test_operator_can_set_duration_and_description() -> None:
    world = make_world(FLEET, listening=["a"])
    support.maintain(world, "h1", duration_seconds=30, description="New fans.")
    event = only_event(world, "a")
    assert (event["DurationInSeconds"], event["Description"]) == (30, "New fans.")
