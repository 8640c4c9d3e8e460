"""Maintenance windows as people write them: as tables in files, as one line elsewhere.

A line is `sat,sun 02:00 4h Europe/Berlin`: days, start, length and time zone. The days
and the time zone can be missing.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

from forewarn.fleet.windows import Window, zone_names
from forewarn.instants import DAY, MINUTE, format_duration, zone_of
from forewarn.problems import did_you_mean, quoted
from forewarn.settings import forms
from forewarn.settings.forms import Form, Forms, Option

WINDOWS_MAX = 20
"""Maximum windows of one scope: each start in the scope looks at all of them."""

ALL_DAYS = tuple(range(7))

_CLOCK = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)

_FORMAT = "a line such as 'sat,sun 02:00 4h Europe/Berlin'"


def _clock(option: Option, value: object) -> int:
    match = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise forms.unfit(option, value)
    return int(match[1]) * 60 + int(match[2])


def _days(option: Option, value: object) -> tuple[int, ...]:
    return tuple(sorted(forms.weekdays(option, value)))


def _timezone(option: Option, value: object) -> str:
    name = forms.line(option, value)
    try:
        zone_of(name)
    except ValueError:
        near = did_you_mean(name, zone_names())
        raise ValueError(f"there is no time zone {quoted(name)}{near}") from None
    return name


WINDOW: Mapping[str, Option] = {
    "days": Option(
        form=Form(expected="a list of weekdays", read=_days),
        words=forms.WEEKDAYS,
        text="Weekdays on which the window starts. Default: all.",
    ),
    "start": Option(
        form=Form(expected='a time of day such as "22:00"', read=_clock),
        is_needed=True,
        text="Start by the wall clock.",
    ),
    "length": Option(
        form=Forms.DURATION,
        least=MINUTE,
        most=7 * DAY,
        is_needed=True,
        text="Elapsed time from the start to the end.",
    ),
    "timezone": Option(
        form=Form(expected="the name of a time zone", read=_timezone),
        text="Time zone of the days and the start. Default: `UTC`.",
    ),
}
"""The keys of a window."""


def windows_of(option: Option, value: object) -> tuple[Window, ...]:
    """Return the windows of a table, or of a list of tables; raises ValueError."""
    tables = cast("list[object]", value) if isinstance(value, list) else [value]
    if not all(isinstance(table, dict) for table in tables):
        raise forms.unfit(option, tables[0])
    check_count(len(tables))
    return tuple(_of_table(cast("dict[str, object]", table)) for table in tables)


def check_count(count: int) -> None:
    """Refuse too many windows; raises ValueError."""
    if count > WINDOWS_MAX:
        raise ValueError(f"must have at most {WINDOWS_MAX} windows, not {count}")


def _of_table(table: Mapping[str, object]) -> Window:
    values: dict[str, Any] = {"days": ALL_DAYS}
    for key, value in table.items():
        option = WINDOW.get(key)
        if option is None:
            raise ValueError(
                f"there is no key {quoted(key)}{did_you_mean(key, WINDOW)}"
            )
        try:
            values[key] = forms.from_toml(option, value)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
    for key, option in WINDOW.items():
        if option.is_needed and key not in values:
            raise ValueError(f"{key}: is missing")
    return Window(**values)


def window_of(line: str) -> Window:
    """Return the window of a line; raises ValueError."""
    fields = line.split()
    if fields and ":" in fields[0]:
        fields.insert(0, ",".join(forms.WEEKDAYS))
    if len(fields) not in {3, 4}:
        raise ValueError(f"{quoted(line[: forms.SHOWN_MAX])} is not {_FORMAT}")
    days, *rest = fields
    keys = ("start", "length", "timezone")
    return _of_table({"days": days.split(","), **dict(zip(keys, rest, strict=False))})


def line_of(window: Window) -> str:
    """Return a window as a line that `window_of` reads back."""
    days = ",".join(forms.WEEKDAYS[day] for day in window.days)
    times = f"{clock_of(window)} {format_duration(window.length)} {window.timezone}"
    return times if window.days == ALL_DAYS else f"{days} {times}"


def clock_of(window: Window) -> str:
    """Return the start of a window as a time of day."""
    return f"{window.start // 60:02}:{window.start % 60:02}"


def table_of(window: Window) -> dict[str, object]:
    """Return a window as a table that `windows_of` reads back."""
    return {
        "days": [forms.WEEKDAYS[day] for day in window.days],
        "start": clock_of(window),
        "length": format_duration(window.length),
        "timezone": window.timezone,
    }
