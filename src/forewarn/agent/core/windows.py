"""Decide when early approvals are allowed: weekly windows and blackouts. Pure.

A window of `22:00-06:00` on a Friday ends on Saturday. Times are local times in the
window's time zone, so a change to daylight saving time makes a night shorter.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone, tzinfo

from forewarn.agent.core.policy import Policy, Window
from forewarn.instants import DAY, MINUTE, Micros, zone_of

DAYS_AHEAD = 8
"""Days to search ahead: a week and a day include every weekly time at least once."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def allows(policy: Policy, now: Micros) -> bool:
    """Return whether an approval may be given at this instant."""
    is_open = not policy.windows or any(
        _is_within(window, now) for window in policy.windows
    )
    return is_open and not any(_is_within(window, now) for window in policy.blackouts)


def next_allowed(policy: Policy, now: Micros) -> Micros | None:
    """Return when approvals are allowed again; None: not in the next week."""
    edges = {
        edge
        for window in (*policy.windows, *policy.blackouts)
        for edge in _edges(window, now)
        if edge > now
    }
    return next((edge for edge in sorted(edges) if allows(policy, edge)), None)


def _is_within(window: Window, now: Micros) -> bool:
    local = _local(now, zone_of(window.zone))
    minute = local.hour * 60 + local.minute
    is_today = local.weekday() in window.days
    if window.ends > window.begins:
        return is_today and window.begins <= minute < window.ends
    was_yesterday = (local.weekday() - 1) % 7 in window.days
    return (is_today and minute >= window.begins) or (
        was_yesterday and minute < window.ends
    )


def _edges(window: Window, now: Micros) -> Iterator[Micros]:
    """Yield when the window opens and closes, from the day before `now` on."""
    zone = zone_of(window.zone)
    today = _local(now, zone).date()
    for offset in range(-1, DAYS_AHEAD):
        day = today + timedelta(days=offset)
        if day.weekday() in window.days:
            last = day if window.ends > window.begins else day + timedelta(days=1)
            yield from _instants(day, window.begins, zone)
            yield from _instants(last, window.ends, zone)


def _local(now: Micros, zone: tzinfo) -> datetime:
    return (_EPOCH + timedelta(microseconds=now)).astimezone(zone)


def _instants(day: date, minutes: int, zone: tzinfo) -> Iterator[Micros]:
    """Yield the instants of a local time: two if a clock change repeats the hour."""
    # 24:00 is midnight at the end of the day.
    days, minutes = divmod(minutes, DAY // MINUTE)
    hour, minute = divmod(minutes, 60)
    at = datetime.combine(day + timedelta(days=days), time(hour, minute), tzinfo=zone)
    first, second = (
        (at.replace(fold=fold) - _EPOCH) // timedelta(microseconds=1) for fold in (0, 1)
    )
    yield from (first, second)
    # If the local time is skipped, the jump over it counts as that time.
    for instant in range(second + MINUTE, first, MINUTE):
        if _local(instant, zone).utcoffset() != _local(second, zone).utcoffset():
            yield instant
            break
