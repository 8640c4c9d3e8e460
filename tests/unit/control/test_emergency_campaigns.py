"""Emergency campaigns start at once, and the history names what they do not keep to."""

import pytest

from forewarn.campaigns.file import read_campaign
from forewarn.campaigns.lifecycle import CampaignState
from forewarn.control.requests import (
    campaign_changes,
    campaigns,
    choices,
    cordons,
    verbs,
    windows,
)
from forewarn.control.requests.verbs import campaign_hosts
from forewarn.control.rules.policy import Policy
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.instants import HOUR, format_instant
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import STARTED_STATES, Action, OperationState
from forewarn.reporting.campaigns import campaign_report
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import every
from forewarn.store.records import AuditKind
from forewarn.wording import operators
from tests.support.campaigns import (
    ONE_STAGE,
    campaign,
    file_of,
    in_work,
    start,
    start_text,
    steer,
    waits_for,
)
from tests.support.rollouts import fleet
from tests.support.worlds import World

EMERGENCY = "emergency = true\n"


def hour_of(world: World, hours: int) -> str:
    """Return the hour of the day that is so many hours ahead, in UTC."""
    return f"{format_instant(world.now + hours * HOUR)[11:13]}:00"


def closed(world: World) -> str:
    """Return a window and a blackout that let nothing begin for hours."""
    return (
        f'[[campaign.window]]\nstart = "{hour_of(world, 12)}"\nlength = "2h"\n'
        'timezone = "UTC"\n'
        f'[[campaign.blackout]]\nname = "release"\nstart = "{hour_of(world, -2)}"\n'
        'length = "12h"\ntimezone = "UTC"\n'
    )


def new_world(
    hosts: int = 3,
    policy: Policy | None = None,
    driver: SimulatedDriver | None = None,
) -> World:
    """Return hosts with VMs of their own scopes; the window of the first one is closed."""
    found = fleet([{f"s{number}": 0} for number in range(hosts)])
    bank = (
        '\n[[scope]]\nname = "bank"\ntenant = "shop"\nkind = "availability-set"\n'
        'maintenance_window = { start = "HOUR", length = "1h", timezone = "UTC" }\n'
        '[[vm]]\nname = "bank_0"\nhost = "h0000"\nscope = "bank"\nfault_domain = 0\n'
    )
    empty = World(store=MemoryStore, driver=SimulatedDriver(), fleet="")
    return World(
        store=MemoryStore,
        driver=driver or SimulatedDriver(),
        fleet=found + bank.replace("HOUR", hour_of(empty, 12)),
        policy=policy,
    )


def history(world: World, kind: AuditKind) -> list[str]:
    """Return the entries of a kind, in the words of the history."""
    return [
        operators.detail_of(entry)
        for entry in world.read(lambda reader: list(every(reader, kinds.ALL_AUDIT)))
        if entry.kind is kind
    ]


def test_windows_blackouts_and_windows_of_tenants_do_not_stop_an_emergency() -> None:
    world = new_world()
    start(world, closed(world) + ONE_STAGE, name="routine")
    world.advance("1h")
    assert in_work(world) == []
    world = new_world()
    start(world, EMERGENCY + closed(world) + ONE_STAGE)
    begun = world.now
    while campaign(world).state is not CampaignState.DONE:
        world.advance("5m")
        assert world.now < begun + 6 * HOUR, waits_for(world)
    assert all("emergency" in operation.description for operation in world.operations())


def test_the_history_names_all_that_an_emergency_does_not_keep_to() -> None:
    world = new_world()
    start(world, EMERGENCY + closed(world) + ONE_STAGE)
    (begun,) = history(world, AuditKind.CAMPAIGN_STARTED)
    assert begun.startswith("3 hosts, in an emergency despite window ")
    assert begun.endswith(", blackout release")
    world.advance("4h")
    (ignored,) = history(world, AuditKind.CAMPAIGN_WINDOWS_IGNORED)
    assert ignored.startswith("the maintenance window of scope bank opens at ")


def test_the_history_names_deferrals_that_an_emergency_does_not_keep_to() -> None:
    world = new_world()
    hosts = ["h0002"]
    options = verbs.OrderOptions()
    world.order(lambda work: verbs.maintain(work, hosts, Action.FREEZE, options))
    world.settle()
    vm, until = (
        world.read(lambda reader: reader.select(kinds.VMS_ON_HOST, "h0002")[0].name),
        world.now + 30 * HOUR,
    )
    world.order(
        lambda work: choices.defer(work, choices.target_of(work, vm, "vm"), until),
        reason="month end",
    )
    start(world, EMERGENCY + ONE_STAGE)
    world.advance("4h")
    ignored = history(world, AuditKind.CAMPAIGN_WINDOWS_IGNORED)
    assert any(vm in text and format_instant(until) in text for text in ignored)


def test_the_budget_unavailable_stays() -> None:
    world = new_world()
    world.order(lambda work: cordons.cordon(work, "h0002"), actor="alice")
    start(world, f"{EMERGENCY}[campaign.budget]\nunavailable = 1\n{ONE_STAGE}")
    world.advance("1h")
    assert in_work(world) == []
    assert waits_for(world).startswith(
        "campaign bios: 1 of 1 hosts are away for any cause"
    )


def test_an_emergency_takes_no_blackout_and_no_hosts() -> None:
    world = new_world()
    start(world, EMERGENCY + ONE_STAGE)
    old = campaign(world)
    with pytest.raises(RefusedError, match="which no window and no blackout stops"):
        world.order(
            lambda work: campaign_changes.change(work, old, {"remove_blackout": "x"})
        )
    with pytest.raises(RefusedError, match="takes no more hosts"):
        world.order(
            lambda work: campaign_hosts.add_hosts(
                work, "bios", ["h0001"], with_drift=False
            ),
            reason="a reason",
        )
    report = world.read(lambda reader: campaign_report(reader, old, now=world.now))
    assert report["emergency"] is True


def test_an_emergency_goes_before_any_priority() -> None:
    world = new_world(policy=Policy(campaigns_in_flight=1))
    select = 'select = {{ host = ["{}"] }}\n'
    routine = "priority = 9\n" + ONE_STAGE
    all_hosts = "select = { all = true }\n"

    def begin(name: str, host: str, more: str) -> None:
        text = file_of("", name=name).replace(all_hosts, select.format(host))
        start_text(world, text + more)

    begin("first", "h0000", EMERGENCY + ONE_STAGE)
    begin("routine", "h0001", routine)
    begin("bios", "h0002", EMERGENCY + ONE_STAGE)
    while campaign(world, "first").state is not CampaignState.DONE:
        world.advance("1m")
    assert in_work(world) == ["h0002"]
    assert waits_for(world, "routine").startswith(
        "campaign routine: 1 of 1 hosts of all"
    )
    world.order(lambda work: campaigns.halt(work, "bios"), reason="a reason")


def test_a_file_that_is_no_emergency_keeps_its_windows() -> None:
    world = new_world()
    more = closed(world) + ONE_STAGE
    routine = read_campaign(file_of("emergency = false\n" + more), name="a.toml")
    urgent = read_campaign(file_of(EMERGENCY + more), name="a.toml")
    assert len(routine.windows) == len(routine.blackouts) == 1
    assert (routine.ignored, urgent.windows, urgent.blackouts) == ((), (), ())
    assert len(urgent.ignored) == 2


def test_expedited_host_is_still_first_after_a_halt() -> None:
    world = new_world()
    world.order(lambda work: windows.clear_windows(work, "bank"))
    start(world)
    assert in_work(world) == ["h0000"]
    world.order(
        lambda work: choices.expedite(work, choices.target_of(work, "s0", "scope"))
    )
    world.settle()
    steer(world, lambda work: campaigns.halt(work, "bios"))
    assert in_work(world) == []
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=False))
    assert in_work(world) == ["h0000"]


def skipped(world: World, name: str) -> list[str]:
    """Return the hosts that were left out of a campaign."""
    row = campaign(world, name)
    return [
        operation.host
        for operation in world.operations()
        if operation.request == row.request
        and operation.state is OperationState.CANCELLED
    ]


def until_done(world: World, name: str, hours: int = 12) -> None:
    end = world.now + hours * HOUR
    while campaign(world, name).state is not CampaignState.DONE:
        world.advance("5m")
        assert world.now < end, waits_for(world, name)


def test_emergency_takes_the_hosts_of_a_routine_campaign_over() -> None:
    world = new_world(6)
    start(world, ONE_STAGE, name="routine")
    (announced,) = in_work(world)
    assert announced in {"h0000", "h0001", "h0002"}
    text = file_of(EMERGENCY + ONE_STAGE, name="cve")
    start_text(world, text.replace("all = true", 'host = ["h0000", "h0001", "h0002"]'))
    # Its announcement is withdrawn, and the emergency announces the same host.
    assert skipped(world, "routine")[0] in {"h0000", "h0001", "h0002"}
    assert announced in skipped(world, "routine")
    events = {event.operation for event in world.live_events()}
    in_flight = {operation.operation_id: operation for operation in world.operations()}
    of_emergency, of_routine = sorted(
        (in_flight[event] for event in events),
        key=lambda operation: not operation.is_emergency,
    )
    assert of_emergency.host in {"h0000", "h0001", "h0002"}
    assert of_routine.host in {"h0003", "h0004", "h0005"}
    until_done(world, "cve")
    until_done(world, "routine")
    assert campaign(world, "cve").done == 3
    assert (campaign(world, "routine").done, campaign(world, "routine").skipped) == (
        3,
        3,
    )
    (why, *_) = history(world, AuditKind.OPERATION_CANCELLED)
    assert "left out of campaign routine: emergency campaign cve has taken it" in why


def test_emergency_waits_for_a_host_in_work_and_announces_the_others() -> None:
    world = new_world(3)
    start(world, ONE_STAGE, name="routine")
    world.advance("16m")
    (begun,) = [
        operation
        for operation in world.operations()
        if operation.state in STARTED_STATES
    ]
    start_text(world, file_of(EMERGENCY + ONE_STAGE, name="cve"))
    assert begun.host not in skipped(world, "routine")
    until_done(world, "cve")
    until_done(world, "routine")
    assert campaign(world, "cve").done == 3
    assert campaign(world, "routine").done + campaign(world, "routine").skipped == 3
    assert world.operation(begun.operation_id).state is OperationState.DONE


def test_aborted_emergency_gives_its_hosts_back_to_those_that_waited() -> None:
    world = new_world(4, Policy(campaigns_in_flight=1))
    start(world, ONE_STAGE, name="routine")
    world.advance("16m")
    start_text(world, file_of(EMERGENCY + ONE_STAGE, name="cve"))
    steer(world, lambda work: campaigns.pause(work, "cve"))
    world.advance("30m")
    # The routine campaign announces none of them, although the emergency is paused.
    assert in_work(world) == []
    steer(world, lambda work: campaigns.abort(work, "cve"))
    until_done(world, "routine")
    assert campaign(world, "routine").done == 4


def test_emergency_takes_hosts_of_a_rollout_over() -> None:
    world = new_world(3)
    names = ["h0000", "h0001", "h0002"]
    wishes = verbs.OrderOptions()
    result = world.order(
        lambda work: verbs.maintain(work, names, Action.REBOOT, wishes)
    )
    world.settle()
    start_text(world, file_of(EMERGENCY + ONE_STAGE, name="cve"))
    until_done(world, "cve")
    assert campaign(world, "cve").done == 3
    assert campaign(world, result.request_id).has_ended


def test_emergency_is_refused_hosts_that_have_failed_and_the_hint_frees_them() -> None:
    failing = SimulatedDriver()
    world = new_world(3, driver=failing)
    start(
        world,
        ONE_STAGE + "[campaign.tolerance]\nfailures = 2\nin_a_row = 2\n",
        name="r",
    )
    failing.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, times=3))
    while not campaign(world, "r").failed:
        world.advance("1m")
    (failed,) = campaign(world, "r").failed_hosts
    with pytest.raises(RefusedError, match="1 of the hosts have failed") as refused:
        start_text(world, file_of(EMERGENCY + ONE_STAGE, name="cve"))
    assert f"forewarn campaign skip r {failed} --reason" in refused.value.hint
    steer(world, lambda work: campaigns.skip(work, "r", [failed]))
    start_text(world, file_of(EMERGENCY + ONE_STAGE, name="cve"))
    until_done(world, "cve")


def test_history_names_deferrals_in_a_campaign_that_an_emergency_takes_hosts_of() -> (
    None
):
    world = new_world()
    start(world, ONE_STAGE, name="routine")
    waiting = next(
        operation
        for operation in world.operations()
        if operation.host not in in_work(world)
    )
    vm = world.read(
        lambda reader: reader.select(kinds.VMS_ON_HOST, waiting.host)[0].name
    )
    until = world.now + 30 * HOUR
    world.order(
        lambda work: choices.defer(work, choices.target_of(work, vm, "vm"), until),
        reason="month end",
    )
    start_text(world, file_of(EMERGENCY + ONE_STAGE, name="cve"))
    until_done(world, "cve")
    ignored = history(world, AuditKind.CAMPAIGN_WINDOWS_IGNORED)
    assert any(vm in text and format_instant(until) in text for text in ignored)
