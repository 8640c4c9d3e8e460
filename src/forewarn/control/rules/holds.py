"""Decide when routine maintenance may start: holds, and the blockers that follow.

A *hold* is a limit on the time of a start: the maintenance window of a scope, a deferral
of a tenant, or a blackout of the service. Windows and blackouts apply after an approval
and after NotBefore. A deferral applies to hosts that are not announced: it withdraws an
announced one. Failures, requests of users and emergency repairs have no holds, and OS
upgrades only blackouts. A hold of another source is a value from `holds_of`.

Windows recur by the wall clock, so each check computes them again from its `now`: steps of
the clock, restarts and changed windows need no repair.
"""

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from forewarn.control.rules import choices, wide_blackouts
from forewarn.fleet.blackouts import Blackout, clash
from forewarn.fleet.calendars import AHEAD_MAX, MISSES_MAX
from forewarn.fleet.model import Scope, Vm
from forewarn.fleet.windows import Window, next_open
from forewarn.instants import DAY, Micros, round_up_to_second
from forewarn.protocol.blockers import (
    AnyBlocker,
    Deferred,
    InBlackout,
    NoCommonWindow,
    OutsideWindow,
    WindowClosed,
)
from forewarn.protocol.operations import Operation, OperationState
from forewarn.protocol.verbs import Verb
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import Choice

LOOK_AGAIN_AFTER: Micros = DAY
"""Time to the next check of a host whose windows have no common opening. Only a change of
a window, or of the clock in one of their time zones, can help."""


class HoldSource(enum.Enum):
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
    found: list[Hold] = []
    chosen = choices.of_request(reader, operation.request, members)
    expedited = {choice.scope for choice in chosen if not choice.until}
    for name in sorted({vm.scope for vm in members} - expedited):
        scope = reader.get(Scope, name)
        if scope is not None and scope.maintenance_window:
            found.append(
                Hold(
                    source=HoldSource.SCOPE_WINDOW,
                    name=name,
                    tenant=scope.tenant,
                    windows=scope.maintenance_window,
                )
            )
    if operation.state is OperationState.PLANNED:
        found += [_deferral(choice) for choice in chosen if choice.until]
    return (*found, *banned)


def _blackouts(reader: Reader, operation: Operation) -> tuple[Hold, ...]:
    found = wide_blackouts.over(reader, operation)
    work = wide_blackouts.work_of(reader, operation) if found else 0
    return of_blackouts(found, work=work)


def of_blackouts(
    blackouts: Iterable[Blackout], *, work: Micros = 0
) -> tuple[Hold, ...]:
    """Return the holds of blackouts of the service on work of some length."""
    return tuple(
        Hold(
            source=HoldSource.BLACKOUT,
            name=each.name,
            tenant="",
            blackout=each,
            work=work,
        )
        for each in blackouts
    )


def deferrals_at(
    reader: Reader, operation: Operation, vms: Sequence[Vm]
) -> tuple[Hold, ...]:
    """Return the deferrals of these VMs in the other maintenance of the host.

    They hold that maintenance only. A tenant that deferred it expects no work before.
    """
    others = {
        each.request
        for each in every(reader, kinds.OPEN_OPERATIONS_OF_HOST, operation.host)
        if each.verb is Verb.MAINTAIN
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


def first_start(holds: Sequence[Hold], at: Micros) -> Micros | None:
    """Return the first instant, from `at` on, that all holds allow.

    Return None if their windows have no common opening.
    """
    # Scopes of one tenant often have the same windows.
    windows = list(dict.fromkeys(hold.windows for hold in holds if hold.windows))
    blackouts = _blackouts_in(holds)
    work = max((hold.work for hold in holds), default=0)
    at = max([at, *(hold.until for hold in holds)])
    until = at + AHEAD_MAX
    for _ in range(MISSES_MAX):
        start = next_open(windows, at)
        if start is None or not blackouts:
            return start
        found = clash(blackouts, start, start + work)
        if found is None:
            return start
        at = found.ends
        if at > until:
            break
    return None


def _blackouts_in(holds: Sequence[Hold]) -> list[Blackout]:
    return [hold.blackout for hold in holds if hold.blackout is not None]


def next_notice(
    holds: Sequence[Hold], at: Micros, *, notice: Micros, not_before: Micros
) -> Micros | None:
    """Return the first instant, from `at` on, at which an operation with these holds can be
    announced; None: there is none.

    It starts after its notice and a given time, and is not announced in a blackout.
    """
    blackouts = _blackouts_in(holds)
    until = at + AHEAD_MAX
    while at <= until:
        start = first_start(holds, round_up_to_second(max(not_before, at + notice)))
        if start is None:
            return None
        announced = max(at, start - notice)
        found = clash(blackouts, announced, announced)
        if found is None:
            return announced
        at = found.ends
    return None


def why_not_announced(
    holds: Sequence[Hold], now: Micros, start: Micros
) -> tuple[AnyBlocker, ...]:
    """Return why an operation with these holds is not announced now, to begin at `start`."""
    held = why_held(holds, start)
    if any(isinstance(each, InBlackout) for each in held):
        return held
    blackouts = _blackouts_in(holds)
    found = wide_blackouts.why_at(blackouts, now, now)
    return held if found is None else (*held, found)


def why_held(holds: Sequence[Hold], at: Micros) -> tuple[AnyBlocker, ...]:
    """Return why an operation with these holds cannot start at an instant.

    Each closed window names its next opening. All can be open together later than that.
    """
    start = first_start(holds, at)
    if start == at:
        return ()
    if start is None:
        others = [hold for hold in holds if hold.blackout is None]
        if first_start(others, at) is None:
            return (NoCommonWindow(scopes=_conflict(others, at)),)
        return tuple(_blocker(hold, 0) for hold in holds if hold.blackout is not None)
    closed = [(hold, first_start([hold], at) or start) for hold in holds]
    return tuple(_blocker(hold, ends) for hold, ends in closed if ends > at)


def _blocker(hold: Hold, ends: Micros) -> AnyBlocker:
    if hold.source is HoldSource.BLACKOUT:
        return InBlackout(blackout=hold.name, ends=ends)
    if hold.source is HoldSource.DEFERRAL:
        return Deferred(tenant=hold.tenant, scope=hold.name, vm=hold.vm, until=ends)
    return WindowClosed(scope=hold.name, opens=ends)


def _conflict(holds: Sequence[Hold], at: Micros) -> tuple[str, ...]:
    """Return scopes whose windows have no common opening, and would without any of them."""
    left = {hold.windows: hold for hold in holds if hold.windows}
    for windows in list(left):
        rest = [hold for key, hold in left.items() if key != windows]
        if first_start(rest, at) is None:
            del left[windows]
    return tuple(sorted(hold.name for hold in left.values()))


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
