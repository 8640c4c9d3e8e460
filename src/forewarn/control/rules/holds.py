"""Decide when routine maintenance may start: holds, and the blockers that follow.

A *hold* is a limit on the time of a start: the maintenance window of a scope, a deferral
of a tenant, or a blackout of the service. Windows and blackouts apply after an approval
and after NotBefore. A deferral applies to hosts that are not announced: it withdraws an
announced one. Failures, requests of users and emergency repairs have no holds, and OS
upgrades only blackouts. A hold of another source is a value from `holds_of`.

Windows recur by the wall clock, so each check computes them again from its `now`: steps of
the clock, restarts and changed windows need no repair. An opening that was promised to a
host (`promising`) counts in addition to the windows of its scope.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from forewarn.campaigns.hours import Hours
from forewarn.control.rules import choices, wide_blackouts
from forewarn.fleet.blackouts import Blackout
from forewarn.fleet.calendars import AHEAD_MAX, MISSES_MAX, Calendar
from forewarn.fleet.common_openings import HORIZON, CommonOpenings, Search
from forewarn.fleet.model import Scope, Vm
from forewarn.fleet.windows import Opening, Window, openings
from forewarn.instants import DAY, HOUR, Micros, round_up_to_second
from forewarn.protocol.blockers import (
    AnyBlocker,
    Deferred,
    InBlackout,
    NoCommonWindow,
    OutsideWindow,
    WindowClosed,
)
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.operations import Operation, OperationState
from forewarn.protocol.verbs import Verb
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import Choice

LOOK_AGAIN_AFTER: Micros = DAY
"""Time to the next check of a host whose windows have no common opening. Only a change of
a window, or of the clock in one of their time zones, can help."""


class HoldSource(Enumeration):
    """The origin of a hold."""

    SCOPE_WINDOW = "scope window"
    DEFERRAL = "deferral"
    BLACKOUT = "blackout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A limit on the time of a start."""

    source: HoldSource
    name: str
    """The scope or the blackout that the hold comes from."""
    tenant: str
    """The tenant of the scope; empty: the hold is of the service."""
    windows: tuple[Window, ...] = ()
    """The operation starts only in one of these; empty: at any time."""
    promised: Opening | None = None
    """It starts in this opening too, which is not one of the windows any more."""
    until: Micros = 0
    """The operation does not start before this time."""
    vm: str = ""
    """The VM that is deferred; empty: the whole scope."""
    blackout: Blackout | None = None
    """The operation does not start in it; None: the hold is another one."""
    work: Micros = 0
    """Time from the start on that must avoid the blackout."""


def holds_of(
    reader: Reader, operation: Operation, vms: Iterable[Vm]
) -> tuple[Hold, ...]:
    """Return the holds of an operation that affects these VMs."""
    banned = _blackouts(reader, operation)
    if operation.verb is not Verb.MAINTAIN or operation.is_emergency:
        return banned
    members = list(vms)
    collected: list[Hold] = []
    promised = {
        promise.scope: Opening(promise.opens, promise.closes)
        for promise in operation.promises
    }
    chosen = choices.of_request(reader, operation.request, members)
    expedited = {choice.scope for choice in chosen if not choice.until}
    for name in sorted({vm.scope for vm in members} - expedited):
        scope = reader.get(Scope, name)
        if scope is not None and scope.maintenance_window:
            collected.append(
                Hold(
                    source=HoldSource.SCOPE_WINDOW,
                    name=name,
                    tenant=scope.tenant,
                    windows=scope.maintenance_window,
                    promised=promised.get(name),
                )
            )
    if operation.state is OperationState.PLANNED:
        collected += [_deferral(choice) for choice in chosen if choice.until]
    return (*collected, *banned)


def _blackouts(reader: Reader, operation: Operation) -> tuple[Hold, ...]:
    blackouts = wide_blackouts.over(reader, operation)
    work = wide_blackouts.work_of(reader, operation) if blackouts else 0
    return of_blackouts(blackouts, work=work)


def of_blackouts(
    blackouts: Iterable[Blackout], *, work: Micros = 0
) -> tuple[Hold, ...]:
    """Return the holds of blackouts of the service on work of some length."""
    return tuple(
        Hold(
            source=HoldSource.BLACKOUT,
            name=blackout.name,
            tenant="",
            blackout=blackout,
            work=work,
        )
        for blackout in blackouts
    )


def deferrals_at(
    reader: Reader, operation: Operation, vms: Sequence[Vm]
) -> tuple[Hold, ...]:
    """Return the deferrals of these VMs in the other maintenance of the host.

    They hold that maintenance only. A tenant that deferred it expects no work before.
    """
    others = {
        other.request
        for other in every(reader, kinds.OPEN_OPERATIONS_OF_HOST, operation.host)
        if other.verb is Verb.MAINTAIN
    }
    return tuple(
        deferral
        for request in sorted(others - {operation.request})
        for deferral in deferrals_in(reader, request, vms)
    )


def deferrals_in(reader: Reader, request: str, vms: Sequence[Vm]) -> Iterator[Hold]:
    """Yield the deferrals of these VMs in the maintenance of a request."""
    for choice in choices.of_request(reader, request, vms):
        if choice.until:
            yield _deferral(choice)


def _deferral(choice: Choice) -> Hold:
    return Hold(
        source=HoldSource.DEFERRAL,
        name=choice.scope,
        tenant=choice.tenant,
        until=choice.until,
        vm=choice.vm,
    )


_Hours: TypeAlias = tuple[tuple[Window, ...], Opening | None]
"""The windows of a scope, and its promised opening."""


def _hours(hold: Hold) -> _Hours:
    return hold.windows, hold.promised


class HeldTimes:
    """When some holds allow an operation to start, from an instant on.

    Openings and blackouts are computed once, so a decision asks one of these.
    """

    def __init__(
        self, holds: Sequence[Hold], at: Micros, *, now: Micros | None = None
    ) -> None:
        """Ask for starts from `at` on, and for announcements from `now` on."""
        self._holds = holds
        self._at = at
        self._now = now = at if now is None else now
        # Scopes of one tenant often have the same windows.
        self._of_windows = {_hours(hold): hold for hold in holds if hold.windows}
        self._earliest = max([at, *(hold.until for hold in holds)])
        self._common = self._openings_from(self._earliest)
        self._blackouts = [hold.blackout for hold in holds if hold.blackout is not None]
        self._closed = Calendar((), now, self._blackouts)
        self._work = max((hold.work for hold in holds), default=0)
        self._apart_looks = 0

    @property
    def looks(self) -> int:
        """How many openings were computed or looked at."""
        return self._common.looks + self._apart_looks

    def first_start(self, at: Micros) -> Micros | None:
        """Return the first instant, from `at` on, that all holds allow.

        Return None if no common opening of their windows is found.
        """
        at = max(at, self._earliest)
        until = at + AHEAD_MAX
        for _ in range(MISSES_MAX):
            opens = self._common.first(at).opens
            start = (
                None if opens is None else self._closed.next_start(opens, self._work)
            )
            if start is None or start > until or start == opens:
                return opens if start == opens else None
            at = start
        return None

    def next_notice(self, *, notice: Micros, not_before: Micros) -> Micros | None:
        """Return the first instant at which an operation can be announced; None: never.

        It starts after its notice and a given time, and is not announced in a blackout.
        """
        at = self._now
        until = at + AHEAD_MAX
        for _ in range(MISSES_MAX):
            start = self.first_start(round_up_to_second(max(not_before, at + notice)))
            if start is None or at > until:
                return None
            announced = max(at, start - notice)
            free = self._closed.next_start(announced, 0)
            if free is None or free == announced:
                return free
            at = free
        return None

    @property
    def look_again(self) -> Micros:
        """When to look again for a time that was not found.

        A search can have ended before that.
        """
        searched = self._common.first(self._earliest).until - self._earliest
        return self._now + min(LOOK_AGAIN_AFTER, max(searched, HOUR))

    @property
    def allow_it_now(self) -> bool:
        """Whether an operation can be announced now, to begin at the instant."""
        groups = range(len(self._of_windows))
        return (
            self._earliest == self._at
            and all(self._common.opens(group, self._at) == self._at for group in groups)
            and self._closed.next_start(self._at, self._work) == self._at
            and self._closed.next_start(self._now, 0) == self._now
        )

    def why_not_announced(self) -> tuple[AnyBlocker, ...]:
        """Return why an operation is not announced now, to begin at the instant."""
        held = self.why_held()
        if any(isinstance(blocker, InBlackout) for blocker in held):
            return held
        blackout = wide_blackouts.why_at(self._blackouts, self._now, self._now)
        return held if blackout is None else (*held, blackout)

    def why_held(self) -> tuple[AnyBlocker, ...]:
        """Return why an operation cannot start at the instant.

        Each closed window names its next opening. All can be open together later than
        that.
        """
        start = self.first_start(self._at)
        if start == self._at:
            return ()
        if start is None:
            search = self._common.first(self._earliest)
            if search.opens is None:
                return (self._no_common_window(search),)
            blackouts = (hold for hold in self._holds if hold.blackout is not None)
            return tuple(_blocker(hold, 0) for hold in blackouts)
        opens = self._openings()
        closed = ((hold, self._ends(hold, opens) or start) for hold in self._holds)
        return tuple(_blocker(hold, ends) for hold, ends in closed if ends > self._at)

    def why_apart(self, hours: Hours) -> NoCommonWindow | None:
        """Return why no start is in the windows of a campaign too.

        Return None if one is, or if the windows of the scopes are not open together.
        """
        if not self._of_windows or not hours.windows:
            return None
        at = self._earliest
        groups = [
            openings(windows, at, beside=more) for windows, more in self._of_windows
        ]
        common = CommonOpenings([hours.starts(at, at + HORIZON), *groups])
        search = common.first(at)
        if search.opens is not None:
            self._apart_looks = common.looks
            return None
        apart = common.apart(search, at)
        self._apart_looks = common.looks
        if 0 not in apart:
            return None
        others = [group - 1 for group in apart if group]
        return replace(self._not_together(others, search), campaign=hours.campaign)

    def openings_at(self, start: Micros) -> dict[str, Opening]:
        """Return the opening of each scope at an instant that all holds allow."""
        times = self._openings_from(start)
        opening = {
            hours: times.opening(number, start)
            for number, hours in enumerate(self._of_windows)
        }
        return {
            hold.name: opening[_hours(hold)] for hold in self._holds if hold.windows
        }

    def _openings_from(self, at: Micros) -> CommonOpenings:
        """Return the openings from an instant on."""
        return CommonOpenings(
            openings(windows, at, beside=promised)
            for windows, promised in self._of_windows
        )

    def _openings(self) -> dict[_Hours, Micros | None]:
        """Return the next openings of the windows."""
        times = self._common
        if self._earliest > self._at:
            times = self._openings_from(self._at)
        return {
            hours: times.opens(number, self._at)
            for number, hours in enumerate(self._of_windows)
        }

    def _ends(self, hold: Hold, opens: Mapping[_Hours, Micros | None]) -> Micros | None:
        """Return when a hold allows an operation to start; other holds are ignored."""
        if hold.blackout is not None:
            calendar = Calendar((), self._at, [hold.blackout])
            return calendar.next_start(self._at, hold.work)
        return opens[_hours(hold)] if hold.windows else hold.until

    def _no_common_window(self, search: Search) -> NoCommonWindow:
        return self._not_together(self._common.apart(search, self._earliest), search)

    def _not_together(self, apart: Iterable[int], search: Search) -> NoCommonWindow:
        named = list(self._of_windows.values())
        hours = (search.until - self._earliest) // HOUR
        return NoCommonWindow(
            scopes=tuple(sorted(named[number].name for number in apart)),
            within=max(1, hours) * HOUR,
        )


def first_start(holds: Sequence[Hold], at: Micros) -> Micros | None:
    """Return the first instant, from `at` on, that all holds allow; None: not found."""
    return HeldTimes(holds, at).first_start(at)


def why_held(holds: Sequence[Hold], at: Micros) -> tuple[AnyBlocker, ...]:
    """Return why an operation with these holds cannot start at an instant."""
    return HeldTimes(holds, at).why_held()


def _blocker(hold: Hold, ends: Micros) -> AnyBlocker:
    if hold.source is HoldSource.BLACKOUT:
        return InBlackout(blackout=hold.name, ends=ends)
    if hold.source is HoldSource.DEFERRAL:
        return Deferred(tenant=hold.tenant, scope=hold.name, vm=hold.vm, until=ends)
    return WindowClosed(
        scope=hold.name, opens=ends, is_promised=_is_promised(hold, ends)
    )


def _is_promised(hold: Hold, opens: Micros) -> bool:
    """Return whether the windows of a scope are not open at its next opening."""
    if hold.promised is None or opens != hold.promised.opens:
        return False
    return all(
        first.opens > opens for first in islice(openings(hold.windows, opens), 1)
    )


def opening(blockers: Iterable[AnyBlocker]) -> Micros:
    """Return the instant at which a held operation is checked again; 0: it has no hold
    that ends by itself."""
    return max(map(_ends, blockers), default=0)


def _ends(blocker: AnyBlocker) -> Micros:
    match blocker:
        case WindowClosed(opens=ends) | OutsideWindow(opens=ends):
            return ends
        case InBlackout(ends=ends):
            return ends
        case Deferred(until=ends):
            return ends
        case _:
            return 0
