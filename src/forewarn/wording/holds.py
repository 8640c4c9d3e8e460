"""Sentences about what holds planned work of the whole fleet or of scopes: the brake,
blackouts and maintenance windows."""

from collections.abc import Collection, Sequence

from forewarn.instants import Micros, cut_to_second, describe_duration, format_instant
from forewarn.problems import listed
from forewarn.protocol.blockers import (
    BrakeOn,
    Deferred,
    NoCommonWindow,
    WindowClosed,
)
from forewarn.protocol.losses import Losses, LossKind
from forewarn.protocol.notes import (
    Postponed,
    VmArrived,
    WithdrawnByBrake,
    WithdrawnForBlackout,
)
from forewarn.texts import count


def hold(blocker: BrakeOn | WindowClosed | NoCommonWindow | Deferred) -> str:
    """Return why planned work is held."""
    match blocker:
        case BrakeOn():
            return brake(blocker)
        case WindowClosed():
            opens = format_instant(cut_to_second(blocker.opens))
            if blocker.is_promised:
                return (
                    f"the opening of scope {blocker.scope} at {opens} has not come; it "
                    "was promised before the windows changed"
                )
            return f"the maintenance window of scope {blocker.scope} opens at {opens}"
        case Deferred():
            subject = f"VM {blocker.vm}" if blocker.vm else f"scope {blocker.scope}"
            until = format_instant(cut_to_second(blocker.until))
            return f"tenant {blocker.tenant} has deferred {subject} until {until}"
        case NoCommonWindow():
            return _apart(blocker)


def _apart(blocker: NoCommonWindow) -> str:
    within = describe_duration(blocker.within)
    named = f"the maintenance windows of scopes {listed(blocker.scopes)} are not open together"
    if blocker.by_platform:
        return f"{named} with the times of the platform within {within}"
    if blocker.campaign:
        return f"{named} with those of campaign {blocker.campaign} within {within}"
    return f"{named} within {within}"


def withdrawn(
    cause: WithdrawnByBrake | WithdrawnForBlackout | Postponed | VmArrived,
) -> str:
    """Return why announced work was withdrawn without impact."""
    match cause:
        case WithdrawnByBrake():
            again = (
                f"; {cause.successor} is announced after it" if cause.successor else ""
            )
            return f"withdrawn by the brake{again}"
        case WithdrawnForBlackout():
            again = (
                f"; {cause.successor} is announced after it" if cause.successor else ""
            )
            return f"withdrawn for blackout {cause.blackout}{again}"
        case Postponed():
            until = format_instant(cut_to_second(cause.until))
            return f"deferred until {until} by {cause.by.text}"
        case VmArrived():
            instead = (
                f"; {cause.successor} is announced instead" if cause.successor else ""
            )
            return f"vm {cause.vm} came to the host without a notice{instead}"


def brake(brake_: BrakeOn) -> str:
    """Return why the brake is on, and what takes it off."""
    parts = [losses(brake_.losses)] if brake_.losses is not None else []
    if brake_.reason:
        parts.append(f"by {brake_.by}: {brake_.reason}")
    return f"the brake is on until `forewarn brake off`, {'; '.join(parts)}"


def long_blackout(
    name: str,
    *,
    by: str,
    reason: str,
    hosts: int,
    until: Micros,
    campaigns: Collection[str] = (),
) -> str:
    """Return how long a blackout of the service holds hosts; `until` 0: no known end.

    `campaigns` are the names of those that have the hosts; others are of no campaign.
    """
    ends = format_instant(cut_to_second(until)) if until else ""
    waits = f"until {ends}" if ends else "and leaves no time for them"
    of = ""
    if campaigns:
        of = f" of campaign{'s' if len(campaigns) > 1 else ''} {listed(campaigns)}"
    return f"blackout {name} holds {count(hosts, 'host')}{of} {waits}, set by {by}: {reason}"


def coming_blackout(
    name: str, places: Sequence[str], begins: Micros, ends: Micros
) -> str:
    """Return when a blackout of the service holds work at some places, or everywhere."""
    where = f" at {', '.join(places)}" if places else ""
    return f"blackout {name}{where} forbids planned work {_span(begins, ends)}"


def coming_window(scope: str, opens: Micros, closes: Micros) -> str:
    """Return when the maintenance window of a scope is open."""
    return f"the maintenance window of scope {scope} is open {_span(opens, closes)}"


def _span(begins: Micros, ends: Micros) -> str:
    first, last = map(format_instant, map(cut_to_second, (begins, ends)))
    return f"from {first} until {last}"


def losses(losses_: Losses) -> str:
    """Return what was lost together, and the limit that it exceeded."""
    noun = "VMs" if losses_.what is LossKind.VMS else "hosts"
    where = f" of rack {losses_.rack}" if losses_.rack else ""
    span = describe_duration(losses_.within)
    more = losses_.count - len(losses_.named)
    names = ", ".join(losses_.named) + (f" and {more} more" if more > 0 else "")
    return (
        f"because {losses_.count} {noun}{where} were lost within {span}, more than "
        f"{losses_.most}: {names}"
    )
