"""Sentences of the pages about campaigns that no other test is about."""

from collections import Counter
from dataclasses import replace

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import HaltCause
from forewarn.campaigns.text import CampaignText
from forewarn.checks.board import Board
from forewarn.checks.model import CheckResult, Outcome
from forewarn.control.requests import campaign_changes, campaigns
from forewarn.control.rules.policy import Policy
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.instants import MINUTE
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import Action
from forewarn.reporting import campaign_plans
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
    it = of(4)
    select = 'select = {{ host = ["{}"] }}'.format
    one, other = (
        file_of().replace("select = { all = true }", select(name_of(number)))
        for number in (0, 1)
    )
    start_text(it, one)
    with pytest.raises(RefusedError, match="bios"):
        start_text(it, other)
    it.advance("1d")
    assert campaign(it).state is CampaignState.DONE
    start_text(it, other)
    assert campaign(it).state is CampaignState.RUNNING


def test_each_stage_begins_with_one_host_in_flight() -> None:
    """Run a campaign, "Stages"."""
    it = of(16)
    start(it, FOUR + '[[campaign.stage]]\nhosts = 8\nsoak = "1h"\n')
    most = {1: [0], 2: [0]}
    while campaign(it).state is CampaignState.RUNNING:
        it.advance("1m")
        seen = most[min(2, campaign(it).stage)]
        if len(in_work(it)) > seen[-1]:
            seen.append(len(in_work(it)))
    assert most == {1: [0, 1, 2, 4], 2: [0, 1, 2, 4]}


def test_smaller_budget_keeps_announced_hosts_and_announces_none() -> None:
    """Run a campaign, "Change a running campaign"."""
    it = of(16)
    start(it, FOUR + ONE_STAGE)
    while len(announced(it)) < 4:
        it.advance("1m")
    before = set(announced(it))
    values = {"in_flight": "2"}
    steer(it, lambda work: campaign_changes.change(work, campaign(it), values))
    assert set(announced(it)) == before
    while before & set(in_work(it)):
        new = set(in_work(it)) - before
        assert not new or len(in_work(it)) <= 2
        it.advance("1m")
    it.advance("30m")
    assert len(in_work(it)) == 2


def test_a_check_that_was_ignored_counts_again_in_the_next_stage() -> None:
    """Run a campaign, "Checks"."""
    it = of(6)
    it.plane.checks = Board({"errors": 5 * MINUTE})

    def say(outcome: Outcome, minutes: int) -> None:
        for _ in range(minutes):
            result = CheckResult(
                name="errors", outcome=outcome, reason="3 errors", at=it.now
            )
            it.plane.checks.take(result)
            it.advance("1m")

    start(it, CHECK + "[[campaign.stage]]\nhosts = 2\n")
    say(Outcome.PASS, 2)
    say(Outcome.FAIL, 2)
    assert campaign(it).state is CampaignState.HALTED
    steer(
        it,
        lambda work: campaigns.resume(work, "bios", by_all=False, despite=["errors"]),
    )
    say(Outcome.FAIL, 4 * 60)
    found = campaign(it)
    assert (found.stage, found.done) == (2, 2)
    assert found.halt is not None
    assert found.halt.cause is HaltCause.CHECK


def test_all_pauses_end_together_if_that_is_wanted() -> None:
    """Run a campaign, "Pause and halt"."""
    it = of(2)
    start(it)
    for actor in ("alice", "bob"):
        steer(it, lambda work: campaigns.pause(work, "bios"), actor=actor)
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=True), actor="carol")
    assert campaign(it).state is CampaignState.RUNNING


def test_third_failure_of_the_last_stage_halts_it_by_default() -> None:
    """Campaign recipes, "One failed host must not end it, and many must"."""
    driver = SimulatedDriver()
    for vm in ("s1-1", "s4-4", "s7-7"):
        driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm=vm, times=3))
    it = of(10, driver)
    start(it)
    while len(campaign(it).failed_hosts) < 2:
        it.advance("1m")
    it.advance("30m")
    assert campaign(it).state is CampaignState.RUNNING
    it.advance("1d")
    found = campaign(it)
    assert found.state is CampaignState.HALTED
    assert found.failed_hosts == (name_of(1), name_of(4), name_of(7))


def test_a_window_that_closes_ends_nothing() -> None:
    """Campaign recipes, "It must continue where it stopped"."""
    it = of(6)
    start(it, '[[campaign.window]]\nstart = "22:00"\nlength = "1h"\n' + ONE_STAGE)
    done: list[int] = []
    for _ in range(6):
        it.advance("1d")
        found = campaign(it)
        done.append(found.done)
        if found.state is CampaignState.RUNNING:
            assert waits_for(it)
    assert 0 < done[0] < done[1] < 6
    assert campaign(it).state is CampaignState.DONE


def test_automatic_order_finishes_a_zone_before_the_next() -> None:
    """Campaign recipes, "A new kernel, zone by zone"."""
    lines = [
        f'[[host]]\nname = "h{number}"\nzone = "z{1 + number % 2}"\n'
        f'[[vm]]\nname = "v{number}"\nhost = "h{number}"\n'
        for number in range(8)
    ]
    it = World(store=MemoryStore, driver=SimulatedDriver(), fleet="\n".join(lines))
    start_text(it, file_of().replace('order = "rack"', 'order = "auto"'))
    it.advance("2d")
    assert campaign(it).state is CampaignState.DONE
    begun = sorted(it.operations(), key=lambda each: each.started_at)
    zones = [int(each.host.removeprefix("h")) % 2 for each in begun]
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
        it = World(
            store=MemoryStore,
            driver=SimulatedDriver(),
            fleet="\n".join(lines),
            policy=Policy(reserve=amount_of("1")),
        )
        text = file_of(impact="live-migrate")
        if is_emergency:
            text = text.replace("order =", "emergency = true\norder =")
        try:
            start_text(it, text)
        except RefusedError:
            continue
        begun[is_emergency] = len(in_work(it))
    assert begun == {True: 1}


def test_lower_limit_of_the_service_lets_hosts_in_flight_continue() -> None:
    """Run a campaign, "Several campaigns at once"."""
    hosts = [{f"s{number}": 0} for number in range(12)]
    store = MemoryStore()
    it = World(
        store=lambda: store,
        driver=SimulatedDriver(),
        fleet=fleet(hosts),
        policy=Policy(campaigns_in_flight=4),
    )
    start(it, FOUR + ONE_STAGE)
    while len(in_work(it)) < 4:
        it.advance("1m")
    before = set(in_work(it))
    it.plane.policy = replace(it.plane.policy, campaigns_in_flight=1)
    while before & set(in_work(it)):
        assert set(in_work(it)) <= before or len(in_work(it)) == 1
        it.advance("1m")
    it.advance("1d")
    assert campaign(it).state is CampaignState.DONE


def digest(it: World, text: str) -> str:
    """Return the digest of a plan that is made now."""
    asked = campaign_plans.plan_request(
        CampaignText(name="bios.toml", text=text), it.plane.policy, now=it.now
    )
    return it.read(lambda reader: campaign_plans.plan_of(reader, asked)).digest


def test_digest_of_a_plan_depends_on_file_hosts_order_and_budgets() -> None:
    """Plan a campaign, at its end."""
    it = of(4)
    first = digest(it, file_of())
    it.advance("2d")
    assert digest(it, file_of()) == first
    for changed in (
        file_of(FOUR + ONE_STAGE),
        file_of(impact="freeze"),
        file_of().replace("all = true", f'all = true, except = ["{name_of(3)}"]'),
        file_of().replace("CVE-2026-1234", "another"),
    ):
        assert digest(it, changed) != first
