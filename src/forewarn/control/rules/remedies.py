"""Decide who can resolve a blocker.

A list of blockers starts with those that an operator can resolve. Those that a tenant can
resolve follow, then those that end with other work, then those that only time ends. Pure.
"""

from collections.abc import Callable, Iterable

from forewarn.protocol.blockers import (
    AnyBlocker,
    BatchWaits,
    BrakeOn,
    Deferred,
    DrainFailed,
    DriverUnable,
    FaultDomainDown,
    HostInUse,
    More,
    NoCapacity,
    NoCommonWindow,
    NotApproved,
    NotDue,
    NoticeRuns,
    OutcomeUnknown,
    RelaySilent,
    ReserveKept,
    ScopeInUse,
    SharedHost,
    StillDown,
    VmDown,
    WindowClosed,
)
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.operations import UNSTARTED_STATES, Operation
from forewarn.protocol.verbs import Verb


class Remedy(Enumeration):
    """The party that can resolve a blocker. The order of the members is the order in
    lists."""

    OPERATOR = "operator"
    TENANT = "tenant"
    SERVICE = "service"
    """The blocker ends when other work ends."""
    CLOCK = "clock"


_ORDER = tuple(Remedy)


def remedy_of(blocker: AnyBlocker) -> Remedy:
    """Return the party that can resolve the blocker."""
    match blocker:
        case BrakeOn() | NoCommonWindow():
            return Remedy.OPERATOR
        case OutcomeUnknown() | StillDown() | VmDown() | SharedHost():
            return Remedy.OPERATOR
        case NoCapacity() | ReserveKept() | DriverUnable() | RelaySilent():
            return Remedy.OPERATOR
        case FaultDomainDown():
            # A cause without an operation is a VM that went down outside of operations.
            lasts = any(
                not cause.operation or cause.verb is Verb.FAIL
                for cause in blocker.causes
            )
            return Remedy.OPERATOR if lasts else Remedy.SERVICE
        case ScopeInUse():
            ends = blocker.operation and not blocker.down
            return Remedy.SERVICE if ends else Remedy.OPERATOR
        case HostInUse():
            works = blocker.operation or blocker.arriving
            return Remedy.SERVICE if works else Remedy.OPERATOR
        case NotApproved() | BatchWaits():
            return Remedy.TENANT
        case NotDue() | NoticeRuns() | WindowClosed() | Deferred() | DrainFailed():
            return Remedy.CLOCK
        case _:
            return Remedy.SERVICE


def commands_for(blocker: AnyBlocker) -> tuple[str, ...]:
    """Return the commands that can resolve a blocker for everything that it holds.

    Many blockers need a command for another host, VM or operation; `explain` names it.
    """
    match blocker:
        case BrakeOn():
            return ("brake off",)
        case NoCommonWindow():
            return ("expedite", "window set")
        case RelaySilent():
            return ("relay list", "explain")
        case _:
            return ("explain",)


def actionable_first(blockers: Iterable[AnyBlocker]) -> tuple[AnyBlocker, ...]:
    """Return the blockers, sorted by who can resolve them; the sort is stable."""
    return tuple(sorted(blockers, key=_rank))


def _rank(blocker: AnyBlocker) -> tuple[bool, int, bool]:
    """Return the sort key of a blocker; counts of further ones come last.

    A tenant that must enable Scheduled Events before it can approve comes after those
    that can approve now.
    """
    must_enable = isinstance(blocker, NotApproved) and not blocker.listens
    return isinstance(blocker, More), _ORDER.index(remedy_of(blocker)), must_enable


def way_out(operation: Operation, called: Callable[[str], str] = str) -> str:
    """Return a hint for a caller that is blocked by an open operation."""
    if operation.state not in UNSTARTED_STATES:
        return "Wait until it ends."
    # A predicted failure has one operation per VM; cancel the whole request.
    predicted = operation.verb is Verb.PREDICT_FAILURE
    whole = operation.request if predicted else operation.operation_id
    return f"Wait until it ends, or run `forewarn cancel {called(whole)}`."
