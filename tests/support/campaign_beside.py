"""Checks by `campaign_watcher` of a campaign next to other campaigns, tenants and
losses.

Like the watcher, it reads the rows of each commit and shares no code with what it judges:
which campaign goes first, what a tenant wants at once, what an emergency ignores, and the
losses that put the brake on.
"""

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.model import Host, HostState, Vm, VmState
from forewarn.fleet.windows import openings
from forewarn.instants import SECOND, Micros
from forewarn.protocol.blockers import Deferred, NoCommonWindow, WindowClosed
from forewarn.protocol.operations import (
    ENDED_STATES,
    Operation,
    OperationState,
    RequestState,
)
from forewarn.protocol.verbs import Verb
from forewarn.protocol.visits import Visit
from forewarn.store.records import AuditKind, Brake, Choice
from tests.support import campaign_terms
from tests.support.campaign_terms import number
from tests.support.moments import Moment

SLACK_SECONDS = 1.0
"""A span may end so much earlier or later: clocks are compared by different sums."""


# Which campaign is first


def goes_first(
    moment: Moment, campaign: CampaignRecord, slots: Callable[[CampaignRecord], int]
) -> None:
    """2.5: no campaign announces a host while one before it could announce one.

    Emergencies come first, then priorities, then the older one. `slots` returns how many
    hosts more a campaign may have in flight.
    """
    if not moment.policy.campaigns_in_flight:
        return
    for other in moment.mirror.table(CampaignRecord).values():
        if _rank(other) < _rank(campaign) and slots(other) > 0:
            could_announce = _could_announce(moment, other)
            assert not could_announce, (
                f"2.5: {campaign} is before {other}: {could_announce}"
            )


def _rank(campaign: CampaignRecord) -> tuple[bool, int, Micros, str]:
    older = campaign.created, campaign.campaign_id
    return (not campaign.is_emergency, -campaign.priority, *older)


def _could_announce(moment: Moment, campaign: CampaignRecord) -> list[str]:
    """Return the hosts that only other campaigns keep waiting; rather too few."""
    request = moment.mirror.requests[campaign.request]
    now, ends = moment.now, moment.now + campaign.notice + campaign.slow
    opened = campaign.windows and not any(
        closes >= ends
        for window in campaign.windows
        for _, closes in campaign_terms.opened(window, now, now)
    )
    is_shut = (
        campaign.state is not CampaignState.RUNNING
        or campaign.soaks_until > now
        or request.state is not RequestState.OPEN
        or bool(request.hosts_unplanned or moment.mirror.table(Brake) or opened)
        or bool(campaign_terms.banned(campaign.blackouts, now, ends))
        or not _has_hosts_left(moment, campaign)
    )
    return [] if is_shut else list(in_turn(moment, campaign))


def in_turn(moment: Moment, campaign: CampaignRecord) -> Iterator[str]:
    """Yield the hosts of the current stage that wait for nothing but their turn."""
    before = sum(stage.hosts for stage in campaign.stages[: campaign.stage - 1])
    end = before + campaign.stages[campaign.stage - 1].hosts
    for operation in moment.mirror.operations.values():
        is_here = (
            operation.request == campaign.request and before < operation.position <= end
        )
        is_planned = operation.state is OperationState.PLANNED
        visit = moment.mirror.table(Visit).get(operation.visit)
        is_checked = visit is None or (visit.is_needed and not visit.holds_slot)
        if is_here and is_planned and not operation.held_by and is_checked:
            yield operation.host


def _has_hosts_left(moment: Moment, campaign: CampaignRecord) -> bool:
    """Return whether the budget `unavailable` leaves another host, counted strictly."""
    if not campaign.budget.unavailable:
        return True
    hosts = moment.mirror.hosts
    away = {x.name for x in hosts.values() if x.state is HostState.DOWN or x.cordons}
    # A host in any kind of work is unavailable; a visit has an operation, too.
    away.update(
        operation.host
        for operation in moment.mirror.operations.values()
        if operation.visit
        or (
            operation.state is not OperationState.PLANNED
            and operation.state not in ENDED_STATES
        )
    )
    return len(away) < number(campaign.budget.unavailable, campaign.fleet_hosts)


# Expedited hosts


def expedited_first(moment: Moment, operation: Operation) -> None:
    """2.5: what a tenant wants at once is announced first, and approved with it."""
    wanted = {
        scope for scope, _ in _expedited(moment, operation.request, operation.host)
    }
    for event in moment.mirror.events_of(operation.operation_id):
        if event.scope in wanted:
            assert event.approved_by, f"2.5: {event} is wanted at once"


def expedited_before(
    moment: Moment, operation: Operation, campaign: CampaignRecord
) -> None:
    """2.5: no other host of a campaign is announced before one that is wanted at once."""
    if any(_expedited(moment, campaign.request, operation.host)):
        return
    for host in in_turn(moment, campaign):
        expedited = list(_expedited(moment, campaign.request, host))
        assert not expedited, (
            f"2.5: {operation} is before {host}, where {expedited} are wanted"
        )


def _expedited(moment: Moment, request: str, host: str) -> Iterator[tuple[str, str]]:
    """Yield the scope and name of each VM of a host that its tenant wants at once."""
    for vm in moment.mirror.live_vms:
        choice = _choice(moment, request, vm) if vm.host == host else None
        if choice is not None and not choice.until:
            yield vm.scope, vm.name


def _choice(moment: Moment, request: str, vm: Vm) -> Choice | None:
    """Return the choice of a tenant that counts for a VM: the latest one."""
    choices = [
        choice
        for choice in moment.mirror.table(Choice).values()
        if (choice.request, choice.scope) == (request, vm.scope)
        and choice.vm in {"", vm.name}
    ]
    return max(choices, key=lambda choice: (choice.at, choice.vm), default=None)


# Emergencies


def emergency_starts(moment: Moment, campaign: CampaignRecord) -> None:
    """2.5: an emergency has no windows and blackouts, and its start names them."""
    if not campaign.is_emergency:
        return
    assert not campaign.windows, f"2.5: an emergency waits: {campaign}"
    assert not campaign.blackouts, f"2.5: an emergency waits: {campaign}"
    file = tomllib.loads(campaign.text)["campaign"]
    wanted = [blackout["name"] for blackout in file.get("blackout", ())]
    wanted += [window["start"] for window in file.get("window", ())]
    messages = [
        entry.facts.text
        for entry in moment.mirror.entries
        if entry.kind is AuditKind.CAMPAIGN_STARTED
    ]
    for name in wanted:
        assert any(name in text for text in messages), (
            f"2.5: {name} is not in {messages}"
        )


def emergency_waits_for_no_time(operation: Operation) -> None:
    """2.5: no window and no deferral of a tenant stops an emergency."""
    held = [
        blocker
        for blocker in operation.held_by
        if isinstance(blocker, WindowClosed | Deferred | NoCommonWindow)
    ]
    assert not (operation.is_emergency and held), (
        f"2.5: an emergency waits: {operation}"
    )


def emergency_is_named(moment: Moment, operation: Operation) -> None:
    """2.5: the trail names the windows and deferrals that an emergency does not keep to."""
    if not operation.is_emergency or not operation.scopes:
        return
    wanted = set(_overridden(moment, operation))
    named = {
        (blocker.kind, getattr(blocker, "vm", ""), scope)
        for entry in moment.mirror.entries
        if entry.kind is AuditKind.CAMPAIGN_WINDOWS_IGNORED
        for blocker in entry.facts.blockers
        for scope in getattr(blocker, "scopes", None)
        or (getattr(blocker, "scope", ""),)
    }
    assert {values[1:] for values in wanted} <= {values[1:] for values in named}, (
        f"2.5: {wanted} are ignored, and the trail has {named}: {operation}"
    )


def _overridden(moment: Moment, operation: Operation) -> Iterator[tuple[str, str, str]]:
    mirror, at = moment.mirror, operation.not_before
    vms = [mirror.vms[name] for name in operation.vms]
    expedited = {s for s, _ in _expedited(moment, operation.request, operation.host)}
    for scope in {vm.scope for vm in vms} - expedited:
        windows = mirror.scopes[scope].maintenance_window
        first = next(openings(windows, at), None) if windows else None
        if windows and (first is None or first.opens > at):
            yield WindowClosed.kind, "", scope
    others = {
        open_operation.request
        for open_operation in moment.open()
        if open_operation.host == operation.host
        and open_operation.verb is Verb.MAINTAIN
    }
    for request in others - {operation.request}:
        for vm in vms:
            choice = _choice(moment, request, vm)
            if choice is not None and choice.until > at:
                yield Deferred.kind, choice.vm, choice.scope


# Losses


@dataclass(slots=True)
class LossWatcher:
    """Counts the hosts and VMs that are lost, by itself."""

    monotonic: Callable[[], float]
    hosts: dict[str, tuple[float, str]] = field(
        default_factory=dict[str, tuple[float, str]]
    )
    """When each host was lost last, and its rack."""
    vms: dict[str, float] = field(default_factory=dict[str, float])
    is_reset: bool = False
    """The clock was set while the service was down, so that it forgets at other times."""

    def committed(self, moment: Moment) -> None:
        """2.6: too many losses put the brake on at once, and nothing else does."""
        before, after = _brake_change(moment)
        new_hosts, new_vms = self._count(moment, is_counted=not _withdraws(before))
        if before is not None and after is None:
            self.hosts, self.vms = {}, {}
        losses = None if after is None else after.losses
        if losses is not None and (before is None or before.losses != losses):
            over = self._over(moment, SLACK_SECONDS)
            assert over or self.is_reset, f"2.6: {after}: {self.hosts}, {self.vms}"
        if (new_hosts or new_vms) and self._over(moment, -SLACK_SECONDS):
            is_on = any(map(_withdraws, moment.mirror.table(Brake).values()))
            assert is_on, f"2.6: {self.hosts}, {self.vms} are lost, and no brake is on"

    def _count(self, moment: Moment, *, is_counted: bool) -> tuple[bool, bool]:
        now = self.monotonic()
        hosts, vms = False, False
        for change in moment.changes:
            old, new = change.before, change.after
            if not is_counted or not isinstance(old, Host | Vm):
                continue
            if isinstance(new, Host) and new.state is HostState.DOWN is not old.state:
                self.hosts[new.name], hosts = (now, new.rack), True
            if isinstance(new, Vm) and new.state is VmState.DOWN is not old.state:
                self.vms[new.name], vms = now, True
        return hosts, vms

    def _over(self, moment: Moment, slack: float) -> bool:
        """Return whether a limit is exceeded within the span, or a bit more or less."""
        limits = moment.policy.brake
        since = self.monotonic() - limits.within / SECOND - slack
        hosts = [rack for at, rack in self.hosts.values() if at > since]
        vms = [name for name, at in self.vms.items() if at > since]
        most = limits.hosts.of(len(moment.mirror.hosts))
        racks = [hosts.count(rack) for rack in set(hosts) - {""}]
        return (
            (bool(most) and len(hosts) > most)
            or (bool(limits.vms) and len(vms) > limits.vms)
            or (bool(limits.per_rack) and max(racks, default=0) > limits.per_rack)
        )


def _brake_change(moment: Moment) -> tuple[Brake | None, Brake | None]:
    for change in moment.changes:
        old, new = change.before, change.after
        if isinstance(old, Brake) or isinstance(new, Brake):
            assert old is None or isinstance(old, Brake)
            assert new is None or isinstance(new, Brake)
            return old, new
    now = next(iter(moment.mirror.table(Brake).values()), None)
    return now, now


def _withdraws(brake: Brake | None) -> bool:
    return brake is not None and brake.withdraws
