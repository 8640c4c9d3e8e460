"""A tenant's list of coming work: its VMs, the impact, and when."""

from collections import Counter
from typing import Any

import pytest

from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.redaction.upcoming import VMS_LOOKED_MAX
from forewarn.control.requests import brake, campaigns, choices, windows
from forewarn.control.transactions.work import Who, Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.window_fields import window_of
from forewarn.instants import DAY, HOUR, Micros, parse_instant
from forewarn.protocol.actors import tenant_user
from forewarn.protocol.errors import NotFoundError
from forewarn.protocol.operations import Action
from forewarn.reporting.explanations import explain
from forewarn.reporting.reports import operation_report
from forewarn.reporting.upcoming import upcoming_report
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Reader
from tests.support.campaigns import ONE_STAGE, start, steer
from tests.support.counted import Counted
from tests.support.rollouts import roll_out, world_of
from tests.support.worlds import World

HELD = "the platform holds it for now"

EXPECT = '[campaign.expect]\ntypical = "20m"\nslow = "30m"\n'
NIGHTS = '[[campaign.window]]\nstart = "22:00"\nlength = "7h"\n'

SHARED = """
[[tenant]]
name = "shop"
[[tenant]]
name = "bank"
""" + "".join(
    f'[[scope]]\nname = "{scope}"\ntenant = "{tenant}"\nkind = "availability-set"\n'
    for scope, tenant in (("web", "shop"), ("db", "bank"))
)


def shared(hosts: int) -> World:
    """Return a world of hosts that each have a VM of both tenants."""
    text = SHARED
    for number in range(hosts):
        text += f'[[host]]\nname = "h{number:04}"\n'
        for scope in ("web", "db"):
            text += (
                f'[[vm]]\nname = "{scope}_{number}"\nhost = "h{number:04}"\n'
                f'scope = "{scope}"\nfault_domain = {number}\n'
            )
    return World(store=MemoryStore, driver=SimulatedDriver(), fleet=text)


def upcoming(
    world: World, tenant: str = "shop", *, limit: int = VMS_LOOKED_MAX, **only: str
) -> list[dict[str, Any]]:
    """Return the whole list, page by page."""
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        asked = {"scope": "", "vm": "", **only, "after": after}

        def ask(reader: Reader, asked: dict[str, str] = asked) -> Any:
            own = TenantReader(reader, tenant)
            return own.upcoming(**asked, limit=limit, now=world.now)

        page = world.read(ask)
        found += map(upcoming_report, page.work)
        after = page.next
        if not after:
            return found


def one(world: World, vm: str, tenant: str = "shop") -> dict[str, Any]:
    (found,) = upcoming(world, tenant, vm=vm)
    return found


def at(text: str | None) -> Micros:
    assert text is not None
    return parse_instant(text)


def as_tenant(world: World, decide: Any, tenant: str = "shop") -> None:
    who = Who(actor=tenant_user(tenant, "ci"), reason="month end")
    world.plane.order(who, decide, now=world.now)
    world.settle()


def set_window(world: World, scope: str, line: str) -> None:
    world.order(lambda work: windows.set_windows(work, scope, (window_of(line),)))
    world.settle()


def test_nothing_is_coming_without_maintenance() -> None:
    assert upcoming(shared(2)) == []


def test_list_has_announced_and_planned_work() -> None:
    world = shared(3)
    start(world, EXPECT + ONE_STAGE)
    first, second, _ = upcoming(world)
    assert (first["vm"], first["state"], first["impact"]) == (
        *("web_0", "Announced"),
        "reboot",
    )
    assert at(first["earliest"]) == world.operations()[0].not_before
    assert (second["vm"], second["state"], second["operation"]) == (
        *("web_1", "Planned"),
        None,
    )
    # The notice of a reboot is 15 minutes.
    assert at(second["earliest"]) >= world.now + HOUR // 4 - 1_000_000
    for row in (first, second):
        assert at(row["earliest"]) < at(row["latest"]) < world.now + 2 * DAY
        assert at(row["latest"]) % DAY == 0


def test_each_host_begins_between_its_earliest_and_latest_time() -> None:
    world = shared(8)
    start(world, EXPECT + NIGHTS + ONE_STAGE)
    told = {row["vm"]: row for row in upcoming(world)}
    assert len(told) == 8
    world.advance("3d")
    for operation in world.operations():
        (vm,) = (name for name in operation.vms if name.startswith("web"))
        assert operation.started_at >= at(told[vm]["earliest"]), vm
        assert operation.started_at <= at(told[vm]["latest"]), vm


def test_the_tenants_window_and_deferral_count() -> None:
    world = shared(3)
    start(world, EXPECT + ONE_STAGE)
    before = one(world, "web_2")
    set_window(world, "web", "sat 02:00 4h")
    during = one(world, "web_2")
    opens = at(during["earliest"])
    assert opens > at(before["earliest"])
    assert opens % DAY == 2 * HOUR
    assert (opens // DAY + 3) % 7 == 5  # 1970-01-01 was a Thursday
    assert at(during["latest"]) > opens
    world.order(lambda work: windows.clear_windows(work, "web"))
    world.settle()
    until = world.now + 3 * DAY

    def decide(work: Work) -> object:
        return choices.defer(work, choices.target_of(work, "web_2"), until)

    as_tenant(world, decide)
    assert at(one(world, "web_2")["earliest"]) == until // 1_000_000 * 1_000_000
    assert at(one(world, "web_2")["latest"]) > until


def test_window_of_another_tenant_hides_the_latest_time_and_nothing_else() -> None:
    world = shared(3)
    start(world, EXPECT + ONE_STAGE)
    before = one(world, "web_2")
    set_window(world, "db", "sat 02:00 4h")
    hidden = {"latest": None, "held": True, "why_unknown": HELD}
    assert one(world, "web_2") == {**before, **hidden}
    assert at(one(world, "db_2", "bank")["latest"])


def test_window_of_the_campaign_counts_for_all() -> None:
    world = shared(2)
    start(world, EXPECT + NIGHTS.replace("22:00", "10:00") + ONE_STAGE)
    for tenant, vm in (("shop", "web_1"), ("bank", "db_1")):
        told = one(world, vm, tenant)
        assert at(told["earliest"]) % DAY == 10 * HOUR
        assert "bios" not in str(told)


@pytest.mark.parametrize("stop", ["pause", "brake", "approval"])
def test_latest_time_is_unknown_if_an_operator_must_act(stop: str) -> None:
    world = shared(4)
    stages = "[[campaign.stage]]\nhosts = 1\napproval = true\n" + ONE_STAGE
    start(world, EXPECT + (stages if stop == "approval" else ONE_STAGE))
    if stop == "pause":
        steer(world, lambda work: campaigns.pause(work, "bios"))
    if stop == "brake":
        world.order(brake.put_on, reason="power is unstable")
        world.settle()
    told = one(world, "web_3")
    assert (told["latest"], told["held"], told["why_unknown"]) == (None, True, HELD)
    assert at(told["earliest"]) >= world.now
    # Whatever holds it, a tenant reads the same.
    assert "web_3" not in {row["vm"] for row in upcoming(world, "bank")}
    assert one(world, "db_3", "bank")["why_unknown"] == HELD


def test_plain_rollout_has_no_latest_time_until_its_pace_is_known() -> None:
    world = world_of([{"web": number} for number in range(30)])
    roll_out(world, 30, action=Action.REBOOT)
    last = "web-29"
    told = one(world, last)
    assert (told["latest"], told["held"]) == (None, False)
    assert told["why_unknown"] == "there is no estimate yet"
    world.advance("6h")
    told = one(world, last)
    world.advance("2d")
    (done,) = [operation for operation in world.operations() if last in operation.vms]
    assert at(told["earliest"]) <= done.started_at <= at(told["latest"])


def test_work_without_impact_is_not_listed() -> None:
    world = shared(2)
    steps = '[campaign.steps]\nwork = { step = "flash", version = "2.19" }\n'
    start(world, EXPECT + steps + ONE_STAGE, impact="none")
    assert len(world.operations()) == 2
    assert upcoming(world) == []


def test_pages_have_the_whole_list() -> None:
    world = world_of([{"web": number, f"s{number}": 0} for number in range(5)])
    start(world, EXPECT + ONE_STAGE)
    whole = upcoming(world)
    assert len(whole) == 10
    for limit in (1, 2, 3):
        assert upcoming(world, limit=limit) == whole
    assert upcoming(world, limit=1, scope="web") == [
        row for row in whole if row["scope"] == "web"
    ]
    assert upcoming(world, scope="s1", vm="web-1") == []


def test_objects_of_others_are_not_found() -> None:
    world = shared(2)
    start(world, EXPECT + ONE_STAGE)
    assert upcoming(world, scope="db") == upcoming(world, vm="db_1") == []
    assert {row["vm"] for row in upcoming(world)} == {"web_0", "web_1"}


def test_earliest_time_does_not_slide_with_each_look() -> None:
    world = shared(3)
    start(world, EXPECT + ONE_STAGE)
    first, second, third = upcoming(world)
    assert second["earliest"] == third["earliest"]
    for _ in range(2):
        world.advance("4m")
        assert upcoming(world) == [first, second, third]
    world.order(brake.put_on, reason="power is unstable")
    world.advance("1h")
    # It is due, and held.
    due = one(world, "web_0")
    assert (due["earliest"], due["held"]) == (first["earliest"], True)
    assert one(world, "web_1")["earliest"] == second["earliest"]


def test_windows_without_a_common_opening_are_the_reason() -> None:
    world = shared(2)
    windows_apart = (
        '[[campaign.window]]\ndays = ["sat"]\nstart = "10:00"\nlength = "1h"\n'
    )
    start(world, EXPECT + windows_apart + ONE_STAGE)
    set_window(world, "web", "sun 10:00 1h")
    told = one(world, "web_1")
    assert (told["earliest"], told["latest"], told["held"]) == (None, None, False)
    assert told["why_unknown"] == "the maintenance windows have no common opening"
    assert one(world, "db_1", "bank")["earliest"]


def test_text_for_tenants_reaches_them_and_the_reason_does_not() -> None:
    world = shared(2)
    world.vm("web_0").get()
    start(
        world,
        'description = "We replace a part of the firmware."\n' + EXPECT + ONE_STAGE,
    )
    for tenant, vm in (("shop", "web_0"), ("bank", "db_1")):
        told = one(world, vm, tenant)
        assert told["description"] == "We replace a part of the firmware."
        assert "CVE" not in str(told)
    (event,) = world.vm("web_0").get().events
    assert event["Description"] == "We replace a part of the firmware."
    assert one(world, "web_1")["state"] == "Planned"


def test_emergency_stays_one_with_a_text_for_tenants() -> None:
    world = shared(1)
    text = 'emergency = true\ndescription = "A fix."\n'
    start(world, text + EXPECT + ONE_STAGE)
    assert one(world, "web_0")["description"] == (
        "Host server is undergoing an emergency repair. A fix."
    )


def test_tenant_sees_whether_work_was_cancelled_or_postponed() -> None:
    world = shared(1)
    start(world, EXPECT + ONE_STAGE)
    until = world.now + 2 * DAY

    def decide(work: Work) -> object:
        return choices.defer(work, choices.target_of(work, "db_0"), until)

    as_tenant(world, decide, "bank")
    postponed = ended(world)
    assert postponed == [("Cancelled", "postponed, to be announced again")]
    world.advance(2 * DAY - HOUR // 12)
    steer(world, lambda work: campaigns.abort(work, "bios"))
    world.advance("1h")
    assert sorted(ended(world)) == [("Cancelled", ""), *postponed]


def ended(world: World) -> list[tuple[str, str]]:
    """Return the ended operations of the shop, with their notes."""

    def ask(reader: Reader) -> list[tuple[str, str]]:
        own = TenantReader(reader, "shop")
        operations = own.select(kinds.ALL_OPERATIONS, limit=100)
        told = [
            operation_report(own, operation, now=world.now) for operation in operations
        ]
        return [(row["state"], row["note"]) for row in told]

    return world.read(ask)


def test_explanation_of_a_vm_has_its_coming_work() -> None:
    world = shared(3)
    start(world, EXPECT + ONE_STAGE)

    def explained(tenant: str = "") -> dict[str, Any]:
        def ask(reader: Reader) -> dict[str, Any]:
            seen = TenantReader(reader, tenant) if tenant else reader
            return explain(seen, "web_2", now=world.now)

        return world.read(ask)

    told = explained("shop")
    assert told["upcoming"] == upcoming(world, vm="web_2") == explained()["upcoming"]
    assert "h0002" not in str(told)
    assert "bios" not in str(told)
    with pytest.raises(NotFoundError):
        explained("bank")


ROWS_PER_VM_MAX = 40
"""Rows for a VM on a host with 15: the VMs there, its operations, and the rollout."""


def test_cost_depends_on_the_tenants_vms_and_not_on_the_fleet() -> None:
    """A tenant has ten of 6,000 VMs on 400 hosts. All hosts wait."""
    costs = {hosts: rows_read(hosts) for hosts in (40, 400)}
    assert costs[400] <= costs[40] + 10
    assert costs[400] <= ROWS_PER_VM_MAX * 10


def rows_read(hosts: int) -> int:
    text = SHARED
    for number in range(hosts):
        text += f'[[host]]\nname = "h{number:04}"\n'
        for place in range(15):
            scope = "web" if place == 0 and number < 10 else "db"
            text += (
                f'[[vm]]\nname = "vm{number:04}_{place}"\nhost = "h{number:04}"\n'
                f'scope = "{scope}"\nfault_domain = {number}\n'
            )
    world = World(store=MemoryStore, driver=SimulatedDriver(), fleet=text)
    start(world, EXPECT + ONE_STAGE)
    rows = Counter[str]()

    def ask(reader: Reader) -> int:
        own = TenantReader(Counted(reader, rows).reader, "shop")
        page = own.upcoming(scope="", vm="", after="", limit=200, now=world.now)
        return len(page.work)

    assert world.read(ask) == 10
    return rows.total()
