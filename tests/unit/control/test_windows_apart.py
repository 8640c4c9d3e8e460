"""Hosts whose tenants' windows never meet: they wait, and everybody learns why."""

import json
from typing import Any

import pytest

from forewarn.campaigns.text import CampaignText
from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.requests import campaign_starts, choices, windows
from forewarn.control.transactions.work import Who
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.window_fields import window_of
from forewarn.instants import DAY, HOUR, parse_instant
from forewarn.protocol.actors import operator, tenant_user
from forewarn.protocol.operations import Operation, OperationState
from forewarn.reporting import attention, campaign_plans, campaign_reports, explanations
from forewarn.store.port import Reader
from tests.support.campaigns import (
    ONE_STAGE,
    campaign,
    file_of,
    start_text,
    waits_for,
)
from tests.support.worlds import LastingStore, World

pytestmark = pytest.mark.clause("4.8")

NIGHTS = """
[[campaign.window]]
days = ["mon", "tue", "wed", "thu"]
start = "22:00"
length = "7h"
[campaign.expect]
typical = "10m"
slow = "30m"
"""

SUNDAY, NIGHT, MORNING = "sun 10:00 2h", "21:00 3h", "06:00 1h"


def table(line: str) -> str:
    *days, start, length = line.split()
    on = f'days = ["{days[0]}"], ' if days else ""
    return f'{{ {on}start = "{start}", length = "{length}" }}'


def fleet(*windows: str) -> str:
    """Return a host for each line, with a VM of shop and of bank; the line is a window of
    shop, or of both: `22:00 2h / 06:00 1h`."""
    text = '[[tenant]]\nname = "shop"\n[[tenant]]\nname = "bank"\n'
    for number, line in enumerate(windows):
        lines = (*line.split(" / "), "")
        text += f'[[host]]\nname = "h{number}"\n'
        for tenant, name, own in zip(
            ("shop", "bank"), (f"web{number}", f"db{number}"), lines, strict=False
        ):
            kept = f"maintenance_window = {table(own)}\n" if own else ""
            text += (
                f'[[scope]]\nname = "{name}"\ntenant = "{tenant}"\n'
                f'kind = "availability-set"\n{kept}'
                f'[[vm]]\nname = "{name}_0"\nhost = "h{number}"\nscope = "{name}"\n'
            )
    return text


def monday(text: str) -> World:
    """Return a world in which it is Monday noon."""
    store = LastingStore()
    world = World(store=lambda: store, driver=SimulatedDriver(), fleet=text)
    world.advance((parse_instant("2040-01-02T12:00:00Z") - world.now) % (7 * DAY))
    return world


def of(world: World, host: str) -> Operation:
    return next(operation for operation in world.operations() if operation.host == host)


def states(world: World) -> dict[str, OperationState]:
    return {operation.host: operation.state for operation in world.operations()}


def set_window(world: World, scope: str, *lines: str) -> None:
    wanted = tuple(map(window_of, lines))
    world.order(lambda work: windows.set_windows(work, scope, wanted))
    world.settle()


def plan(world: World, written: str) -> dict[str, Any]:
    text = CampaignText(name="campaign.toml", text=written)
    request = campaign_starts.plan_request(text, world.plane.policy, now=world.now)
    return json.loads(
        world.read(lambda reader: campaign_plans.planned(reader, request).text)
    )


def explained(world: World, name: str, tenant: str = "") -> dict[str, Any]:
    def ask(reader: Reader) -> dict[str, Any]:
        seen = TenantReader(reader, tenant) if tenant else reader
        return explanations.explain(seen, name, now=world.now)

    return world.read(ask)


def why_unknown(world: World, tenant: str, vm: str) -> str:
    def ask(reader: Reader) -> str:
        page = TenantReader(reader, tenant).upcoming(
            scope="", vm=vm, after="", limit=9, now=world.now
        )
        return str(page.work[0].why_unknown)

    return world.read(ask)


APART = (
    "the maintenance windows of scopes web0 are not open together with those of campaign "
    "bios within 14 d"
)


def test_window_that_is_never_open_in_those_of_the_campaign_is_the_reason() -> None:
    world = monday(fleet(SUNDAY, "", NIGHT))
    start_text(world, file_of(ONE_STAGE + NIGHTS))
    world.advance(3 * DAY)
    ends = states(world)
    assert (ends["h1"], ends["h2"]) == (
        OperationState.DONE,
        OperationState.DONE,
    )
    assert ends["h0"] is OperationState.PLANNED
    # On each day of the next two weeks, also on Sunday and between the windows.
    for _ in range(28):
        world.advance(12 * HOUR)
        name = of(world, "h0").operation_id
        found = explained(world, name)
        assert APART in found["blocked_by"], found
        (problem,) = (
            problem
            for problem in world.read(
                lambda reader: attention.problems(reader, now=world.now)
            )
            if problem.kind is attention.ProblemKind.NO_COMMON_WINDOW
        )
        assert (problem.hosts, problem.tenants) == (("h0",), ("shop",))
        assert problem.text.startswith(f"host h0 cannot be maintained: {APART}; ")


def test_everybody_learns_why_it_waits_and_what_ends_it() -> None:
    world = monday(fleet(SUNDAY))
    start_text(world, file_of(ONE_STAGE + NIGHTS))
    world.advance(DAY)
    hint = (
        "it does not begin by itself: if its tenant agrees, run `forewarn expedite web0_0 "
        "--reason TEXT`, or set other windows of scope web0 with `forewarn window set`"
    )
    assert hint in explained(world, of(world, "h0").operation_id)["status"]
    assert waits_for(world) == (
        f"no host of the stage can be announced now: host h0 waits: {APART}"
    )
    report = world.read(
        lambda reader: campaign_reports.attempts(
            reader, campaign(world), after="", limit=9, now=world.now
        )
    )
    assert [attempt["note"] for attempt in report["attempts"]] == [APART]
    # Its own window is the reason for shop; bank, which has none, learns of no window.
    assert why_unknown(world, "shop", "web0_0") == "WhyUnknown.NO_OPENING"
    assert why_unknown(world, "bank", "db0_0") == "WhyUnknown.HELD"


def test_other_window_lets_it_begin_in_the_next_night() -> None:
    world = monday(fleet(SUNDAY))
    start_text(world, file_of(ONE_STAGE + NIGHTS))
    world.advance(DAY)
    set_window(world, "web0", SUNDAY, "mon,tue,wed,thu 22:00 7h UTC")
    world.advance(DAY)
    assert states(world) == {"h0": OperationState.DONE}


def test_its_tenant_expedites_it() -> None:
    world = monday(fleet(SUNDAY))
    start_text(world, file_of(ONE_STAGE + NIGHTS))
    world.advance(DAY)
    world.plane.order(
        Who(actor=tenant_user("shop", "ci"), reason="drained"),
        lambda work: choices.expedite(work, choices.target_of(work, "web0_0", "vm")),
        now=world.now,
    )
    world.settle()
    world.advance(DAY)
    assert states(world) == {"h0": OperationState.DONE}


def test_overlap_that_is_too_short_for_the_work_is_none() -> None:
    world = monday(fleet("04:40 20m", "04:20 20m"))
    start_text(world, file_of(ONE_STAGE + NIGHTS))
    world.advance(DAY)
    assert states(world)["h0"] is OperationState.PLANNED
    assert states(world)["h1"] is OperationState.DONE


def test_window_that_changes_after_the_announcement_names_the_reason() -> None:
    world = monday(fleet("22:00 2h"))
    start_text(world, file_of(ONE_STAGE + NIGHTS))
    world.advance(9 * HOUR + 50 * 60 * 1_000_000)
    assert states(world)["h0"] is OperationState.ANNOUNCED
    set_window(world, "web0", SUNDAY)
    world.advance(12 * HOUR)
    assert states(world)["h0"] is OperationState.READY
    name = of(world, "h0").operation_id
    assert APART in explained(world, name)["blocked_by"]
    own = explained(world, "web0_0", tenant="shop")
    assert (
        "the maintenance windows of scopes web0 are not open together with the times of "
        "the platform within 14 d"
    ) in own["blocked_by"]
    other = explained(world, "db0_0", tenant="bank")
    assert "web0" not in str(other)


def test_plan_names_hosts_whose_windows_never_meet_at_the_size_of_a_fleet() -> None:
    apart = [SUNDAY] * 12 + [f"{NIGHT} / {MORNING}"] * 28
    world = monday(fleet(*apart, *[NIGHT] * 200, *[""] * 160))
    told = plan(world, file_of(ONE_STAGE + NIGHTS))
    assert told["host_count"] == 400
    assert sum(group["host_count"] for group in told["apart"]) == 40
    found = {group["hosts"][0]: group for group in told["apart"]}
    assert found["h0"] == {
        "scopes": ["web0"],
        "tenants": ["shop"],
        "with_campaign": True,
        "host_count": 1,
        "hosts": ["h0"],
        "message": f"1 host would never begin: {APART} (tenants: shop)",
        "hint": "Run `forewarn window set web0 --window 'mon,tue,wed,thu 22:00 7h UTC' "
        "--reason TEXT` if its tenant agrees, or exclude the hosts with [campaign.select] "
        "except.",
    }
    assert found["h12"]["message"] == (
        "1 host would never begin: the maintenance windows of scopes db12, web12 are not "
        "open together within 14 d (tenants: bank, shop)"
    )
    assert found["h12"]["hint"].startswith(
        "Run `forewarn window set web12 --window '06:00 1h UTC' --reason TEXT`"
    )


def test_hint_of_a_plan_works() -> None:
    world = monday(fleet(SUNDAY, f"{NIGHT} / {MORNING}"))
    set_window(world, "web0", "mon,tue,wed,thu 22:00 7h UTC")
    set_window(world, "web1", MORNING)
    assert plan(world, file_of(ONE_STAGE))["apart"] == []


@pytest.mark.parametrize("more", ["", "emergency = true\n"])
def test_emergency_waits_for_no_window_of_tenants(more: str) -> None:
    world = monday(fleet(SUNDAY))
    written = file_of(ONE_STAGE + NIGHTS).replace("[[", f"{more}[[", 1)
    assert bool(plan(world, written)["apart"]) is not bool(more)


def test_who_gives_the_hint_may_follow_it_as_an_operator() -> None:
    world = monday(fleet(SUNDAY))
    start_text(world, file_of(ONE_STAGE + NIGHTS))
    world.advance(DAY)
    world.plane.order(
        Who(actor=operator("alice"), reason="shop has agreed"),
        lambda work: choices.expedite(work, choices.target_of(work, "web0_0", "vm")),
        now=world.now,
    )
    world.settle()
    world.advance(DAY)
    assert states(world) == {"h0": OperationState.DONE}
