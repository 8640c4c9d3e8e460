"""Section 3: approval."""

import itertools
import json
from pathlib import Path

import pytest

from forewarn.control.rules.policy import Policy
from forewarn.instants import DAY
from forewarn.testing.conformance.check import Check
from tests.spec import support
from tests.spec.support import (
    WEB,
    ServedWorld,
    approve_all,
    durable_world,
    each_check,
    fleet,
    make_world,
    only_event,
    seen,
)

SCHEDULED = ("Scheduled", "Freeze")
STARTED = ("Started", "Freeze")

POOL = fleet(
    hosts=["h1", "h2"],
    scopes={
        "web": {**WEB, "terminate_notice": "5m"},
        "slow": {**WEB, "terminate_notice": "15m"},
        "off": WEB,
    },
    vms={
        "a": {"host": "h1", "scope": "web"},
        "b": {"host": "h1", "scope": "web"},
        "slow": {"host": "h1", "scope": "slow"},
        "off": {"host": "h1", "scope": "off"},
    },
)
"""VMs to delete: two with 5 minutes' notice, one with 15, one with none."""


# 3.1 to 3.4, from outside


@pytest.mark.system
@pytest.mark.clause("3.1")
@each_check("3.1")
def test_request_bodies_of_old_clients_are_accepted(
    endpoint: ServedWorld, check: Check
) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


@pytest.mark.system
@pytest.mark.clause("3.2")
@each_check("3.2")
def test_repeated_approval_checks_pass(endpoint: ServedWorld, check: Check) -> None:
    support.assert_kept(check, endpoint.client("m_0"))


@pytest.mark.system
@pytest.mark.clause("3.3")
@each_check("3.3")
def test_refused_approval_checks_pass(endpoint: ServedWorld, check: Check) -> None:
    client = endpoint.client("m_0")
    before = endpoint.do(lambda world: world.live_events())
    support.assert_kept(check, client)
    if check.title != "a hidden event can be approved":
        assert endpoint.do(lambda world: world.live_events()) == before


@pytest.mark.system
@pytest.mark.clause("3.4")
@each_check("3.4")
def test_one_approval_counts_for_all_vms(endpoint: ServedWorld, check: Check) -> None:
    support.assert_kept(check, endpoint.client("m_2"))


@pytest.mark.clause("3.1")
def test_one_request_approves_several_events() -> None:
    world = make_world(listening=["web_0"])
    support.reboot(world, "web_0")
    support.reboot(world, "web_1")
    approve_all(world, "web_0")
    assert {status for status, _, _ in seen(world, "web_1")} == {"Started"}


# 3.2


@pytest.mark.clause("3.2")
def test_late_approval_returns_200_without_effect() -> None:
    world = make_world(listening=["web_0"])
    support.reboot(world, "web_0")
    event_id = only_event(world, "web_0")["EventId"]
    for duration in ("0", "15m", "10s", "12m", "20h"):
        world.advance(duration)
        before = world.vm("web_0").get().body
        answer = world.vm("web_1").approve(event_id)
        assert (answer.status, answer.body) == (200, b"")
        if duration != "0":
            assert world.vm("web_0").get().body == before


@pytest.mark.clause("3.2")
def test_approval_of_a_forgotten_event_is_400() -> None:
    world = make_world(listening=["web_0"], policy=Policy(retention=DAY))
    support.reboot(world, "web_0")
    event_id = only_event(world, "web_0")["EventId"]
    world.advance("20h")
    assert world.vm("web_0").approve(event_id).status == 200
    world.advance("6h")
    world.settle()
    assert world.vm("web_0").approve(event_id).status == 400


@pytest.mark.clause("3.2")
@pytest.mark.parametrize(
    "order",
    list(itertools.permutations(["web_0", "web_1", "db_0"])),
    ids="-".join,
)
def test_order_of_approvals_does_not_matter(order: tuple[str, ...]) -> None:
    world = make_world(listening=["web_0", "db_0"])
    support.maintain(world, "h1")
    ids = {name: only_event(world, name)["EventId"] for name in order}
    for name in order:
        assert world.vm(name).approve(ids[name]).status == 200
    assert seen(world, "web_0") == [(*STARTED, ["web_0"])]
    assert seen(world, "db_0") == [(*STARTED, ["db_0"])]
    assert world.vm("web_0").get().incarnation == 3


@pytest.mark.clause("3.2")
def test_an_approval_survives_the_service(tmp_path: Path) -> None:
    with durable_world(tmp_path, listening=["web_0", "db_0"]) as world:
        support.maintain(world, "h1")
        approve_all(world, "web_0")
        world.restart()
        approve_all(world, "db_0")
        assert seen(world, "web_0") == [(*STARTED, ["web_0"])]


@pytest.mark.clause("3.2")
def test_effect_of_an_approval_is_visible_before_the_200() -> None:
    world = make_world(listening=["web_0"])
    support.reboot(world, "web_0")
    approve_all(world, "web_0")
    assert only_event(world, "web_0")["EventStatus"] == "Started"


# 3.3


@pytest.mark.clause("3.3", "1.8")
def test_event_of_another_scope_is_refused_like_an_unknown_event() -> None:
    world = make_world(listening=["web_0", "db_0"])
    support.reboot(world, "db_0")
    foreign = only_event(world, "db_0")["EventId"]
    nobodys = "00000000-0000-4000-8000-000000000000"
    refused = world.vm("web_0").approve(foreign)
    unknown = world.vm("web_0").approve(nobodys)
    assert (refused.status, unknown.status) == (400, 400)
    assert refused.body.replace(foreign.encode(), nobodys.encode()) == unknown.body
    assert only_event(world, "db_0")["EventStatus"] == "Scheduled"


@pytest.mark.clause("3.3")
def test_one_bad_entry_refuses_the_whole_request() -> None:
    world = make_world(listening=["web_0", "db_0"])
    support.reboot(world, "web_0")
    support.reboot(world, "db_0")
    own = only_event(world, "web_0")["EventId"]
    foreign = only_event(world, "db_0")["EventId"]
    assert world.vm("web_0").approve(own, foreign).status == 400
    assert [event.is_approved for event in world.live_events()] == [False, False]
    assert world.vm("web_0").approve(own).status == 200


@pytest.mark.clause("3.3")
def test_event_that_a_version_hides_can_be_approved_with_it() -> None:
    world = make_world(POOL, listening=["a"])
    support.terminate(world, "a")
    event_id = only_event(world, "a")["EventId"]
    assert world.vm("b").approve(event_id, version="2017-03-01").status == 200
    assert only_event(world, "a")["EventStatus"] == "Started"


@pytest.mark.clause("3.3")
def test_request_has_at_most_a_thousand_entries() -> None:
    world = make_world(listening=["web_0"])
    support.reboot(world, "web_0")
    event_id = only_event(world, "web_0")["EventId"]
    assert world.vm("web_0").approve(*[event_id] * 1001).status == 400
    assert world.vm("web_0").approve(*[event_id] * 1000).status == 200


@pytest.mark.clause("3.3", "7.3")
def test_disabled_scope_cannot_approve_a_live_event() -> None:
    world = make_world(listening=["web_0"])
    support.reboot(world, "web_0")
    gone = only_event(world, "web_0")["EventId"]
    world.advance("2d")
    support.maintain(world, "h1")
    (live,) = [event.event_id for event in world.live_events() if event.scope == "web"]
    assert world.vm("web_0").approve(live).status == 400
    assert world.vm("web_0").approve(gone).status == 200


# 3.4


@pytest.mark.clause("3.4")
def test_any_vm_of_the_scope_approves_for_all_named_vms() -> None:
    world = make_world(
        fleet(
            hosts=["h1", "h2"],
            scopes={"web": WEB},
            vms={
                "a": {"host": "h1", "scope": "web"},
                "b": {"host": "h1", "scope": "web"},
                "c": {"host": "h2", "scope": "web"},
            },
        ),
        listening=["c"],
    )
    support.maintain(world, "h1")
    assert seen(world, "c") == [(*SCHEDULED, ["a", "b"])]
    approve_all(world, "c")
    assert seen(world, "a") == [(*STARTED, ["a", "b"])]


@pytest.mark.clause("3.4")
@pytest.mark.parametrize("body", [{"StartRequests": []}, {"DeclineRequests": []}])
def test_client_cannot_refuse_or_delay_an_event(body: object) -> None:
    world = make_world(listening=["web_0", "db_0"])
    support.maintain(world, "h1")
    answer = world.vm("web_0").ask(
        "POST",
        "/metadata/scheduledevents?api-version=2020-07-01",
        headers={"metadata": ("true",)},
        body=json.dumps(body).encode(),
    )
    assert answer.status == 400
    world.advance("15m")
    assert seen(world, "web_0") == [(*STARTED, ["web_0"])]


# 3.5


@pytest.mark.clause("3.5")
def test_shared_host_waits_for_every_tenant() -> None:
    world = make_world(listening=["web_0", "db_0"])
    (operation,) = support.maintain(world, "h1")
    approve_all(world, "web_0")
    world.advance("14m59s")
    assert seen(world, "web_0") == [(*SCHEDULED, ["web_0"])]
    assert world.explain(operation.operation_id) == [
        "tenant bank has not approved (scope db)",
        "NotBefore is in 1 s",
    ]
    approve_all(world, "db_1")
    assert seen(world, "web_0") == [(*STARTED, ["web_0"])]
    assert seen(world, "db_0") == [(*STARTED, ["db_0"])]


@pytest.mark.clause("3.5")
def test_two_scopes_of_one_tenant_approve_each_for_itself() -> None:
    world = make_world(
        fleet(
            hosts=["h1"],
            scopes={"one": WEB, "two": WEB},
            vms={
                "a": {"host": "h1", "scope": "one"},
                "b": {"host": "h1", "scope": "two"},
            },
        ),
        listening=["a", "b"],
    )
    support.maintain(world, "h1")
    approve_all(world, "a")
    assert seen(world, "b") == [(*SCHEDULED, ["b"])]
    approve_all(world, "b")
    assert seen(world, "a") == [(*STARTED, ["a"])]


@pytest.mark.clause("3.5", "7.4")
def test_scope_without_events_enabled_is_waited_for_until_not_before() -> None:
    world = make_world(listening=["web_0"])
    (operation,) = support.maintain(world, "h1")
    approve_all(world, "web_0")
    (silent, _) = world.explain(operation.operation_id)
    assert "tenant bank has not enabled Scheduled Events for scope db" in silent
    world.advance("14m59s")
    assert seen(world, "web_0") == [(*SCHEDULED, ["web_0"])]
    world.advance("1s")
    assert seen(world, "web_0") == [(*STARTED, ["web_0"])]


@pytest.mark.clause("3.5")
def test_maintenance_of_an_empty_host_needs_no_approval() -> None:
    world = make_world()
    (operation,) = support.maintain(world, "h3")
    assert operation.state.value == "Recovering"
    world.advance("10m")
    assert world.operation(operation.operation_id).state.value == "Done"


# 3.6


@pytest.mark.clause("3.6")
def test_deletions_of_one_request_wait_for_each_other() -> None:
    world = make_world(POOL, listening=["a"])
    first, _ = support.terminate(world, "a", "b")
    events = world.vm("a").get().events
    assert len({event["NotBefore"] for event in events}) == 1
    by_name = {event["Resources"][0]: event["EventId"] for event in events}
    assert world.vm("a").approve(by_name["a"]).status == 200
    assert {event["EventStatus"] for event in world.vm("a").get().events} == {
        "Scheduled"
    }
    assert world.explain(first.operation_id)[0].startswith(
        "tenant shop has not approved the deletion of VM b"
    )
    assert world.vm("b").approve(by_name["b"]).status == 200
    assert {event["EventStatus"] for event in world.vm("a").get().events} == {"Started"}


@pytest.mark.clause("3.6")
def test_longest_notice_applies_to_all_deletions() -> None:
    world = make_world(POOL, listening=["a", "slow"])
    support.terminate(world, "a", "slow")
    assert (
        only_event(world, "a")["NotBefore"]
        == only_event(world, "slow")["NotBefore"]
        == "Tue, 01 Jan 2030 00:15:00 GMT"
    )
    world.advance("14m")
    approve_all(world, "a")
    assert only_event(world, "a")["EventStatus"] == "Scheduled"
    world.advance("1m")
    assert only_event(world, "a")["EventStatus"] == "Started"


@pytest.mark.clause("3.6", "5.7")
def test_deletions_without_an_event_wait_for_the_others() -> None:
    world = make_world(POOL, listening=["a", "off"])
    support.terminate(world, "a", "off")
    assert world.vm("off").get().events == []
    world.advance("4m59s")
    assert world.stored_vm("off").state.value == "running"
    approve_all(world, "a")
    world.advance("5s")
    assert world.stored_vm("off").state.value == "deleted"
    assert world.stored_vm("a").state.value == "deleted"


@pytest.mark.clause("3.6")
def test_deletions_of_two_requests_do_not_wait_for_each_other() -> None:
    world = make_world(POOL, listening=["a"])
    support.terminate(world, "a")
    support.terminate(world, "b")
    (event_id,) = (
        event["EventId"]
        for event in world.vm("a").get().events
        if event["Resources"] == ["a"]
    )
    assert world.vm("a").approve(event_id).status == 200
    assert sorted(seen(world, "b")) == [
        ("Scheduled", "Terminate", ["b"]),
        ("Started", "Terminate", ["a"]),
    ]
