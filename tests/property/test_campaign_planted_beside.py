"""The watcher finds bugs of campaigns beside others, tenants, emergencies and losses.

As in `test_campaign_planted`, each bug breaks a rule that the watcher names, and the same
life without it breaks none.
"""

from dataclasses import replace
from typing import Any

import pytest

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.execution import losses, replanning
from forewarn.control.requests import approvals, campaign_turns, looks
from forewarn.control.rules import (
    brake,
    campaign_gate,
    holds,
    obstacles,
    rolling,
    shared_limit,
    wide_blackouts,
)
from forewarn.control.rules.policy import BrakeLimits, Policy
from forewarn.fleet.model import Vm
from forewarn.protocol.operations import OperationState
from forewarn.settings.amounts import Amount
from forewarn.store.wide_blackouts import WideBlackout
from tests.support.lives import Step
from tests.support.planted_lives import (
    DAY,
    FLEET,
    HOUR,
    NOON,
    OFF,
    Bug,
    begin,
    hours,
    is_found,
    steer,
)

EMERGENCY, OVERLAP = {"rank": 4}, {"budget": 5}
"""Terms of a campaign, as `campaign` numbers them."""

ONE_AT_ONCE = Policy(campaigns_in_flight=1)
"""All campaigns together have one host in flight."""
FRAGILE = Policy(brake=BrakeLimits(hosts=Amount(value=1)))
"""The second host that is lost within ten minutes puts the brake on."""

SHARED = replace(
    FLEET,
    scopes=FLEET.scopes[:1],
    vms=tuple(
        replace(vm, scope="s0", domain=number) for number, vm in enumerate(FLEET.vms)
    ),
)
"""One scope, with a fault domain on each host."""

LARGE = replace(
    SHARED,
    hosts=tuple(replace(SHARED.hosts[0], name=f"h{number}") for number in range(7)),
    vms=tuple(
        replace(SHARED.vms[0], name=f"vm_{number}", host=f"h{number}", domain=number)
        for number in range(7)
    ),
)
"""The same with so many hosts that a campaign comes to have three in flight."""

LATE = Step("set_window", {"scope": 3, "hours": 1})
"""The window of the last scope, which opens in the afternoon."""
DEFERRED = Step("defer", {"vm": 3, "hours": 30, "by_scope": False})
NOW = Step("expedite", {"vm": 3})


def lost(*hosts: int) -> tuple[Step, ...]:
    return tuple(Step("fail_host", {"host": host}) for host in hosts)


def back(*hosts: int) -> tuple[Step, ...]:
    return tuple(Step("restore_host", {"host": host}) for host in hosts)


def closed(*hosts: int) -> tuple[Step, ...]:
    return tuple(Step("cordon", {"host": host, "owner": 0}) for host in hosts)


def two(first: dict[str, int], second: dict[str, int]) -> tuple[Step, ...]:
    """Start two campaigns, and let them run."""
    return (
        begin(hosts=2, **first),
        hours(0.1),
        begin(hosts=2, first=2, **second),
        *HOUR,
    )


def freeze(begins: int, hours: int, *, host: int = -1) -> Step:
    """Set a blackout of the service from some minutes after now, until some hours."""
    args = {"which": 0, "begins": begins, "hours": hours, "host": host}
    return Step("set_blackout", args)


LATER = Step("maintain", {"hosts": [0], "impact": 0, "wish": 28_800})
"""Maintenance in two hours, which tenants approve at once."""
RACKS = replace(
    FLEET,
    hosts=tuple(
        replace(host, rack=f"r{number % 2}") for number, host in enumerate(FLEET.hosts)
    ),
)

_HOLDS, _WHY_NOT_START = holds.holds_of, obstacles.guard


def _held_alike(reader: Any, operation: Any, vms: Any) -> tuple[holds.Hold, ...]:
    return _HOLDS(reader, replace(operation, is_emergency=False), vms)


def _not_held(reader: Any, operation: Any, vms: Any) -> tuple[holds.Hold, ...]:
    is_planned = operation.state is OperationState.PLANNED
    return _HOLDS(reader, operation, vms) if is_planned else ()


def _not_guarded(operation: Any, **facts: Any) -> tuple[Any, ...]:
    return () if operation.is_emergency else _WHY_NOT_START(operation, **facts)


def _away_max(campaign: CampaignRecord) -> int | None:
    return None if campaign.is_emergency else 3


def _no_choices(_reader: Any, _request: str, _vms: tuple[Vm, ...]) -> list[Any]:
    return []


BUGS = (
    Bug(
        name="the older campaign is first, whatever the priorities",
        breaks="2.5",
        home=shared_limit,
        function="_rank",
        instead=lambda campaign: (campaign.created, campaign.campaign_id),
        life=two({}, {"rank": 3}),
        policy=ONE_AT_ONCE,
    ),
    Bug(
        name="of two campaigns the younger is first",
        breaks="2.5",
        home=shared_limit,
        function="_rank",
        instead=lambda campaign: -campaign.created,
        life=two({}, {}),
        policy=ONE_AT_ONCE,
    ),
    Bug(
        name="an emergency is not before a campaign with a priority",
        breaks="2.5",
        home=shared_limit,
        function="_rank",
        instead=lambda campaign: (-campaign.priority, campaign.created),
        life=two({"rank": 3}, EMERGENCY),
        policy=ONE_AT_ONCE,
    ),
    Bug(
        name="a host that a tenant wants at once waits for its turn",
        breaks="2.5",
        home=looks,
        function="next_in_turn",
        instead=lambda work, _request, turn: work.tx.select(
            looks.kinds.OPERATIONS_THAT_WAIT, turn, limit=8
        ),
        life=(begin(), NOW, *HOUR),
    ),
    Bug(
        name="what a tenant wants at once is not approved",
        breaks="2.5",
        home=approvals,
        function="approve_expedited",
        instead=lambda _work, _operation, _vms: None,
        life=(begin(), NOW, *HOUR),
    ),
    Bug(
        name="a halt forgets what a tenant wants at once",
        breaks="2.5",
        home=replanning.choices,
        function="of_request",
        instead=_no_choices,
        life=(begin(first=3), NOW, steer("halt"), steer("resume"), *HOUR),
    ),
    Bug(
        name="two fault domains of a scope are announced",
        breaks="2.3",
        home=campaign_gate,
        function="overlap_of",
        instead=lambda _reader, _request: 1,
        life=(begin(), *DAY[:60]),
        fleet=SHARED,
    ),
    Bug(
        name="more fault domains are announced than may overlap",
        breaks="2.3",
        home=rolling,
        function="standing_of",
        instead=lambda *_args, **_options: rolling.RolloutState(),
        life=(begin(hosts=7, **OVERLAP), *DAY[:60]),
        fleet=LARGE,
    ),
    Bug(
        name="an emergency starts beside another fault domain",
        breaks="S1",
        home=obstacles,
        function="guard",
        instead=_not_guarded,
        life=(begin(**OVERLAP, **EMERGENCY), *DAY[:60]),
        fleet=SHARED,
    ),
    Bug(
        name="the window of a tenant holds an emergency",
        breaks="2.5",
        home=holds,
        function="holds_of",
        instead=_held_alike,
        life=(LATE, begin(**EMERGENCY), *HOUR),
    ),
    Bug(
        name="the trail does not name the windows that an emergency ignores",
        breaks="2.5",
        home=campaign_turns,
        function="note_ignored",
        instead=lambda _work, _operation, _vms, _start: None,
        life=(LATE, begin(**EMERGENCY), *HOUR),
    ),
    Bug(
        name="the trail does not name the deferrals that an emergency ignores",
        breaks="2.5",
        home=holds,
        function="deferrals_at",
        instead=lambda _reader, _operation, _vms: (),
        life=(
            Step("maintain", {"hosts": [3], "impact": 3}),
            DEFERRED,
            begin(hosts=1, first=3, **EMERGENCY),
            *HOUR,
        ),
    ),
    Bug(
        name="an emergency exceeds the hosts that may be away",
        breaks="K1",
        home=campaign_gate,
        function="away_max",
        instead=_away_max,
        life=(*closed(1, 2, 3), begin(hosts=1, budget=1, **EMERGENCY), *HOUR),
    ),
    Bug(
        name="the blackouts of the service are not read",
        breaks="K1",
        home=wide_blackouts,
        function="all_of",
        instead=lambda _reader: [],
        life=(freeze(-60, 9), begin(), *HOUR),
    ),
    Bug(
        name="a host is announced in the blackout of its rack",
        breaks="K1",
        home=holds,
        function="_blackouts",
        instead=lambda _reader, _operation: (),
        life=(freeze(-60, 9, host=1), begin(), *HOUR),
        fleet=RACKS,
    ),
    Bug(
        name="a blackout stops the hosts beside its rack, and not those in it",
        breaks="K1",
        home=WideBlackout,
        function="covers",
        instead=lambda blackout, places: not set(blackout.places) & set(places),
        life=(freeze(-60, 9, host=1), begin(), *HOUR),
        fleet=RACKS,
    ),
    Bug(
        name="the work of a campaign reaches into a blackout of the service",
        breaks="K1",
        home=wide_blackouts,
        function="work_of",
        instead=lambda _reader, _operation: 0,
        life=(freeze(60, 9, host=1), begin(**NOON), *HOUR),
        fleet=RACKS,
    ),
    Bug(
        name="a blackout withdraws nothing",
        breaks="K1",
        home=wide_blackouts,
        function="stopped_by",
        instead=lambda _reader, _operation, *, now: iter(()),
        life=(begin(), freeze(-5, 9)),
    ),
    Bug(
        name="an approved host starts in a blackout",
        breaks="K9",
        home=holds,
        function="holds_of",
        instead=_not_held,
        life=(LATER, freeze(1, 1), begin(hosts=1, first=3), *HOUR),
    ),
    Bug(
        name="losses do not put the brake on",
        breaks="2.6",
        home=brake,
        function="exceeded",
        instead=lambda _lost, _limits, *, hosts: None,
        life=(begin(), *lost(2, 3)),
        policy=FRAGILE,
    ),
    Bug(
        name="losses before the end of the brake count again",
        breaks="2.6",
        home=losses,
        function="forget_all",
        instead=lambda _work: None,
        life=(begin(), *lost(2, 3), OFF, *back(2, 3), *lost(1)),
        policy=FRAGILE,
    ),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_watcher_finds(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    is_found(bug, monkeypatch)
