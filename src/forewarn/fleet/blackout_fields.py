"""Blackouts as people write them: as tables in files, as one line elsewhere.

A line is `year-end 2026-12-24T18:00 2027-01-02T06:00 Europe/Berlin`: name, start, end and
time zone; or `trading mon,fri 09:00 8h America/New_York`: a name and a window, which
recurs. The time zone can be missing.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any

from forewarn.fleet.blackouts import Blackout
from forewarn.fleet.window_fields import ALL_DAYS, WINDOW, line_of, window_of
from forewarn.fleet.windows import Window
from forewarn.problems import quoted
from forewarn.settings import forms
from forewarn.settings.forms import Form, Forms, Option

BLACKOUTS_MAX = 50
"""Maximum blackouts of a campaign, or of a service: each decision looks at all of them."""

YEAR_MAX = 8_999
"""Maximum year of a blackout: windows are not computed after it."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
"""A name of a blackout, campaign or host step."""

_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?)?", re.ASCII
)

_FORMAT = (
    "a line such as 'year-end 2026-12-24T18:00 2027-01-02T06:00 Europe/Berlin' or "
    "'trading mon,fri 09:00 8h America/New_York'"
)


def name_of(option: Option, value: object) -> str:
    """Return the name of a blackout or campaign; raises ValueError."""
    name = forms.line(option, value)
    if not NAME.fullmatch(name):
        raise ValueError(
            "must be at most 64 letters, digits, dots, hyphens and underscores, "
            f"and start with a letter or digit, not {quoted(name[: forms.SHOWN_MAX])}"
        )
    return name


def _moment(option: Option, value: object) -> str:
    moment = value
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{quoted(value)} is not a date and time") from None
    if type(moment) is date:
        moment = datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001 - a wall clock
    if not isinstance(moment, datetime):
        raise forms.unfit(option, value)
    if moment.tzinfo is not None:
        raise ValueError("must have no offset: timezone has the time zone")
    if moment.year > YEAR_MAX:
        raise ValueError(f"must be before the year {YEAR_MAX + 1}")
    return moment.isoformat(timespec="seconds").removesuffix(":00")


_MOMENT_FORM = Form(
    expected='a date and time such as "2026-12-24T18:00"', read=_moment, metavar="TIME"
)

BLACKOUT: Mapping[str, Option] = {
    "name": Option(
        form=Form(expected="a name", read=name_of),
        is_needed=True,
        text="Its name in messages, such as `year-end`.",
    ),
    "from": Option(
        form=_MOMENT_FORM,
        text="Start by the wall clock, such as `2026-12-24T18:00`.",
    ),
    "until": Option(
        form=_MOMENT_FORM,
        text="End by the wall clock. A blackout has `from` and `until`, or recurs with "
        "`start` and `length`.",
    ),
    "days": Option(
        form=WINDOW["days"].form,
        words=forms.WEEKDAYS,
        text="Weekdays on which a recurring blackout starts. Default: all.",
    ),
    "start": Option(
        form=WINDOW["start"].form,
        text="Start of a recurring blackout by the wall clock.",
    ),
    "length": Option(
        form=Forms.DURATION,
        least=WINDOW["length"].least,
        most=WINDOW["length"].most,
        text="Elapsed time from the start to the end of a recurring blackout.",
    ),
    "timezone": Option(
        form=WINDOW["timezone"].form,
        text="Time zone of all times. Default: `UTC`.",
    ),
}
"""The keys of a blackout."""

_ONCE = frozenset({"from", "until"})
_RECURRING = frozenset({"days", "start", "length"})


def wrong(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the keys that conflict with others, or are missing, each with the problem."""
    once, recurring = values.keys() & _ONCE, values.keys() & _RECURRING
    if once and recurring:
        yield (
            min(recurring),
            "cannot be combined with from and until: a blackout has two times, or recurs",
        )
    elif recurring:
        for key in ("start", "length"):
            if key not in values:
                yield key, "is missing"
    elif missing := _ONCE - once:
        yield (
            min(missing),
            "is missing" if once else "is missing, or start and length",
        )
    elif values["until"] <= values["from"]:
        yield "until", f"must be after from, {values['from']}"


def blackout_of_values(values: Mapping[str, Any]) -> Blackout:
    """Return the blackout of valid values."""
    zone = values.get("timezone", "UTC")
    if "from" in values:
        return Blackout(
            name=values["name"],
            begins=values["from"],
            ends=values["until"],
            timezone=zone,
        )
    window = Window(
        days=values.get("days", ALL_DAYS),
        start=values["start"],
        length=values["length"],
        timezone=zone,
    )
    return Blackout(name=values["name"], window=window)


def blackout_of(line: str) -> Blackout:
    """Return the blackout of a line; raises ValueError."""
    name, _, rest = line.strip().partition(" ")
    fields = rest.split()
    if not fields or not NAME.fullmatch(name):
        raise ValueError(f"{quoted(line[: forms.SHOWN_MAX])} is not {_FORMAT}")
    if not _MOMENT.fullmatch(fields[0]):
        return Blackout(name=name, window=window_of(rest))
    if len(fields) not in {2, 3}:
        raise ValueError(f"{quoted(line[: forms.SHOWN_MAX])} is not {_FORMAT}")
    values: dict[str, Any] = {"name": name}
    for key, word in zip(("from", "until", "timezone"), fields, strict=False):
        try:
            values[key] = forms.from_toml(BLACKOUT[key], word)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
    for key, message in wrong(values):
        raise ValueError(f"{key} {message}")
    return blackout_of_values(values)


def line_of_blackout(blackout: Blackout) -> str:
    """Return a blackout as a line that `blackout_of` reads back."""
    if blackout.window is not None:
        return f"{blackout.name} {line_of(blackout.window)}"
    return f"{blackout.name} {blackout.begins} {blackout.ends} {blackout.timezone}"
