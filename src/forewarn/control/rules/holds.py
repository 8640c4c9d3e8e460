"""Decide when routine maintenance may start: holds, and the blockers that follow.

A *hold* is a limit on the time of a start: the maintenance window of a scope, or a
deferral of a tenant. A window applies after an approval and after NotBefore. A deferral
applies to hosts that are not announced: it withdraws an announced one. Failures, requests
of users, OS upgrades and emergency repairs have no holds. A hold of another source is a
value from `holds_of`.

Windows recur by the wall clock, so each check computes them again from its `now`: steps of
the clock, restarts and changed windows need no repair.
"""

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forewarn.control.rules import choices
from forewarn.fleet.model import Scope, Vm
from forewarn.fleet.windows import Window, next_open
from forewarn.instants import DAY, Micros
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A limit on the time of a start."""

    source: HoldSource
    name: str
    """The scope that the hold comes from."""
    tenant: str
    windows: tuple[Window, ...] = ()
    """The operation starts only in one of these; empty: at any time."""
    until: Micros = 0
    """The operation does not start before this time."""
    vm: str = ""
    """The VM that is deferred; empty: the whole scope."""


def holds_of(
    reader: Reader, operation: Operation, vms: Iterable[Vm]
) -> tuple[Hold, ...]:
    """Return the holds of an operation that affects these VMs."""
    if operation.verb is not Verb.MAINTAIN or operation.is_emergency:
        return ()
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
    return tuple(found)


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
        _deferral(choice)
        for request in sorted(others - {operation.request})
        for choice in choices.of_request(reader, request, vms)
        if choice.until
    )


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
    windows = dict.fromkeys(hold.windows for hold in holds if hold.windows)
    return next_open(list(windows), max([at, *(hold.until for hold in holds)]))


def why_held(holds: Sequence[Hold], at: Micros) -> tuple[AnyBlocker, ...]:
    """Return why an operation with these holds cannot start at an instant.

    Each closed window names its next opening. All can be open together later than that.
    """
    start = first_start(holds, at)
    if start == at:
        return ()
    if start is None:
        return (NoCommonWindow(scopes=_conflict(holds, at)),)
    closed = [(hold, first_start([hold], at) or start) for hold in holds]
    return tuple(_blocker(hold, ends) for hold, ends in closed if ends > at)


def _blocker(hold: Hold, ends: Micros) -> AnyBlocker:
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
