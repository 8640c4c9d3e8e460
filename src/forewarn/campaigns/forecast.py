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
from functools import cache, partial
from heapq import heappop, heappush, heapreplace
from typing import Protocol, TypeAlias

from forewarn.campaigns.fleet_map import NO_LIMIT, FleetMap
from forewarn.campaigns.grouping import Rules
from forewarn.campaigns.limits import GroupLimit, Limits
from forewarn.campaigns.model import Stage
from forewarn.campaigns.part_blackouts import Calendars
from forewarn.fleet.calendars import Calendar
from forewarn.instants import Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The durations of the work on hosts."""

    notice: Micros
    """Time from the notice to the work, for a host with VMs."""
    passes: Micros | None = None
    """The part of the notice that passes until all tenants approve; None: all of it."""
    needed: Micros = 0
    """Time of the step `needed`, in which the host has its place before its notice."""
    work: Micros
    """Time from the end of the notice to the end of the work."""
    after: Micros = 0
    """Time after the work in which the host keeps its place: the recovery of its VMs, if
    no host steps run."""
    recovers: Micros = 0
    """Time after the work in which its VMs recover: their scopes and tenants wait for
    that. At least `after`."""
    reserved: Micros
    """Time that must be left in a window when the work begins."""
    speed: float = 1.0
    """Divides soaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """When each host of an order is announced, and when its place is free again.

    Its work, and the recovery of its VMs after it, are just before its end.
    """

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
    calendars: Calendars,
    pace: Pace,
    now: Micros,
) -> Forecast | None:
    """Return when the hosts of an order would be done if the campaign started now.

    Stages are approved as soon as their soak ends, and no host fails. None: there is no
    window in which a host fits.
    """
    played = _Played(fleet, order, _Waits(fleet, limits, rules), calendars, pace)
    begin = 0
    for end, stage in stages:
        if not played.stage(range(begin, end), limits.at_once, now):
            return None
        now = max(played.ends[begin:end]) + round(stage.soak / pace.speed)
        begin = end
    return Forecast(begins=played.begins, ends=played.ends)


class _Played:
    """The hosts of an order, each played once."""

    def __init__(
        self,
        fleet: FleetMap,
        order: Sequence[int],
        waits: "_Waits",
        calendars: Calendars,
        pace: Pace,
    ) -> None:
        self._vms = fleet.vms
        self._order = order
        self._waits = waits
        self._calendars = calendars
        self._pace = pace
        # Many hosts of a large fleet take the same times.
        self._course_of = cache(partial(_course, pace))
        self._free: list[Micros] = []
        """The instants from which each place in flight is free."""
        self.begins = array("q", bytes(8 * len(order)))
        self.ends = array("q", bytes(8 * len(order)))

    def stage(self, places: Sequence[int], at_once: int, now: Micros) -> bool:
        """Play the hosts of a stage that begins now; return whether all of them fit.

        A host that a blackout of its part of the fleet stops is passed over until the
        blackout ends.
        """
        # 1 host, then 2, 4, …: in a new stage, each host that ends makes room for two.
        free, slots = [now], 1
        self._free = free
        passed: list[tuple[Micros, int]] = []
        left = iter(places)
        following = next(left, None)
        has_parts = self._calendars.has_parts
        while passed or following is not None:
            if following is None or (passed and passed[0][0] <= free[0]):
                _, place = heappop(passed)
            else:
                place, following = following, next(left, None)
            at = max(free[0], self._waits.until(self._order[place]))
            again = self._passed_until(place, at) if has_parts else at
            if again is None:
                return False
            is_first = following is None and (not passed or again <= passed[0][0])
            if again > at and not is_first:
                heappush(passed, (again, place))
                continue
            done = self._play(place, max(now, again))
            if done is None:
                return False
            insort(free, done)
            if slots < at_once:
                insort(free, done)
                slots += 1
        return True

    def _passed_until(self, place: int, at: Micros) -> Micros | None:
        """Return until when a host is passed over; None: always."""
        host, pace = self._order[place], self._pace
        notice = pace.notice if self._vms[host] else 0
        return self._calendars.passed_until(host, at, notice, pace.reserved)

    def _play(self, place: int, until: Micros) -> Micros | None:
        """Announce a host when a place in flight is free; return when it is done.

        None: there is no window in which it fits.
        """
        free, pace, host = self._free, self._pace, self._order[place]
        calendar = self._calendars.of(host)
        # Of the places that are free then, the one that was free last is taken, so that
        # the others stay for hosts that need not wait.
        # Comparisons, since 100,000 calls of max() take a twentieth of a second.
        at = bisect_right(free, until) - 1
        earliest = free.pop(at if at > 0 else 0)  # noqa: FURB136
        if earliest < until:  # noqa: PLR1730
            earliest = until
        notice = pace.notice if self._vms[host] else 0
        work_from = self._waits.work_until(host) if self._waits.has_overlap else 0
        course = self._course_of(calendar, earliest, work_from, notice)
        if course is None:
            return None
        begin, done, recovered = course
        self._waits.add(host, done, recovered)
        self.begins[place], self.ends[place] = begin, done
        return done


def _course(
    pace: Pace,
    calendar: Calendar,
    earliest: Micros,
    work_from: Micros,
    notice: Micros,
) -> tuple[Micros, Micros, Micros] | None:
    """Return when a host is announced, when it is done, and when its VMs have recovered.

    It has its place from `earliest` on, and can begin its work from `work_from` on. None:
    there is no window in which it fits.
    """
    begin = calendar.next_notice(earliest + pace.needed, notice, pace.reserved)
    if begin is None:
        return None
    passes = notice if pace.passes is None else min(notice, pace.passes)
    ready = begin + passes
    start = max(ready, work_from)
    # An early approval does not start a host before the window opens.
    if start > ready or passes < notice:
        held = calendar.next_notice(start, 0, pace.reserved)
        if held is None:
            return None
        start = held
    worked = start + pace.work
    return begin, worked + pace.after, worked + pace.recovers


_Places: TypeAlias = list[Micros]
"""A heap with the instant until which each of some places is taken; the first is the
place that is free first."""


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


class _Scopes(Protocol):
    """The work on scopes with VMs on several hosts."""

    def free_at(self, host: int) -> Micros:
        """Return when the work on the scopes of a host lets another host in."""
        ...

    def take(self, host: int, end: Micros) -> None:
        """Work on the scopes of a host until an instant, after all work that keeps it
        waiting."""
        ...


class _OneHost:
    """The ends of the work on scopes of which one host can be in work."""

    def __init__(self, fleet: FleetMap) -> None:
        self._scopes_of = fleet.host_scopes.of
        self._latest: list[Micros] = [0] * len(fleet.scopes)

    def free_at(self, host: int) -> Micros:
        """Return when no other host of the scopes is in work."""
        return max(map(self._latest.__getitem__, self._scopes_of(host)), default=0)

    def take(self, host: int, end: Micros) -> None:
        """Work on a host until an instant."""
        for scope in self._scopes_of(host):
            self._latest[scope] = end


class _OneDomain:
    """The ends of the work on scopes of which one domain can be in work.

    Each scope needs the latest end, and the latest end of the other domains than that
    one: no loop over domains, which would take half of the time of a forecast.
    """

    def __init__(self, fleet: FleetMap) -> None:
        self._domains_of = fleet.domains.of
        self._scope_of = fleet.scope_of_domain
        self._latest: list[Micros] = [0] * len(fleet.scopes)
        self._domain = [-1] * len(fleet.scopes)
        """The domain with the latest end."""
        self._others: list[Micros] = [0] * len(fleet.scopes)

    def free_at(self, host: int) -> Micros:
        """Return when no other domain of the scopes is in work."""
        free = 0
        scope_of, latest, others = self._scope_of, self._latest, self._others
        last = self._domain
        for domain in self._domains_of(host):
            scope = scope_of[domain]
            end = others[scope] if last[scope] == domain else latest[scope]
            free = end if end > free else free  # noqa: FURB136 - max() takes longer
        return free

    def take(self, host: int, end: Micros) -> None:
        """Work on a host until an instant."""
        scope_of, latest, others = self._scope_of, self._latest, self._others
        last = self._domain
        for domain in self._domains_of(host):
            scope = scope_of[domain]
            if last[scope] == domain:
                latest[scope] = max(end, latest[scope])
            elif end > latest[scope]:
                others[scope] = latest[scope]
                latest[scope] = end
                last[scope] = domain
            elif end > others[scope]:
                others[scope] = end


class _SeveralHosts:
    """The same for scopes of which several hosts can be announced."""

    def __init__(self, fleet: FleetMap, overlap: int) -> None:
        self._scopes_of = fleet.host_scopes.of
        self._places: list[_Places] = [[0] * (overlap + 1) for _ in fleet.scopes]

    def free_at(self, host: int) -> Micros:
        """Return when few enough other hosts of the scopes are announced."""
        scopes = self._scopes_of(host)
        return max((self._places[scope][0] for scope in scopes), default=0)

    def take(self, host: int, end: Micros) -> None:
        """Work on a host until an instant."""
        for scope in self._scopes_of(host):
            heapreplace(self._places[scope], end)


class _SeveralDomains:
    """The same for scopes of which several domains can be announced."""

    def __init__(self, fleet: FleetMap, overlap: int) -> None:
        self._domains_of = fleet.domains.of
        self._scope_of = fleet.scope_of_domain
        self._overlap = overlap
        self._ends: list[dict[int, Micros]] = [{} for _ in fleet.scopes]
        """The end of the work on each domain, by scope."""

    def free_at(self, host: int) -> Micros:
        """Return when few enough other domains of the scopes are announced."""
        free = 0
        for domain in self._domains_of(host):
            ends = self._ends[self._scope_of[domain]]
            others = sorted(end for other, end in ends.items() if other != domain)
            if len(others) > self._overlap:
                free = max(free, others[-1 - self._overlap])
        return free

    def take(self, host: int, end: Micros) -> None:
        """Work on a host until an instant."""
        for domain in self._domains_of(host):
            ends = self._ends[self._scope_of[domain]]
            ends[domain] = max(end, ends.get(domain, 0))


class _Waits:
    """The instants until which the hosts so far take the places of each limit."""

    def __init__(self, fleet: FleetMap, limits: Limits, rules: Rules) -> None:
        self._tenants_on = fleet.tenants_on
        self._has_domains = rules.domains
        self._groups = [(limit.column.of, _places(limit)) for limit in rules.groups]
        has_tenants = rules.domains and limits.tenant_most
        self._tenants = [_Vms(most) for most in limits.tenant_most if has_tenants]
        one, several = (
            (_OneHost, _SeveralHosts)
            if rules.is_exclusive
            else (_OneDomain, _SeveralDomains)
        )
        self._work: _Scopes = one(fleet)
        self._notices: _Scopes = (
            several(fleet, limits.overlap) if limits.overlap else self._work
        )
        """Without overlap, a host is announced only when its work can begin after the
        notice."""
        self.has_overlap = rules.domains and self._notices is not self._work
        """Whether the work can begin later than the notice ends."""

    def until(self, host: int) -> Micros:
        """Return when no limit stops the announcement of the host any more."""
        ends = self._notices.free_at(host) if self._has_domains else 0
        for group_of, places in self._groups:
            group = places[group_of[host]]
            if group and group[0] > ends:
                ends = group[0]
        if self._tenants:
            for tenant, vms in self._tenants_on(host).items():
                ends = max(ends, self._tenants[tenant].free_at(vms))
        return ends

    def work_until(self, host: int) -> Micros:
        """Return when the guard of fault domains lets the work on the host begin."""
        return self._work.free_at(host) if self.has_overlap else 0

    def add(self, host: int, end: Micros, recovered: Micros) -> None:
        """Take the places of a host until it is done, and of its VMs until they have
        recovered."""
        for group_of, places in self._groups:
            group = places[group_of[host]]
            if group:
                heapreplace(group, end)
        if self._tenants:
            for tenant, vms in self._tenants_on(host).items():
                self._tenants[tenant].take(vms, recovered)
        if not self._has_domains:
            return
        self._work.take(host, recovered)
        if self.has_overlap:
            self._notices.take(host, recovered)


def _places(limit: GroupLimit) -> list[_Places]:
    """Return the places of each group; none of a group without a limit."""
    return [[0] * (0 if most == NO_LIMIT else most) for most in limit.most]
