"""The blackouts of the service as JSON. For operators."""

from typing import Any, TypeAlias

from forewarn.control.rules import wide_blackouts
from forewarn.fleet.blackouts import clash
from forewarn.instants import Micros, format_instant
from forewarn.reporting.campaigns import blackout_report
from forewarn.store.port import Reader
from forewarn.store.wide_blackouts import WideBlackout

Json: TypeAlias = dict[str, Any]


def wide_blackouts_report(reader: Reader, *, now: Micros) -> Json:
    """Return all blackouts of the service: there are few."""
    blackouts = wide_blackouts.all_of(reader)
    return {
        "blackouts": [wide_blackout_report(blackout, now=now) for blackout in blackouts]
    }


def wide_blackout_report(blackout: WideBlackout, *, now: Micros) -> Json:
    """Return a blackout of the service, with its current or next time."""
    return {
        **blackout_report(blackout.time, now=now),
        "in_force": clash([blackout.time], now, now) is not None,
        "where": list(blackout.places),
        "by": blackout.by.text,
        "reason": blackout.reason,
        "since": format_instant(blackout.since),
    }
