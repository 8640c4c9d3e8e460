"""Instants and durations in whole microseconds.

An instant is a number of microseconds since 1970-01-01T00:00:00Z, and a duration is a
number of microseconds. Both are `int`, so that they are exact, can be sorted, and fit
into a database unchanged. Only this module converts them from and to text: RFC 3339 and
durations such as `15m` for people and files, RFC 1123 for Azure's protocol. It never
reads a clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone, tzinfo

Micros = int
"""Microseconds: since 1970 in UTC for an instant, or the length of a duration."""

MILLISECOND: Micros = 1_000
SECOND: Micros = 1_000_000
MINUTE: Micros = 60 * SECOND
HOUR: Micros = 60 * MINUTE
DAY: Micros = 24 * HOUR

CLOCK_STEP_MIN: Micros = 250 * MILLISECOND
"""Minimum change of the difference between the clocks that counts as a step. A thread can
be interrupted between two readings for some milliseconds; NotBefore has whole seconds."""

DURATION_MAX: Micros = 3650 * DAY
"""Maximum duration, ten years: longer than any notice, far below date overflow."""

QUOTED_MAX = 20
"""Maximum characters of an invalid text that a message quotes."""

_UNITS = {"us": 1, "ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}
_PART = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d)", re.ASCII)
_SHORT = re.compile(r"(?:\d+(?:\.\d+)?(?:us|ms|s|m|h|d))+", re.ASCII)
_ISO = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII
)
# `fromisoformat` accepts `Z` only since Python 3.11, and the agent runs on 3.9.
_RFC_3339 = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[Tt ](?P<hour>\d\d):(?P<minute>\d\d)"
    r"(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?)?"
    r"(?P<offset>[Zz]|[+-](?P<hours>[01]\d|2[0-3]):?(?P<minutes>[0-5]\d))?)?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_HTTP_DATE = re.compile(
    r"(?:[A-Za-z]{3,9},? +)?(\d{1,2})[ -]([A-Za-z]{3})[A-Za-z]*[ -](\d{4}) +"
    r"(\d{1,2}):(\d{2}):(\d{2})(?:\.\d+)?(?: *(?:GMT|UTC|Z|[+-]00:?00))?",
    re.ASCII,
)


def parse_duration(text: str) -> Micros:
    """Parse a duration: `500ms`, `1h30m`, `7d`, `PT5M`.

    Raises ValueError with a message for people.
    """
    short = text.strip()
    if short == "0":
        return 0
    if _SHORT.fullmatch(short):
        micros = sum(
            float(number) * _UNITS[unit] for number, unit in _PART.findall(short)
        )
    elif (iso := _ISO.fullmatch(short)) and any(iso.groups()):
        sizes = (DAY, HOUR, MINUTE, SECOND)
        micros = sum(
            float(number) * size for number, size in zip(iso.groups(default="0"), sizes)
        )
    else:
        raise ValueError(
            f"{_brief(text)} is not a duration such as 500ms, 7s, 15m or PT5M"
        )
    # Compare before rounding: a very long number is infinite as a float.
    if micros > DURATION_MAX:
        raise ValueError(f"{_brief(text)} is longer than ten years")
    return round(micros)


def _brief(text: str) -> str:
    """Return a text in quotes for a message, truncated if it is long."""
    return repr(text) if len(text) <= QUOTED_MAX else f"{text[:QUOTED_MAX]!r}…"


def format_duration(duration: Micros) -> str:
    """Return the shortest exact text that `parse_duration` reads back."""
    return "".join(f"{n}{unit}" for n, unit in _parts(duration)) or "0s"


def describe_duration(duration: Micros) -> str:
    """Return a duration for a message, rounded up to seconds: `7 m 12 s`."""
    up = max(0, round_up_to_second(duration))
    return " ".join([f"{n} {unit}" for n, unit in _parts(up)][:2]) or "0 s"


def _parts(rest: Micros) -> Iterator[tuple[int, str]]:
    """Yield the count of each unit in a duration, the largest first, without zeros."""
    for unit, size in reversed(_UNITS.items()):
        count, rest = divmod(rest, size)
        if count:
            yield count, unit


def parse_instant(text: str) -> Micros:
    """Parse an instant in RFC 3339; raises ValueError.

    A text without an offset is rejected, since its time zone is unknown.
    """
    match = _RFC_3339.fullmatch(text.strip())
    shown = _shown(match) if match else None
    if match is None or shown is None:
        raise ValueError(f"{text!r} is not a time such as 2026-11-21T10:00:00Z")
    offset = match["offset"]
    if not offset:
        raise ValueError(f"{text!r} has no offset: add Z for UTC, or +02:00")
    east = int(match["hours"] or 0) * HOUR + int(match["minutes"] or 0) * MINUTE
    return shown + east if offset.startswith("-") else shown - east


def _shown(found: re.Match[str]) -> Micros | None:
    """Return the instant of these fields in UTC; None if the date is invalid."""
    year, month, day, hour, minute, second = (
        int(found[part] or 0)
        for part in ("year", "month", "day", "hour", "minute", "second")
    )
    # A platform can write more digits than microseconds have.
    micros = int(f"{found['fraction'] or '':0<6}"[:6])
    try:
        moment = datetime(
            year, month, day, hour, minute, second, micros, tzinfo=timezone.utc
        )
    except ValueError:
        return None
    return (moment - _EPOCH) // timedelta(microseconds=1)


def format_instant(instant: Micros) -> str:
    """Format an instant as RFC 3339 with `Z`, with a fraction only if it is not 0."""
    moment = _EPOCH + timedelta(microseconds=instant)
    return moment.isoformat().replace("+00:00", "Z")


def format_to_the_millisecond(instant: Micros) -> str:
    """Format an instant as RFC 3339 with three digits, so that its length is constant."""
    whole = format_instant(instant - instant % SECOND).removesuffix("Z")
    return f"{whole}.{instant % SECOND // MILLISECOND:03}Z"


def instant_or_none(instant: Micros) -> str | None:
    """Format an instant as RFC 3339; return None for 0, which means never."""
    return format_instant(instant) if instant else None


SORTABLE_DIGITS = 17
"""Digits of an instant in IDs and keys that sort by time: enough until the year 5138."""


def sortable(instant: Micros) -> str:
    """Return an instant with a constant number of digits, so that texts sort by time."""
    return f"{instant:0{SORTABLE_DIGITS}d}"


def format_http_date(instant: Micros) -> str:
    """Format an instant as RFC 1123 in GMT: `Mon, 11 Apr 2022 22:26:58 GMT`."""
    # `email.utils` could format this, but takes 3 MB of memory.
    moment = _EPOCH + timedelta(seconds=instant // SECOND)
    weekday, month = _WEEKDAYS[moment.weekday()], _MONTHS[moment.month - 1]
    return (
        f"{weekday}, {moment.day:02} {month} {moment.year:04} "
        f"{moment.hour:02}:{moment.minute:02}:{moment.second:02} GMT"
    )


def parse_http_date(text: str) -> Micros:
    """Parse an instant in RFC 1123 in GMT; raises ValueError.

    The day of the week can be missing and is not compared with the date.
    """
    match = _HTTP_DATE.fullmatch(text.strip())
    month = match[2].title() if match else ""
    if match is None or month not in _MONTHS:
        raise ValueError(
            f"{_brief(text)} is not a time such as Mon, 11 Apr 2022 22:26:58 GMT"
        )
    year, day = int(match[3]), int(match[1])
    clock = (int(match[4]), int(match[5]), int(match[6]))
    moment = datetime(year, _MONTHS.index(month) + 1, day, *clock, tzinfo=timezone.utc)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def cut_to_second(instant: Micros) -> Micros:
    """Round an instant down to a whole second."""
    return instant // SECOND * SECOND


def round_up_to_second(instant: Micros) -> Micros:
    """Round an instant up to a whole second.

    NotBefore has whole seconds in the document (clause 2.7). It is rounded before any
    decision uses it, so that the document and the decisions agree.
    """
    return -(-instant // SECOND) * SECOND


def zone_of(name: str) -> tzinfo:
    """Return a time zone by its name; raises ValueError if it is unknown."""
    if name == "UTC":
        return timezone.utc
    # Few processes need it, and its tables take memory.
    from zoneinfo import ZoneInfo  # noqa: PLC0415

    try:
        return ZoneInfo(name)
    except (KeyError, OSError) as error:
        raise ValueError(f"there is no time zone {name!r} here") from error
