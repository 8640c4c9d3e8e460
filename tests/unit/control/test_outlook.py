"""The outlook of a campaign: counts, the expected end, budgets, windows and verbs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.requests import brake, campaign_changes, campaigns
from forewarn.control.requests.verbs.campaigns import CAMPAIGN_DECISIONS
from forewarn.control.rules.second_person import Asker
from forewarn.control.transactions.work import Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind, parse_fault
from forewarn.fleet.model import Capacity
from forewarn.instants import HOUR, MINUTE, SECOND, parse_instant
from forewarn.protocol.actors import operator
from forewarn.protocol.errors import BadRequestError, RefusedError
from forewarn.protocol.operations import Action, Operation
from forewarn.reporting.expected import expected_of
from forewarn.reporting.outlook import outlook
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.verbs.model import VerbRequest
from tests.support.campaigns import campaign, start, steer
from tests.support.worlds import World
from tests.unit.control.test_campaign_tree import TWO_AT_ONCE, world_of
from tests.unit.control.test_deferrals import defer

STAGES = """
[campaign.budget]
in_flight = 2
[[campaign.budget.by]]
label = "rack"
max = 1
[campaign.tolerance]
failures = 3
in_a_row = 3
vms_down = 5
[[campaign.stage]]
hosts = 1
soak = "1h"
approval = true
[[campaign.stage]]
hosts = "100%"
"""


BOB = Asker(actor=operator("bob"), second_person=False)


def seen(world: World, asker: Asker = BOB, **span: int) -> dict[str, Any]:
    def read(reader: Any) -> dict[str, Any]:
        expected = expected_of(reader, campaign(world), now=world.now)
        first, last = span.get("first", 0), span.get("last", 0)
        return outlook(expected, asker, first=first, last=last)

    return world.read(read)


def test_counts_add_up_at_each_moment() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s5-5", times=3))
    world = world_of(driver=driver)
    start(world, TWO_AT_ONCE)
    for minute in range(60):
        found = seen(world)["counts"]
        assert found.pop("hosts") == 8 == sum(found.values())
        assert min(found.values()) >= 0
        if minute == 3:
            steer(world, lambda work: campaigns.skip(work, "bios", ["h0007"]))
        world.advance("5m")
    found = seen(world)["counts"]
    assert (found["failed"], found["skipped"]) == (1, 1)
    steer(world, lambda work: campaigns.abort(work, "bios"))
    found = seen(world)["counts"]
    assert found.pop("hosts") == 8 == sum(found.values())
    assert found["waiting"] == 0


def test_end_is_unknown_until_a_host_is_done_and_then_comes_true() -> None:
    world = world_of(8)
    start(world, TWO_AT_ONCE)
    first = seen(world)["eta"]
    assert (first["at"], first["unknown"], first["hosts"]) == (
        None,
        "no host is done",
        0,
    )
    estimates: list[tuple[int, int]] = []
    while not campaign(world).has_ended:
        world.advance("1m")
        if at := seen(world)["eta"]["at"]:
            estimates.append((world.now, parse_instant(at)))
    ended = campaign(world).ended
    assert all(expected % (60 * 10**6) == 0 for _, expected in estimates)
    half = [estimate for estimate in estimates if estimate[0] > ended - 1 * HOUR]
    # In the last hour, it is right to a quarter of an hour.
    assert half
    assert all(abs(expected - ended) <= HOUR // 4 for _, expected in half)
    assert seen(world)["eta"]["unknown"] == "ended"


TWO_SOAKS = """
[campaign.budget]
in_flight = 2
[[campaign.stage]]
hosts = 1
soak = "4h"
[[campaign.stage]]
hosts = 2
soak = "4h"
"""


def test_expected_end_divides_soaks_by_the_speed_of_the_service() -> None:
    world = world_of(8)
    world.plane.policy = replace(world.plane.policy, speed=60.0)
    start(world, TWO_SOAKS)
    while not campaign(world).done:
        world.advance("1m")
    eta = seen(world)["eta"]
    end = parse_instant(eta["at"])
    # The soaks take 4 minutes each, and not 4 hours.
    assert eta["soak_seconds"] == pytest.approx(8 * 60, abs=60)
    while not campaign(world).has_ended:
        world.advance("1m")
    assert abs(end - campaign(world).ended) < HOUR


def test_changed_soak_is_divided_in_the_expected_end_too() -> None:
    world = world_of(8)
    world.plane.policy = replace(world.plane.policy, speed=60.0)
    start(world, TWO_SOAKS)
    values = {"soak": "2=1h"}
    steer(world, lambda work: campaign_changes.change(work, campaign(world), values))
    assert seen(world)["eta"]["soak_seconds"] == (4 + 1) * 60
    assert seen(world)["stages"][1]["soak_seconds"] == 60 * 60


def test_end_waits_for_the_last_host_that_a_tenant_deferred() -> None:
    world = world_of()
    start(world, TWO_AT_ONCE)
    defer(world, "s5-5", 24 * HOUR)
    until = world.now + 24 * HOUR
    world.advance("6h")
    assert campaign(world).left == 1
    turn = seen(world)["eta"]["turn_seconds"] * SECOND
    expected = until + turn
    for _ in range(3):
        end = parse_instant(seen(world)["eta"]["at"])
        assert expected <= end <= expected + MINUTE
        world.advance("1h")
    (host,) = world.read(
        lambda r: list(every(r, kinds.PLANNED_OF_REQUEST, campaign(world).request))
    )
    begins = world.read(
        lambda reader: expected_of(reader, campaign(world), now=world.now).host_begins(
            host.position
        )
    )
    assert begins == until


@pytest.mark.parametrize(
    ("stop", "why"),
    [
        (lambda work: campaigns.pause(work, "bios"), "paused"),
        (lambda work: campaigns.halt(work, "bios"), "halted"),
        (lambda work: brake.put_on(work) and campaigns.find(work.tx, "bios"), "brake"),
    ],
)
def test_stopped_campaign_has_no_expected_end(
    stop: Callable[[Work], CampaignRecord], why: str
) -> None:
    world = world_of(8)
    start(world, TWO_AT_ONCE)
    world.advance("1h")
    assert seen(world)["eta"]["at"]
    steer(world, stop)
    assert (seen(world)["eta"]["at"], seen(world)["eta"]["unknown"]) == (None, why)


def test_stages_have_their_course_soak_and_beginning() -> None:
    world = world_of(8)
    start(world, STAGES)
    before = seen(world)["stages"]
    assert [(stage["course"], stage["hosts"], stage["left"]) for stage in before] == [
        ("current", 1, 1),
        ("coming", 7, 7),
    ]
    assert before[1]["begins"] is None
    while not campaign(world).done:
        world.advance("1m")
    canary, rest = seen(world)["stages"]
    assert (canary["left"], canary["approval"], canary["approved"]) == (0, True, False)
    assert canary["soaks_until"]
    assert rest["begins"] >= canary["soaks_until"]
    assert "campaign-approve" in seen(world)["verbs"]
    steer(world, lambda work: campaigns.approve(work, "bios", 2), actor="bob")
    world.advance("2h")
    assert [stage["course"] for stage in seen(world)["stages"]] == ["past", "current"]


def test_budgets_show_their_use_by_group() -> None:
    world = world_of(8)
    start(world, STAGES)
    found = {(e["kind"], e["subject"]): e for e in seen(world)["budgets"]}
    assert found["in-flight", None]["used"] == 1
    assert found["in-flight", None]["full"] is False
    assert found["ramp", None]["full"] is True
    rack = found["group", "rack=r0"]
    assert (rack["used"], rack["most"], rack["full"]) == (1, 1, True)
    # A stage before the last one tolerates no failure, and no VM that is down.
    assert found["failures", None]["most"] == 0
    assert found["vms-down", None]["most"] == 0


def test_failed_host_uses_one_place_also_while_its_vms_recover() -> None:
    driver = SimulatedDriver()
    driver.inject(parse_fault("work fail"))
    world = world_of(8, driver=driver)
    steps = "[campaign.steps]\nwork = { step = 'flash', version = '2' }\n"
    start(world, steps + STAGES, impact="live-migrate")
    while not campaign(world).failed:
        world.advance("10s")
    (host,) = campaign(world).failed_hosts
    room = world.read(lambda reader: reader.get(Capacity, host))
    assert room is not None
    assert room.works, "its operation has not ended"
    for _ in range(2):
        (rack,) = (
            budget for budget in seen(world)["budgets"] if budget["kind"] == "group"
        )
        assert (rack["used"], rack["failed"]) == (1, 1)
        world.advance("1h")


def test_windows_and_blackouts_are_times_in_the_span() -> None:
    world = world_of(4)
    start(world, TWO_AT_ONCE)
    steer(
        world,
        lambda work: campaigns_set(
            work, blackout="trading mon,tue,wed,thu,fri,sat,sun 09:00 8h"
        ),
    )
    blackouts = seen(world)["blackouts"]
    assert {blackout["name"] for blackout in blackouts} == {"trading"}
    assert {blackout["campaign"] for blackout in blackouts} == {"bios"}
    assert len(blackouts) >= 3
    begins = [blackout["begins"] for blackout in blackouts]
    assert begins == sorted(begins)
    one = seen(world, first=world.now, last=world.now + HOUR)["blackouts"]
    assert len(one) == 1


def campaigns_set(work: Work, **values: str) -> CampaignRecord:
    CAMPAIGN_DECISIONS["campaign-set"](
        work, VerbRequest(targets=("bios",), values=values)
    )
    return campaigns.find(work.tx, "bios")


class UndoneError(Exception):
    """Rolls a decision back."""


ARGUMENTS: dict[str, dict[str, Any]] = {
    "campaign-approve": {"stage": 2},
    "campaign-retry": {"failed": True},
    "campaign-skip": {"hosts": ("h0007",)},
    "campaign-set": {"in_flight": "3"},
    "campaign-resume": {"all_owners": True},
}


def is_allowed(world: World, verb: str) -> bool:
    """Return whether the decision of a verb accepts it, and change nothing."""

    def decide(work: Work) -> None:
        request = VerbRequest(targets=("bios",), values=ARGUMENTS.get(verb, {}))
        CAMPAIGN_DECISIONS[verb](work, request)
        raise UndoneError

    try:
        world.order(decide, actor="bob", reason="a reason")
    except UndoneError:
        return True
    except (RefusedError, BadRequestError):
        return False
    raise AssertionError("it was committed")


@pytest.mark.parametrize("state", ["running", "paused", "halted", "aborted", "soaking"])
def test_verbs_are_those_that_the_decisions_accept(state: str) -> None:
    world = world_of(8)
    start(world, STAGES)
    if state == "soaking":
        while not campaign(world).done:
            world.advance("1m")
    elif state != "running":
        verb = {"paused": campaigns.pause, "halted": campaigns.halt}
        steer(world, lambda work: verb.get(state, campaigns.abort)(work, "bios"))
    asked = {
        *("campaign-pause", "campaign-halt", "campaign-resume", "campaign-abort"),
        *("campaign-approve", "campaign-retry", "campaign-skip", "campaign-set"),
    }
    allowed = {verb for verb in asked if is_allowed(world, verb)}
    assert allowed == set(seen(world)["verbs"]) - {"campaign-add"}


def test_hosts_are_not_added_while_a_campaign_is_started() -> None:
    world = world_of(4)
    start(world, TWO_AT_ONCE)
    assert "campaign-add" in seen(world)["verbs"]

    def read(reader: Any) -> dict[str, Any]:
        expected = expected_of(reader, campaign(world), now=world.now)
        # As between two pages of a long list.
        expected.request = replace(expected.request, hosts_unplanned=1)
        return outlook(expected, BOB, first=0, last=0)

    assert "campaign-add" not in world.read(read)["verbs"]


def test_starter_is_not_offered_the_approval_of_a_second_person() -> None:
    world = world_of(8)
    world.plane.policy = replace(world.plane.policy, second_person=True)
    start(world, STAGES)
    while not campaign(world).done:
        world.advance("1m")
    starter = Asker(actor=campaign(world).actor, second_person=True)
    bob = Asker(actor=operator("bob"), second_person=True)
    assert "campaign-approve" not in seen(world, starter)["verbs"]
    assert "campaign-approve" in seen(world, bob)["verbs"]
    assert is_allowed(world, "campaign-approve")


def test_starter_is_not_offered_to_override_a_check() -> None:
    world = world_of(4)
    start(world, TWO_AT_ONCE)
    steer(world, lambda work: campaigns.pause(work, "bios"))
    starter = Asker(actor=campaign(world).actor, second_person=True)

    def verbs(asker: Asker, *checks: str) -> list[str]:
        def read(reader: Any) -> dict[str, Any]:
            checked = replace(campaign(world), checks=checks)
            expected = expected_of(reader, checked, now=world.now)
            return outlook(expected, asker, first=0, last=0)

        return world.read(read)["verbs"]

    bob = Asker(actor=operator("bob"), second_person=True)
    assert "campaign-override" not in verbs(starter, "errors")
    assert "campaign-override" in verbs(replace(starter, second_person=False), "errors")
    assert "campaign-override" in verbs(bob, "errors")
    assert "campaign-override" not in verbs(bob)


def test_no_host_is_skipped_when_the_last_ones_have_started() -> None:
    world = world_of(1)
    start(world, TWO_AT_ONCE)
    assert "campaign-skip" in seen(world)["verbs"]
    started: list[Operation] = []
    while not started:
        world.advance("1m")
        request = campaign(world).request
        started = world.read(
            lambda reader, of=request: reader.select(kinds.STARTED_OF_REQUEST, of)
        )
    assert "campaign-skip" not in seen(world)["verbs"]
    with pytest.raises(RefusedError, match="has started"):
        steer(world, lambda work: campaigns.skip(work, "bios", [started[0].host]))
