"""Sentences of the pages about campaigns that no other test is about."""

from collections import Counter
from dataclasses import replace

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import HaltCause
from forewarn.campaigns.text import CampaignText
from forewarn.checks.board import Board
from forewarn.checks.model import CheckResult, Outcome
from forewarn.control.requests import campaign_changes, campaign_starts, campaigns
from forewarn.control.rules.policy import Policy
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.instants import MINUTE
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import Action
from forewarn.settings.amounts import amount_of
from forewarn.store.memory import MemoryStore
from tests.support.campaigns import (
    ONE_STAGE,
    announced,
    campaign,
    file_of,
    in_work,
    start,
    start_text,
    steer,
    waits_for,
)
from tests.support.rollouts import fleet, name_of, world_of
from tests.support.worlds import World

FOUR = "[campaign.budget]\nin_flight = 4\n"

CHECK = '[[campaign.check]]\nuse = "errors"\n'


def of(hosts: int, driver: SimulatedDriver | None = None) -> World:
    """Return a world of hosts, each with a VM of a scope of its own."""
    return world_of([{f"s{number}": 0} for number in range(hosts)], driver=driver)


def test_two_open_campaigns_have_different_names() -> None:
    """Run a campaign, "Start"."""
    world = of(4)
    select = 'select = {{ host = ["{}"] }}'.format
    one, other = (
        file_of().replace("select = { all = true }", select(name_of(number)))
        for number in (0, 1)
    )
    start_text(world, one)
    with pytest.raises(RefusedError, match="bios"):
        start_text(world, other)
    world.advance("1d")
    assert campaign(world).state is CampaignState.DONE
    start_text(world, other)
    assert campaign(world).state is CampaignState.RUNNING


def test_each_stage_begins_with_one_host_in_flight() -> None:
    """Run a campaign, "Stages"."""
    world = of(16)
    start(world, FOUR + '[[campaign.stage]]\nhosts = 8\nsoak = "1h"\n')
    most = {1: [0], 2: [0]}
    while campaign(world).state is CampaignState.RUNNING:
        world.advance("1m")
        seen = most[min(2, campaign(world).stage)]
        if len(in_work(world)) > seen[-1]:
            seen.append(len(in_work(world)))
    assert most == {1: [0, 1, 2, 4], 2: [0, 1, 2, 4]}


def test_smaller_budget_keeps_announced_hosts_and_announces_none() -> None:
    """Run a campaign, "Change a running campaign"."""
    world = of(16)
    start(world, FOUR + ONE_STAGE)
    while len(announced(world)) < 4:
        world.advance("1m")
    before = set(announced(world))
    values = {"in_flight": "2"}
    steer(world, lambda work: campaign_changes.change(work, campaign(world), values))
    assert set(announced(world)) == before
    while before & set(in_work(world)):
        new = set(in_work(world)) - before
        assert not new or len(in_work(world)) <= 2
        world.advance("1m")
    world.advance("30m")
    assert len(in_work(world)) == 2


def test_a_check_that_was_ignored_counts_again_in_the_next_stage() -> None:
    """Run a campaign, "Checks"."""
    world = of(6)
    world.plane.checks = Board({"errors": 5 * MINUTE})

    def say(outcome: Outcome, minutes: int) -> None:
        for _ in range(minutes):
            result = CheckResult(
                name="errors", outcome=outcome, reason="3 errors", at=world.now
            )
            world.plane.checks.take(result)
            world.advance("1m")

    start(world, CHECK + "[[campaign.stage]]\nhosts = 2\n")
    say(Outcome.PASS, 2)
    say(Outcome.FAIL, 2)
    assert campaign(world).state is CampaignState.HALTED
    steer(
        world,
        lambda work: campaigns.resume(work, "bios", by_all=False, despite=["errors"]),
    )
    say(Outcome.FAIL, 4 * 60)
    row = campaign(world)
    assert (row.stage, row.done) == (2, 2)
    assert row.halt is not None
    assert row.halt.cause is HaltCause.CHECK


def test_all_pauses_end_together_if_that_is_wanted() -> None:
    """Run a campaign, "Pause and halt"."""
    world = of(2)
    start(world)
    for actor in ("alice", "bob"):
        steer(world, lambda work: campaigns.pause(work, "bios"), actor=actor)
    steer(
        world, lambda work: campaigns.resume(work, "bios", by_all=True), actor="carol"
    )
    assert campaign(world).state is CampaignState.RUNNING


def test_third_failure_of_the_last_stage_halts_it_by_default() -> None:
    """Campaign recipes, "One failed host must not end it, and many must"."""
    driver = SimulatedDriver()
    for vm in ("s1-1", "s4-4", "s7-7"):
        driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm=vm, times=3))
    world = of(10, driver)
    start(world)
    while len(campaign(world).failed_hosts) < 2:
        world.advance("1m")
    world.advance("30m")
    assert campaign(world).state is CampaignState.RUNNING
    world.advance("1d")
    row = campaign(world)
    assert row.state is CampaignState.HALTED
    assert row.failed_hosts == (name_of(1), name_of(4), name_of(7))


def test_a_window_that_closes_ends_nothing() -> None:
    """Campaign recipes, "It must continue where it stopped"."""
    world = of(6)
    start(world, '[[campaign.window]]\nstart = "22:00"\nlength = "1h"\n' + ONE_STAGE)
    done: list[int] = []
    for _ in range(6):
        world.advance("1d")
        row = campaign(world)
        done.append(row.done)
        if row.state is CampaignState.RUNNING:
            assert waits_for(world)
    assert 0 < done[0] < done[1] < 6
    assert campaign(world).state is CampaignState.DONE


def test_automatic_order_finishes_a_zone_before_the_next() -> None:
    """Campaign recipes, "A new kernel, zone by zone"."""
    lines = [
        f'[[host]]\nname = "h{number}"\nzone = "z{1 + number % 2}"\n'
        f'[[vm]]\nname = "v{number}"\nhost = "h{number}"\n'
        for number in range(8)
    ]
    world = World(store=MemoryStore, driver=SimulatedDriver(), fleet="\n".join(lines))
    start_text(world, file_of().replace('order = "rack"', 'order = "auto"'))
    world.advance("2d")
    assert campaign(world).state is CampaignState.DONE
    begun = sorted(world.operations(), key=lambda operation: operation.started_at)
    zones = [int(operation.host.removeprefix("h")) % 2 for operation in begun]
    assert zones in ([0] * 4 + [1] * 4, [1] * 4 + [0] * 4)


def test_reserve_does_not_stop_the_moves_of_an_emergency() -> None:
    """Run a campaign, "An emergency"."""
    lines = [f'[[host]]\nname = "h{n}"\npool = "p"\ncapacity = 3\n' for n in range(3)]
    lines += [
        f'[[vm]]\nname = "v{n}_{m}"\nhost = "h{n}"\n'
        for n in range(3)
        for m in range(2)
    ]
    begun = Counter[bool]()
    for is_emergency in (False, True):
        world = World(
            store=MemoryStore,
            driver=SimulatedDriver(),
            fleet="\n".join(lines),
            policy=Policy(reserve=amount_of("1")),
        )
        text = file_of(impact="live-migrate")
        if is_emergency:
            text = text.replace("order =", "emergency = true\norder =")
        try:
            start_text(world, text)
        except RefusedError:
            continue
        begun[is_emergency] = len(in_work(world))
    assert begun == {True: 1}


def test_lower_limit_of_the_service_lets_hosts_in_flight_continue() -> None:
    """Run a campaign, "Several campaigns at once"."""
    hosts = [{f"s{number}": 0} for number in range(12)]
    store = MemoryStore()
    world = World(
        store=lambda: store,
        driver=SimulatedDriver(),
        fleet=fleet(hosts),
        policy=Policy(campaigns_in_flight=4),
    )
    start(world, FOUR + ONE_STAGE)
    while len(in_work(world)) < 4:
        world.advance("1m")
    before = set(in_work(world))
    world.plane.policy = replace(world.plane.policy, campaigns_in_flight=1)
    while before & set(in_work(world)):
        assert set(in_work(world)) <= before or len(in_work(world)) == 1
        world.advance("1m")
    world.advance("1d")
    assert campaign(world).state is CampaignState.DONE


def digest(world: World, text: str) -> str:
    """Return the digest of a plan that is made now."""
    request = campaign_starts.plan_request(
        CampaignText(name="bios.toml", text=text), world.plane.policy, now=world.now
    )
    return world.read(lambda reader: campaign_starts.plan_of(reader, request)).digest


def test_digest_of_a_plan_depends_on_file_hosts_order_and_budgets() -> None:
    """Plan a campaign, at its end."""
    world = of(4)
    first = digest(world, file_of())
    world.advance("2d")
    assert digest(world, file_of()) == first
    for changed in (
        file_of(FOUR + ONE_STAGE),
        file_of(impact="freeze"),
        file_of().replace("all = true", f'all = true, except = ["{name_of(3)}"]'),
        file_of().replace("CVE-2026-1234", "another"),
    ):
        assert digest(world, changed) != first
