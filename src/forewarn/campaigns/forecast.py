"""Play the admission of a campaign's hosts ahead of time, to estimate its end.

The hosts are played once, in their order. Each begins as soon as the limits allow that
with all hosts before it in the order. A host that must wait does not delay the hosts
after it, unless they wait for the same. A running campaign looks at what is then, so it
differs in detail, but not in the limits: no moment of a forecast exceeds one of them.
"""

from array import array
from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace

from forewarn.campaigns.fleet_map import NO_LIMIT, FleetMap
from forewarn.campaigns.grouping import Rules
from forewarn.campaigns.limits import GroupLimit, Limits
from forewarn.campaigns.model import Stage
from forewarn.campaigns.windows import Calendar
from forewarn.instants import Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long hosts take."""

    notice: Micros
    """Time from the notice to the work, for a host with VMs."""
    work: Micros
    """Time from the end of the notice to the end of the work."""
    reserved: Micros
    """Time that must be left in a window when the work begins."""
    speed: float = 1.0
    """Divides soaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """When each host of an order is announced and done."""

    begins: "array[int]"
    ends: "array[int]"

    @property
    def end(self) -> Micros:
        """Return when the last host is done."""
        return max(self.ends)


def forecast(
    fleet: FleetMap,
    order: Sequence[int],
    stages: Sequence[tuple[int, Stage]],
    limits: Limits,
    rules: Rules,
    *,
    calendar: Calendar,
    pace: Pace,
    now: Micros,
) -> Forecast | None:
    """Return when the hosts of an order would be done if the campaign started now.

    Stages are approved as soon as their soak ends, and no host fails. None: there is no
    window in which a host fits.
    """
    begins, ends = array("q"), array("q")
    waits = _Waits(fleet, limits, rules)
    for end, stage in stages:
        # 1 host, then 2, 4, …: in a new stage, each host that ends makes room for two.
        free, slots = [now], 1
        for host in order[len(ends) : end]:
            until = waits.until(host)
            # Of the places that are free then, the one that was free last is taken, so
            # that the others stay for hosts that need not wait.
            earliest = max(free.pop(max(0, bisect_right(free, until) - 1)), until)
            notice = pace.notice if fleet.vms[host] else 0
            begin = calendar.next_notice(earliest, notice, pace.reserved)
            if begin is None:
                return None
            done = begin + notice + pace.work
            waits.add(host, done)
            begins.append(begin)
            ends.append(done)
            insort(free, done)
            if slots < limits.at_once:
                insort(free, done)
                slots += 1
        now = max(ends) + round(stage.soak / pace.speed)
    return Forecast(begins=begins, ends=ends)


class _Places:
    """A number of places, each taken until an instant."""

    __slots__ = ("_ends", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._ends: list[Micros] = []

    def free_at(self) -> Micros:
        """Return when a place is free."""
        return self._ends[0] if len(self._ends) == self._most else 0

    def take(self, end: Micros) -> None:
        """Take the place that is free first."""
        if len(self._ends) == self._most:
            heapreplace(self._ends, max(end, self._ends[0]))
        else:
            heappush(self._ends, end)


class _Vms:
    """VMs of a tenant under notice or in work, until an instant."""

    __slots__ = ("_floor", "_most", "_running", "_total")

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: list[tuple[Micros, int]] = []
        self._total = 0
        self._floor: Micros = 0

    def free_at(self, vms: int) -> Micros:
        """Return when as many VMs can be added."""
        while self._total + vms > self._most:
            self._floor, done = heappop(self._running)
            self._total -= done
        return self._floor

    def take(self, vms: int, end: Micros) -> None:
        """Add VMs."""
        heappush(self._running, (end, vms))
        self._total += vms


class _Waits:
    """The instants until which the hosts so far take the places of each limit."""

    def __init__(self, fleet: FleetMap, limits: Limits, rules: Rules) -> None:
        self._fleet = fleet
        self._rules = rules
        self._groups = [(limit, _places(limit)) for limit in rules.groups]
        has_tenants = rules.domains and limits.tenant_most
        self._tenants = [_Vms(most) for most in limits.tenant_most if has_tenants]
        self._scopes: dict[int, _Places] = {}
        """The places of each scope, if two hosts of it exclude each other."""
        self._domains: dict[int, dict[int, Micros]] = {}
        """The end of the work on each domain, by scope."""

    def until(self, host: int) -> Micros:
        """Return when no limit stops the host any more."""
        found = 0
        for limit, places in self._groups:
            group = places.get(limit.column.of[host])
            if group is not None:
                found = max(found, group.free_at())
        if not self._rules.domains:
            return found
        if self._tenants:
            for tenant, vms in self._fleet.host_tenants.counted(host):
                found = max(found, self._tenants[tenant].free_at(vms))
        scope_of = self._fleet.scope_of_domain
        for domain in self._fleet.domains.of(host):
            scope = scope_of[domain]
            if self._rules.is_exclusive:
                if scope in self._scopes:
                    found = max(found, self._scopes[scope].free_at())
            elif scope in self._domains:
                found = max(found, self._domain_free_at(scope, domain))
        return found

    def _domain_free_at(self, scope: int, domain: int) -> Micros:
        """Return when few enough other domains of the scope are in work."""
        ends = self._domains[scope]
        if self._rules.overlap:
            others = sorted(end for each, end in ends.items() if each != domain)
            place = len(others) - 1 - self._rules.overlap
            return others[place] if place >= 0 else 0
        return max((end for each, end in ends.items() if each != domain), default=0)

    def add(self, host: int, end: Micros) -> None:
        """Take the places of a host until it is done."""
        for limit, places in self._groups:
            group = places.get(limit.column.of[host])
            if group is not None:
                group.take(end)
        if not self._rules.domains:
            return
        if self._tenants:
            for tenant, vms in self._fleet.host_tenants.counted(host):
                self._tenants[tenant].take(vms, end)
        scope_of = self._fleet.scope_of_domain
        for domain in self._fleet.domains.of(host):
            scope = scope_of[domain]
            if self._rules.is_exclusive:
                places = self._scopes.get(scope)
                if places is None:
                    places = self._scopes[scope] = _Places(self._rules.overlap + 1)
                places.take(end)
            else:
                ends = self._domains.setdefault(scope, {})
                ends[domain] = max(end, ends.get(domain, 0))


def _places(limit: GroupLimit) -> dict[int, _Places]:
    """Return the places of each group that has a limit."""
    return {
        group: _Places(most)
        for group, most in enumerate(limit.most)
        if most != NO_LIMIT
    }
