"""The watcher of campaigns can fail: each bug planted here breaks a rule that it names.

A bug replaces one function for one test. A short life shows it, and the same life without
the bug breaks no rule.
"""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from forewarn.campaigns import gate, planner, progress
from forewarn.campaigns.hours import Hours
from forewarn.campaigns.record import CampaignRecord
from forewarn.control.execution import calls
from forewarn.control.requests import brake, campaign_drift
from forewarn.control.requests.verbs import campaign_hosts
from forewarn.control.rules import (
    campaign_gate,
    implied_campaigns,
    reserves,
    shared_limit,
)
from forewarn.control.rules.policy import Policy
from forewarn.fleet.model import Host
from forewarn.protocol.actors import Actor
from forewarn.protocol.host_steps import StepKind
from forewarn.settings.amounts import Amount
from tests.support.campaign_lives import CampaignLife
from tests.support.lives import Step
from tests.support.planted_lives import (
    BRAKE,
    CLOSED,
    DAY,
    FREEZE_ALL,
    GROW,
    HOUR,
    MIGRATE,
    NONE,
    NOON,
    OFF,
    REBOOT,
    ROOMY,
    SOAK,
    TENANT,
    WINDOW,
    WITHDRAW,
    Bug,
    begin,
    fails,
    hours,
    is_found,
    lived,
    steer,
)

WORK_FAILS = (fails(StepKind.WORK, 3), begin(NONE), *HOUR)


_MOST = planner._tenant_most


def _one_more(*args: Any) -> tuple[tuple[str, int], ...]:
    return tuple((tenant, most + 1) for tenant, most in _MOST(*args))


def _added_first(campaign: CampaignRecord, number: int) -> CampaignRecord:
    first, *others = campaign.stages
    return replace(
        campaign,
        hosts=campaign.hosts + number,
        stages=(replace(first, hosts=first.hosts + number), *others),
        stage_left=campaign.stage_left + number,
    )


def _not_counted(campaign: CampaignRecord, _host: str, **_more: Any) -> CampaignRecord:
    return campaign


BUGS = (
    Bug(
        name="no budget is asked",
        breaks="K2",
        home=gate,
        function="_used",
        instead=lambda _campaign, _standing: None,
        life=(begin(), *HOUR),
    ),
    Bug(
        name="campaigns do not count the hosts of others",
        breaks="K2",
        home=shared_limit,
        function="_in_flight",
        instead=lambda _reader, _campaigns: 0,
        life=(begin(hosts=2), begin(hosts=2, first=2), *HOUR),
        policy=Policy(campaigns_in_flight=1),
    ),
    Bug(
        name="an early approval starts a host before the window",
        breaks="K9",
        home=campaign_gate,
        function="why_held",
        instead=lambda _reader, _operation, *, now: (),
        life=(begin(**WINDOW), *DAY),
    ),
    Bug(
        name="a stage begins before the soak",
        breaks="2.6",
        home=gate,
        function="may_advance",
        instead=lambda campaign, *, now: (
            gate.is_stage_over(campaign) and not campaign.is_last_stage
        ),
        life=(begin(**SOAK), *DAY),
    ),
    Bug(
        name="a paused campaign announces",
        breaks="K3",
        home=gate,
        function="why_stopped",
        instead=lambda _campaign: None,
        life=(begin(), steer("pause"), *HOUR),
    ),
    Bug(
        name="a halt lets the work of started hosts begin",
        breaks="K3",
        home=campaign_gate,
        function="why_drain_stops",
        instead=lambda _reader, _request: None,
        life=(begin(MIGRATE, has_steps=True), hours(16 / 60), steer("halt"), *HOUR),
    ),
    Bug(
        name="a failed host is not cordoned",
        breaks="K4",
        home=Host,
        function="cordon_of",
        instead=lambda _host, owner: owner,
        life=WORK_FAILS,
    ),
    Bug(
        name="a resumption ends the pauses of others",
        breaks="K6",
        home=Actor,
        function="is_same_as",
        instead=lambda one, other: one.kind is other.kind,
        life=(begin(), steer("pause"), steer("resume", actor=1)),
    ),
    Bug(
        name="a skipped host is not counted",
        breaks="K7",
        home=progress,
        function="host_skipped",
        instead=_not_counted,
        life=(begin(), steer("skip", number=2)),
    ),
    Bug(
        name="failures are tolerated without end",
        breaks="2.6",
        home=progress,
        function="why_halt",
        instead=lambda _campaign, _host, *, by, now: None,
        life=WORK_FAILS,
    ),
    Bug(
        name="a host is announced in a blackout",
        breaks="K1",
        home=gate,
        function="_by_hours",
        instead=lambda _hours, _now, _notice: gate.Gate(),
        life=(hours(11.5), begin(**NOON), *HOUR),
    ),
    Bug(
        name="a host starts so late that its work reaches into a blackout",
        breaks="K9",
        home=campaign_gate,
        function="why_held",
        instead=lambda _reader, _operation, *, now: (),
        life=(hours(9.5), begin(**NOON), BRAKE, hours(1), OFF, *HOUR),
    ),
    Bug(
        name="what was announced for a blackout is not withdrawn",
        breaks="K1",
        home=Hours,
        function="clash_at",
        instead=lambda _hours, _start: None,
        life=(begin(), steer("add blackout", number=0)),
    ),
    Bug(
        name="the VMs of a tenant are not counted",
        breaks="K1",
        home=campaign_gate,
        function="_tenants",
        instead=lambda _reader, _campaign, _vms: iter(()),
        life=(begin(**TENANT), *HOUR),
    ),
    Bug(
        name="a tenant has one VM more than its part",
        breaks="K1",
        home=planner,
        function="_tenant_most",
        instead=_one_more,
        life=(begin(hosts=2, budget=4),),
    ),
    Bug(
        name="a host is emptied into the reserve",
        breaks="2.4",
        home=reserves,
        function="why_kept",
        instead=lambda _reader, _operation, _vms, _amount: (),
        life=(begin(MIGRATE), CLOSED, *HOUR),
        policy=Policy(reserve=Amount(value=1)),
        fleet=ROOMY,
    ),
    Bug(
        name="added hosts are part of the first stage",
        breaks="2.1",
        home=progress,
        function="hosts_added",
        instead=_added_first,
        life=(begin(hosts=2, **SOAK), steer("add", number=3)),
    ),
    Bug(
        name="new hosts are not compared with the selection",
        breaks="2.1",
        home=campaign_drift,
        function="marked",
        instead=lambda _work, host: host,
        life=(begin(), GROW),
    ),
    Bug(
        name="drift that was added is still drift",
        breaks="2.1",
        home=campaign_hosts,
        function="_forget_drift",
        instead=lambda _work, _name: None,
        life=(begin(), GROW, steer("add drift")),
    ),
    Bug(
        name="places are not reserved with the announcement",
        breaks="K1",
        home=calls,
        function="reserve_places",
        instead=lambda _work, operation: operation,
        life=(begin(MIGRATE), *HOUR),
    ),
    Bug(
        name="the brake lets campaigns go on",
        breaks="K3",
        home=brake,
        function="_withdraw_all",
        instead=lambda work, _by, _reason: work.withdraw(),
        life=(begin(), WITHDRAW),
    ),
    Bug(
        name="a steered rollout forgets what it has done",
        breaks="K7",
        home=implied_campaigns,
        function="record_of",
        instead=lambda _reader, request: implied_campaigns.terms_of(request),
        life=(FREEZE_ALL, *HOUR[:12], steer("pause")),
    ),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_watcher_finds(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    is_found(bug, monkeypatch)


def test_a_host_that_is_still_worked_on_is_in_no_other_campaign() -> None:
    """K5: its visit goes on after its operation has ended."""
    minute = Step("advance", {"seconds": 60})
    lived(5 * (begin(NONE, hosts=1), minute))


SEEDS = range(6)
"""Seeds of the lives that are lived twice."""


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_life_announces_the_same_hosts(seed: int) -> None:
    """K8: decisions depend on the store and the time, and on nothing else."""
    steps = _random_life(seed)
    first, second = (_admissions(lived(steps)) for _ in range(2))
    assert first == second
    assert any(announced for _, announced, _, _ in first)


def _random_life(seed: int) -> tuple[Step, ...]:
    """Return a life of some days: campaigns, orders, faults, crashes and time."""
    chance = Random(seed)
    terms = chance.choice([{}, SOAK, WINDOW])
    steps = [begin(chance.choice([REBOOT, MIGRATE, NONE]), **terms)]
    for _ in range(30):
        verb = chance.choice(["pause", "resume", "halt", "retry", "skip", "set"])
        steps += chance.choice(
            [
                [steer(verb, actor=chance.randrange(2), number=chance.randrange(4))],
                [Step("restart_service", {"crash_after": 0})],
                [fails(StepKind.WORK, 1)],
                [hours(chance.uniform(0.1, 6))],
                list(HOUR),
                list(HOUR),
            ]
        )
    return (*steps, steer("resume"), *DAY)


def _admissions(life: CampaignLife) -> list[tuple[str, int, int, int]]:
    """Return each host with the times of its notice, its start and its end."""
    return [
        (operation.host, operation.not_before, operation.started_at, operation.ended_at)
        for operation in life.mirror.operations.values()
    ]
