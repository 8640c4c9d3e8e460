"""Who can end a reason for waiting, decided on values.

A list of reasons begins with those that an operator can end, then those that a tenant
can end. What ends by itself follows, and what only the clock ends comes last. Pure.
"""

import enum
from collections.abc import Iterable

from forewarn.protocol.blockers import (
    AnyBlocker,
    BatchWaits,
    FaultDomainDown,
    HostInUse,
    More,
    NoCapacity,
    NotApproved,
    NotDue,
    NoticeRuns,
    OutcomeUnknown,
    ScopeInUse,
    StillDown,
    VmDown,
)
from forewarn.protocol.verbs import Verb


class Remedy(enum.Enum):
    """Who can end a reason for waiting, in the order in which reasons are listed."""

    OPERATOR = "operator"
    TENANT = "tenant"
    SERVICE = "service"
    """It ends when other work ends."""
    CLOCK = "clock"


_ORDER = tuple(Remedy)


def remedy_of(blocker: AnyBlocker) -> Remedy:
    """Return who can end the reason."""
    match blocker:
        case OutcomeUnknown() | StillDown() | VmDown() | NoCapacity():
            return Remedy.OPERATOR
        case FaultDomainDown():
            # A cause without an operation is a VM that is down by itself.
            lasts = any(
                not cause.operation or cause.verb is Verb.FAIL
                for cause in blocker.causes
            )
            return Remedy.OPERATOR if lasts else Remedy.SERVICE
        case ScopeInUse():
            return Remedy.SERVICE if blocker.operation else Remedy.OPERATOR
        case HostInUse():
            works = blocker.operation or blocker.arriving
            return Remedy.SERVICE if works else Remedy.OPERATOR
        case NotApproved():
            return Remedy.TENANT if blocker.listens else Remedy.CLOCK
        case BatchWaits():
            return Remedy.TENANT
        case NotDue() | NoticeRuns():
            return Remedy.CLOCK
        case _:
            return Remedy.SERVICE


def actionable_first(blockers: Iterable[AnyBlocker]) -> tuple[AnyBlocker, ...]:
    """Return the reasons in the order of who can end them; equals keep their order."""
    return tuple(sorted(blockers, key=_rank))


def _rank(blocker: AnyBlocker) -> tuple[bool, int]:
    """Return the place of a reason; counts of unnamed ones come last."""
    return isinstance(blocker, More), _ORDER.index(remedy_of(blocker))
