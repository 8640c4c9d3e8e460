"""The watcher finds bugs of approved stages, and of what tenants choose.

As in `test_campaign_planted`, each bug breaks a rule that the watcher names, and the same
life without it breaks none.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from forewarn.campaigns import gate, progress
from forewarn.campaigns.lifecycle import CampaignInput, step
from forewarn.campaigns.record import CampaignRecord, Halt
from forewarn.control.requests import choices as choosing
from forewarn.control.rules import choices, deferring, holds
from forewarn.control.rules.holds import Hold, HoldSource
from forewarn.fleet.model import Vm
from forewarn.protocol.host_steps import StepKind
from forewarn.protocol.operations import Operation, OperationState
from forewarn.store.port import Reader
from forewarn.store.records import Choice, choice_key
from tests.support.lives import Step
from tests.support.planted_lives import (
    APPROVAL,
    DAY,
    HOUR,
    NONE,
    Bug,
    begin,
    fails,
    hours,
    is_found,
    steer,
)

MINUTES = DAY[0]
"""Five minutes in which no VM approves."""
APPROVED = steer("approve")
EMERGENCY = {"rank": 4}
"""Terms of a campaign, as `campaign` numbers them."""
WINDOW = Step("set_window", {"scope": 3, "hours": 1})
"""The window of the last scope, which opens in the afternoon."""


def defer(vm: int, hours: int, *, by_scope: bool = False) -> Step:
    return Step("defer", {"vm": vm, "hours": hours, "by_scope": by_scope})


_CHOICES, _HOLDS = choices.of_request, holds.holds_of


def _kept(campaign: CampaignRecord, why: Halt) -> CampaignRecord:
    """Halt a campaign, and keep the approval of its next stage."""
    halted = step(campaign.state, CampaignInput.HALT)
    return replace(campaign, state=halted, halt=why, due_at=0)


def _at_once_only(reader: Reader, request: str, vms: Sequence[Vm]) -> list[Choice]:
    """Return what tenants want at once, and no deferral."""
    return [choice for choice in _CHOICES(reader, request, vms) if not choice.until]


def _vms_first(reader: Reader, request: str, vms: Sequence[Vm]) -> list[Choice]:
    """Return the choices for the VMs, whatever was chosen later for their scope."""
    keys = [choice_key(request, vm.scope, vm.name) for vm in vms]
    stored = [choice for key in keys if (choice := reader.get(Choice, key)) is not None]
    return stored or _CHOICES(reader, request, vms)


def _no_windows(
    reader: Reader, operation: Operation, vms: Sequence[Vm]
) -> tuple[Hold, ...]:
    """Return the holds of an operation without the windows of its scopes."""
    all_holds = _HOLDS(reader, operation, vms)
    return tuple(
        hold for hold in all_holds if hold.source is not HoldSource.SCOPE_WINDOW
    )


def _before_the_notice(
    reader: Reader, operation: Operation, vms: Sequence[Vm]
) -> tuple[Hold, ...]:
    """Return the holds of an operation that is not announced; later, it has none."""
    is_planned = operation.state is OperationState.PLANNED
    return _HOLDS(reader, operation, vms) if is_planned else ()


BUGS = (
    Bug(
        name="a stage is approved before the one before it is done",
        breaks="2.6",
        home=gate,
        function="is_stage_over",
        instead=lambda _campaign: True,
        life=(begin(**APPROVAL), APPROVED),
    ),
    Bug(
        name="a stage is approved although a host of the one before it has failed",
        breaks="2.6",
        home=gate,
        function="is_stage_over",
        instead=lambda campaign: campaign.stage_left <= len(campaign.failed),
        life=(
            fails(StepKind.WORK, 1),
            begin(NONE, **APPROVAL),
            *HOUR,
            steer("resume"),
            APPROVED,
        ),
    ),
    Bug(
        name="a halt keeps the approval of the next stage",
        breaks="2.6",
        home=progress,
        function="halted",
        instead=_kept,
        life=(
            begin(**APPROVAL),
            *HOUR,
            steer("pause"),
            APPROVED,
            steer("halt"),
            steer("resume"),
        ),
    ),
    Bug(
        name="a deferred host is announced in its turn",
        breaks="4.8",
        home=choices,
        function="of_request",
        instead=_at_once_only,
        life=(begin(), defer(3, 30), *DAY),
    ),
    Bug(
        name="a deferral leaves its host announced",
        breaks="4.8",
        home=choosing,
        function="_wait",
        instead=lambda _work, _operation, _tenant, _until: None,
        life=(begin(hosts=1, first=3), defer(3, 30), MINUTES),
    ),
    Bug(
        name="a VM goes by its older choice, and not by that for its scope",
        breaks="4.8",
        home=choices,
        function="of_request",
        instead=_vms_first,
        life=(
            begin(),
            defer(3, 2),
            hours(0.1),
            defer(3, 30, by_scope=True),
            *DAY,
        ),
    ),
    Bug(
        name="a tenant defers its VM again and again",
        breaks="4.8",
        home=deferring,
        function="is_left",
        instead=lambda _operation, _tenant, _until: True,
        life=(begin(), *(defer(3, number) for number in (10, 20, 30))),
    ),
    Bug(
        name="a deferral that withdraws its host is not counted",
        breaks="4.8",
        home=deferring,
        function="counted",
        instead=lambda operation, _tenant, _until: operation,
        life=(begin(hosts=1, first=3), defer(3, 30), MINUTES),
    ),
    Bug(
        name="a tenant defers its VM by more than a week",
        breaks="4.8",
        home=choosing,
        function="_check_time",
        instead=lambda _work, _until: None,
        life=(begin(), defer(3, 8 * 24)),
    ),
    Bug(
        name="a tenant defers an emergency",
        breaks="4.8",
        home=choosing,
        function="_check_can_wait",
        instead=lambda _work, _target, _operation: None,
        life=(begin(**EMERGENCY), defer(3, 30)),
    ),
    Bug(
        name="a tenant defers what begins within minutes",
        breaks="4.8",
        home=choosing,
        function="_check_can_wait",
        instead=lambda _work, _target, _operation: None,
        life=(begin(hosts=1, first=3), MINUTES, MINUTES, defer(3, 30)),
    ),
    Bug(
        name="a campaign does not ask for the window of a tenant",
        breaks="4.8",
        home=holds,
        function="holds_of",
        instead=_no_windows,
        life=(WINDOW, begin(), *DAY),
    ),
    Bug(
        name="a window that was set after the notice lets its host start",
        breaks="4.8",
        home=holds,
        function="holds_of",
        instead=_before_the_notice,
        life=(begin(hosts=1, first=3), WINDOW, *HOUR),
    ),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_watcher_finds(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    is_found(bug, monkeypatch)
