"""Hosts whose maintenance windows are never open together, and what ends their wait.

For operators only: the texts name scopes of several tenants.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from forewarn.campaigns.hours import Hours
from forewarn.campaigns.model import Impact
from forewarn.control.rules.holds import HeldTimes, Hold, HoldSource
from forewarn.fleet.model import Scope, Vm
from forewarn.fleet.window_fields import line_of
from forewarn.fleet.windows import Window
from forewarn.protocol.blockers import AnyBlocker, NoCommonWindow
from forewarn.protocol.operations import Operation, OperationState
from forewarn.store import kinds
from forewarn.store.port import Reader, columns, every
from forewarn.wording import apart as wording

if TYPE_CHECKING:
    # A service that plans nothing does not load the planner.
    from forewarn.campaigns.planner import CampaignPlan

Json: TypeAlias = dict[str, Any]

SETS_MAX = 1_000
"""Maximum different sets of windows that a plan looks at, some milliseconds each in the
worst case. Tenants have few; the hosts of further sets are not looked at."""

GROUPS_TOLD_MAX = 50
"""Maximum sets of scopes that a plan names."""

HOSTS_TOLD_MAX = 100
"""Maximum hosts that a plan names for each of them; all are counted."""


@dataclass(frozen=True, slots=True)
class _Windowed:
    """The scopes with windows, and those of a campaign."""

    scopes: dict[str, Scope]
    hours: Hours
    at: int

    def apart(self, names: Iterable[str]) -> NoCommonWindow | None:
        """Return why a host with VMs of these scopes can never begin."""
        holds = [
            Hold(
                source=HoldSource.SCOPE_WINDOW,
                name=name,
                tenant=self.scopes[name].tenant,
                windows=self.scopes[name].maintenance_window,
            )
            for name in sorted(names)
        ]
        times = HeldTimes(holds, self.at)
        for blocker in times.why_held():
            if isinstance(blocker, NoCommonWindow):
                return blocker
        return times.why_apart(self.hours)


def of_plan(reader: Reader, plan: "CampaignPlan") -> list[Json]:
    """Return the hosts of a plan whose windows are never open together, in sets of scopes.

    An emergency, and work without impact, wait for no windows of tenants.
    """
    campaign = plan.campaign
    if campaign.is_emergency or campaign.impact is Impact.NONE:
        return []
    scopes = {scope.name: scope for scope in every(reader, kinds.SCOPES_WITH_WINDOW)}
    hours = Hours(
        campaign=campaign.name, work=campaign.expect.slow, windows=campaign.windows
    )
    windowed = _Windowed(scopes, hours, plan.planned_at)
    if not scopes or windowed.apart(scopes) is None:
        # All windows are open together at some time, and so are those of each host.
        return []
    return _told(windowed, _hosts_of(reader, plan, scopes))


def _hosts_of(
    reader: Reader, plan: "CampaignPlan", scopes: Iterable[str]
) -> dict[frozenset[str], list[str]]:
    """Return the hosts of a plan by the scopes with windows that have VMs there."""
    windowed = set(scopes)
    there: dict[str, set[str]] = {}
    for hosts, names in columns(reader, kinds.VMS_ON_HOST, ("host", "scope")):
        for host, name in zip(hosts, names, strict=True):
            if name in windowed:
                there.setdefault(host, set()).add(name)
    grouped: dict[frozenset[str], list[str]] = {}
    for host in plan.hosts:
        if host in there:
            grouped.setdefault(frozenset(there[host]), []).append(host)
    return grouped


def _told(found: _Windowed, grouped: dict[frozenset[str], list[str]]) -> list[Json]:
    looked: dict[frozenset[tuple[Window, ...]], bool] = {}
    hosts: dict[NoCommonWindow, list[str]] = {}
    for names, named in grouped.items():
        windows = frozenset(found.scopes[name].maintenance_window for name in names)
        if windows not in looked and len(looked) == SETS_MAX:
            continue
        if not looked.get(windows, True):
            continue
        never = found.apart(names)
        looked[windows] = never is not None
        if never is not None:
            hosts.setdefault(never, []).extend(named)
    most = sorted(hosts.items(), key=lambda item: (-len(item[1]), item[0].scopes))
    return [_group(found, *group) for group in most[:GROUPS_TOLD_MAX]]


def _group(found: _Windowed, never: NoCommonWindow, hosts: list[str]) -> Json:
    tenants = sorted({found.scopes[name].tenant for name in never.scopes} - {""})
    return {
        "scopes": list(never.scopes),
        "tenants": tenants,
        "with_campaign": bool(never.campaign),
        "host_count": len(hosts),
        "hosts": hosts[:HOSTS_TOLD_MAX],
        "message": wording.hosts(never, len(hosts), tenants),
        "hint": wording.before_start(
            never.scopes[-1], _lines(found, never) if _is_pair(never) else []
        ),
    }


def _is_pair(never: NoCommonWindow) -> bool:
    """Return whether two sets of windows are apart: with the other one, they are not."""
    return len(never.scopes) == 1 + (not never.campaign)


def _lines(found: _Windowed, never: NoCommonWindow) -> list[str]:
    """Return the windows of the other one, as lines."""
    windows = found.scopes[never.scopes[0]].maintenance_window
    return [
        line_of(window)
        for window in (found.hours.windows if never.campaign else windows)
    ]


def way_out(
    reader: Reader, operation: Operation, blockers: Iterable[AnyBlocker]
) -> str:
    """Return what ends the wait of a host whose windows are never open together.

    Empty: it does not wait for that. Each scope of the reason is needed for it, so it
    ends if one tenant does not keep to its windows.
    """
    never = next(
        (blocker for blocker in blockers if isinstance(blocker, NoCommonWindow)), None
    )
    if never is None:
        return ""
    vms = _vms_of(reader, operation)
    names = sorted(vm.name for vm in vms if vm.scope == never.scopes[-1])
    return wording.way_out(never.scopes[-1], names[0]) if names else ""


def _vms_of(reader: Reader, operation: Operation) -> list[Vm]:
    """Return the VMs that an operation affects, or would affect if it began now."""
    if operation.state is OperationState.PLANNED:
        return list(every(reader, kinds.VMS_ON_HOST, operation.host))
    return [vm for name in operation.vms if (vm := reader.get(Vm, name)) is not None]
