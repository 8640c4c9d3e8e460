"""Hosts whose tenants have windows that are never open in those of the campaign.

The windows of tenants can also never be open together, which `holds` finds. Either way,
the host would wait without end, so the reason names the scopes: one of them must set
another window, or its tenant expedites the maintenance. Nothing forces an opening, since
the windows are the consent of the tenants.
"""

from collections.abc import Sequence

from forewarn.campaigns.hours import Hours
from forewarn.control.rules import campaign_gate
from forewarn.control.rules.holds import HeldTimes
from forewarn.instants import Micros
from forewarn.protocol.blockers import AnyBlocker, NoCommonWindow, WindowClosed
from forewarn.protocol.operations import Operation, Request
from forewarn.store.port import Reader


def with_reason(
    reader: Reader,
    operation: Operation,
    times: HeldTimes,
    held: tuple[AnyBlocker, ...],
) -> tuple[AnyBlocker, ...]:
    """Return the holds of a host, with one reason for windows that never meet those of
    its campaign."""
    if not any(isinstance(blocker, WindowClosed) for blocker in held):
        return held
    hours = _hours_of(reader, operation)
    never = None if hours is None else times.why_apart(hours)
    if never is None:
        return held
    return (
        never,
        *(blocker for blocker in held if not isinstance(blocker, WindowClosed)),
    )


def look_at(
    reader: Reader,
    operation: Operation,
    times: HeldTimes,
    held: Sequence[AnyBlocker],
    notice: Micros,
) -> Micros | None:
    """Return when to look again at a host that is held, if its windows never meet those of
    its campaign; None: they do.

    The campaign can announce hosts then, so the look finds the reason again.
    """
    hours = _hours_of(reader, operation)
    never = next(
        (blocker for blocker in held if isinstance(blocker, NoCommonWindow)), None
    )
    if hours is None or never is None or not never.campaign:
        return None
    again = times.look_again
    return hours.next_notice(again, notice) or again


def _hours_of(reader: Reader, operation: Operation) -> Hours | None:
    """Return when the campaign of a host allows it to begin; None: it has no campaign."""
    if not operation.position:
        return None
    request = reader.get(Request, operation.request)
    campaign = campaign_gate.campaign_of(reader, request)
    return None if campaign is None else campaign_gate.own_hours(campaign)
