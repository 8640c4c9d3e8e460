"""Short lives with campaigns in which a planted bug shows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.rules.policy import Policy
from forewarn.protocol.host_steps import StepKind
from tests.support.campaign_lives import VERBS, CampaignLife
from tests.support.fleets import FleetPlan, HostPlan, ScopePlan, VmPlan
from tests.support.lives import Step

HOSTS = 4

FLEET = FleetPlan(
    hosts=tuple(HostPlan(name=f"h{number}") for number in range(HOSTS)),
    scopes=tuple(
        ScopePlan(name=f"s{number}", tenant="ash", kind="availability-set")
        for number in range(HOSTS)
    ),
    vms=tuple(
        VmPlan(name=f"vm_{number}", host=f"h{number}", scope=f"s{number}")
        for number in range(HOSTS)
    ),
)

ROOMY = replace(FLEET, hosts=tuple(replace(host, capacity=2) for host in FLEET.hosts))
"""One free place on each host: with a closed host, none can be emptied into the reserve."""

REBOOT, MIGRATE, NONE = 0, 1, 4
"""Impacts, as `campaign` numbers them."""
SOAK, APPROVAL = {"stages": 1}, {"stages": 2}
RACK, TENANT = {"budget": 2}, {"budget": 3}
WINDOW, NOON = {"hours": 1}, {"hours": 2}
"""Terms of a campaign, as `campaign` numbers them."""

LISTEN = tuple(
    Step("get", {"vm": number, "version": 6, "tag": 0}) for number in range(HOSTS)
)
DAY = (Step("advance", {"seconds": 300}), Step("approve_all")) * 288
HOUR = DAY[:24]


def begin(
    impact: int = REBOOT, *, hosts: int = HOSTS, first: int = 0, **terms: int
) -> Step:
    """Start a campaign of `hosts` hosts, with at most three in flight."""
    args = {"first": first, "hosts": hosts - 1, "impact": impact}
    return Step("campaign", {**args, "at_once": 3, **terms})


def steer(verb: str, actor: int = 0, number: int = 1) -> Step:
    """Steer the campaign as alice, who is actor 0, or as bob."""
    at = VERBS.index(verb)
    return Step("steer", {"which": 0, "verb": at, "actor": actor, "number": number})


def fails(step: StepKind, times: int) -> Step:
    return Step(
        "fault_step", {"kind": 0, "step": list(StepKind).index(step), "times": times}
    )


def hours(number: float) -> Step:
    return Step("advance", {"seconds": 3600 * number})


GROW = Step("change_fleet", {"what": "add host", "one": 0, "two": 0, "three": 0})
BRAKE = Step("put_brake_on", {"withdraw": False})
WITHDRAW = Step("put_brake_on", {"withdraw": True})
OFF = Step("take_brake_off")
CLOSED = Step("cordon", {"host": 3, "owner": 0})
FREEZE_ALL = Step("maintain", {"hosts": [0, 1, 2, 3], "impact": 0})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A function, what replaces it, and a life that shows the difference."""

    name: str
    breaks: str
    """The rule that the watcher must name."""
    home: Any
    function: str
    instead: Callable[..., Any]
    life: tuple[Step, ...]
    policy: Policy | None = None
    fleet: FleetPlan = FLEET


def lived(
    steps: tuple[Step, ...],
    policy: Policy | None = None,
    fleet: FleetPlan = FLEET,
) -> CampaignLife:
    life = CampaignLife(fleet, policy=policy)
    try:
        for step in (*LISTEN, *steps):
            life.do(step)
    finally:
        life.close()
    return life


def is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """A life breaks the rule with the bug, and none without it."""
    assert lived(bug.life, bug.policy, bug.fleet).mirror.table(CampaignRecord)
    monkeypatch.setattr(bug.home, bug.function, bug.instead)
    with pytest.raises(AssertionError, match=rf"^{bug.breaks}\b"):
        lived(bug.life, bug.policy, bug.fleet)
