"""The forms of setting values: how each is read and displayed.

Each format has a subclass of `Forms` with its additional forms. Readers raise
ValueError with a message for the author of the value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from forewarn.instants import Micros, format_duration, parse_duration
from forewarn.problems import LIKENESS, did_you_mean, number, quoted
from forewarn.protocol.frozen import frozen_dataclass

TEXT_MAX = 10_000
"""Maximum characters of one text: message templates are the longest."""

SHOWN_MAX = 40
"""Maximum characters of an invalid text that a message quotes."""

SLIP = 0.8
"""Minimum similarity, from 0 to 1, at which an unknown word counts as a typo."""

_COUNT = re.compile(r"-?[0-9]{1,10}", re.ASCII)


@frozen_dataclass
class Form:
    """The form of a value."""

    expected: str
    """Description of valid values, as messages say it after \"must be\"."""
    read: Callable[[Option, Any], Any]
    """Returns the value for what a file contains."""
    read_text: Callable[[Option, str], Any] | None = None
    """Returns the value for the text of a flag or variable; None: as for a file."""
    show: Callable[[Any], str] = str
    """Returns the text that a flag would use for the value."""
    metavar: str = "VALUE"
    """Placeholder of the value in the help of a flag."""
    kind: type | tuple[type, ...] = object
    """Type of the value in a file; other types are rejected before `read` is called."""


@frozen_dataclass
class Option:
    """One setting."""

    form: Form
    text: str = ""
    """The meaning, as the reference page prints it."""
    least: float = 0
    most: float = math.inf
    may_be_empty: bool = False
    """Whether a string or a list can be empty."""
    words: tuple[str, ...] = ()
    """The allowed words of a word, or the placeholders of a program."""
    is_open: bool = False
    """Whether unknown words are accepted with a warning."""
    kinds: tuple[str, ...] = ()
    """The kinds of table entries that have this key; empty: all kinds."""
    is_needed: bool = False
    """Whether each table that can have this key must have it."""
    keys: Mapping[str, Option] | None = None
    """The keys of a table, or of each table of an array; None: any key is allowed."""


def flag_of(name: str) -> str:
    """Return the flag of a setting: `--log-level` of `log.level`."""
    return "--" + name.replace(".", "-").replace("_", "-")


def from_toml(option: Option, value: object) -> Any:
    """Return the value for what a file contains; raises ValueError with a message."""
    form = option.form
    is_kind = isinstance(value, form.kind)
    # Python counts True as an int, but it is not a number here.
    if not is_kind or (isinstance(value, bool) and form.kind in {int, (int, float)}):
        raise unfit(option, value)
    return form.read(option, value)


def from_text(option: Option, text: str) -> Any:
    """Return the value for the text of a flag or an environment variable.

    Raises ValueError with a message, as `from_toml` does.
    """
    return (option.form.read_text or option.form.read)(option, text)


def shown(option: Option, value: Any) -> str:
    """Return a value as a flag would write it; for None, an empty text."""
    return "" if value is None else option.form.show(value)


def bounds_of(option: Option) -> str:
    """Return the reference's sentence about an option's bounds, or an empty text."""
    parts: list[str] = []
    if option.form is Forms.DURATION:
        if option.least:
            parts.append(f"at least `{format_duration(int(option.least))}`")
        if option.most < math.inf:
            parts.append(f"at most `{format_duration(int(option.most))}`")
    elif option.form in {Forms.COUNT, Forms.NUMBER} and option.most < math.inf:
        parts.append(f"from `{_plain(option.least)}` to `{_plain(option.most)}`")
    limits = ", ".join(parts)
    return f" {limits[0].upper()}{limits[1:]}." if limits else ""


# Readers


def unfit(option: Option, value: object) -> ValueError:
    """Return the error for a value of the wrong type."""
    return ValueError(f"must be {option.form.expected}, not {what(value)}")


def what(value: object) -> str:
    """Describe an invalid value in a message; long texts are truncated."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, str):
        return f"the text {quoted(value[:SHOWN_MAX])}"
    kinds = {list: "a list", dict: "a table"}
    return kinds.get(cast("type[list[object]]", type(value)), "a date or time")


def text(option: Option, value: object) -> str:
    """Return a string, which can have several lines."""
    if not isinstance(value, str):
        raise unfit(option, value)
    if not value and not option.may_be_empty:
        raise ValueError("must not be empty")
    if len(value) > TEXT_MAX:
        raise ValueError(f"must have at most {TEXT_MAX} characters")
    # A message body can have several lines.
    if not all(c.isprintable() or c in "\n\t" for c in value):
        raise ValueError("must not contain control characters")
    return value


def line(option: Option, value: object) -> str:
    """Return a string on one line."""
    value_read = text(option, value)
    if not value_read.isprintable():
        raise ValueError("must not contain control characters")
    return value_read


def items(option: Option, value: object) -> list[object]:
    """Return the items of a list; a single text counts as a list of one."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise unfit(option, value)
    # A missing list often means "all", so an empty one is probably a mistake.
    if not value and not option.may_be_empty:
        raise ValueError("must not be empty")
    return cast("list[object]", value)


def item(option: Option, value: object) -> str:
    """Return one text of a list; unlike the list, it is never empty."""
    if not isinstance(value, str):
        raise ValueError(f"must be {option.form.expected}, but contains {what(value)}")  # noqa: TRY004
    if not value:
        raise ValueError("must not be empty")
    return text(option, value)


def texts(option: Option, value: object) -> tuple[str, ...]:
    """Return the texts of a list."""
    return tuple(item(option, item_) for item_ in items(option, value))


def word(option: Option, value: object) -> str:
    """Return one of the option's allowed words."""
    known = f"must be one of {', '.join(option.words)}"
    if not isinstance(value, str):
        raise ValueError(known)  # noqa: TRY004
    keyword = text(option, value)
    if keyword not in option.words:
        likeness = SLIP if option.is_open else LIKENESS
        near = did_you_mean(keyword, option.words, likeness=likeness)
        if option.is_open and not near:
            return keyword
        raise ValueError(f"{known}, not {quoted(keyword)}{near}")
    return keyword


WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def weekdays(option: Option, value: object) -> frozenset[int]:
    """Return the days of a list of weekdays; 0 is Monday."""
    named = Option(form=option.form, words=WEEKDAYS)
    return frozenset(
        WEEKDAYS.index(word(named, item_)) for item_ in items(option, value)
    )


def with_commas(option: Option, written: str) -> Any:
    """Return the list for a comma-separated text."""
    items = [part.strip() for part in written.split(",")] if written.strip() else []
    return from_toml(option, items)


def joined(value: tuple[object, ...]) -> str:
    """Return a list as a comma-separated text."""
    return ", ".join(map(str, value))


def duration(option: Option, value: object) -> Micros | None:
    """Return a duration within its bounds; None for an empty text, if that is allowed."""
    if value == "" and option.may_be_empty:
        return None
    if not isinstance(value, str):
        raise unfit(option, value)
    micros = parse_duration(value)
    if micros < option.least:
        raise ValueError(
            f"must be at least {format_duration(int(option.least))}, not {value}"
        )
    if micros > option.most:
        raise ValueError(f"must be at most {format_duration(int(option.most))}")
    return micros


def bounded(option: Option, value: Any) -> Any:
    """Return a number if it is within its bounds; otherwise raise ValueError."""
    if option.least <= value <= option.most:
        return value
    least = _plain(option.least)
    is_bounded = option.most < math.inf
    bounds = f"{least} to {_plain(option.most)}" if is_bounded else f"at least {least}"
    raise ValueError(f"must be {bounds}, not {number(value)}")


def _as_it_is(_option: Option, value: Any) -> Any:
    return value


def _plain(bound: float) -> str:
    return f"{bound:.0f}" if bound == int(bound) else f"{bound:g}"


def _count_of_text(option: Option, written: str) -> int:
    if not _COUNT.fullmatch(written):
        raise ValueError(f"{quoted(written)} is not a whole number")
    return bounded(option, int(written))


def _number_of_text(option: Option, written: str) -> float:
    try:
        number = float(written)
    except ValueError:
        raise ValueError(f"{quoted(written)} is not a number") from None
    return bounded(option, number)


def _switch_of_text(_option: Option, written: str) -> bool:
    if written not in {"true", "false"}:
        raise ValueError(f"must be true or false, not {quoted(written)}")
    return written == "true"


class Forms:
    """The forms that several formats share."""

    TABLE = Form(expected="a table", kind=dict, read=_as_it_is)
    TABLES = Form(expected="an array of tables", kind=dict, read=_as_it_is)
    """`[[name]]`, which `Tables` reads itself."""

    TEXT = Form(expected="a string", read=text, metavar="TEXT")
    LINE = Form(expected="a string", read=line, metavar="TEXT")
    COUNT = Form(
        expected="a whole number",
        kind=int,
        read=bounded,
        read_text=_count_of_text,
        metavar="NUMBER",
    )
    NUMBER = Form(
        expected="a number",
        kind=(int, float),
        read=lambda option, value: float(bounded(option, value)),
        read_text=_number_of_text,
        show=lambda value: f"{value:g}",
        metavar="NUMBER",
    )
    SWITCH = Form(
        expected="true or false",
        kind=bool,
        read=_as_it_is,
        read_text=_switch_of_text,
        show=lambda value: str(value).lower(),
        metavar="true|false",
    )
    DURATION = Form(
        expected='a duration in quotes, such as "15m"',
        read=duration,
        show=format_duration,
        metavar="DURATION",
    )
    WORD = Form(expected="a word", read=word, metavar="WORD")
    WORDS = Form(
        expected="a list of words",
        read=lambda option, value: tuple(
            dict.fromkeys(word(option, item_) for item_ in items(option, value))
        ),
        read_text=with_commas,
        show=joined,
    )
    NAMES = Form(
        expected="a list of names",
        read=lambda option, value: tuple(dict.fromkeys(texts(option, value))),
        read_text=with_commas,
        show=joined,
    )
