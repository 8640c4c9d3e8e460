"""The forms that a setting's value may have: how each is read, and how it is shown.

A format has a subclass of `Forms` with the forms that only it knows. Readers raise
ValueError with a sentence for the author of the value.
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
"""Characters of one text: a template of a message is the longest."""

SHOWN_MAX = 40
"""Characters of a wrong text that are told."""

SLIP = 0.8
"""How like a known word one is that is no new word, but a slip of the hand."""

_COUNT = re.compile(r"-?[0-9]{1,10}", re.ASCII)


@frozen_dataclass
class Form:
    """What a value looks like."""

    told: str
    """What it must be, for a sentence."""
    read: Callable[[Option, Any], Any]
    """Returns the value that a file writes."""
    read_text: Callable[[Option, str], Any] | None = None
    """Returns the value that a flag or a variable writes; None: as in a file."""
    show: Callable[[Any], str] = str
    """Returns the value as a flag would write it."""
    metavar: str = "VALUE"
    """What stands for it in the help of a flag."""
    kind: type | tuple[type, ...] = object
    """What a file has for it; anything else is refused before it is read."""


@frozen_dataclass
class Option:
    """One setting."""

    form: Form
    text: str = ""
    """What it means, for the reference."""
    least: float = 0
    most: float = math.inf
    may_be_empty: bool = False
    """A text or a list; other lists are left out where they have nothing in them."""
    words: tuple[str, ...] = ()
    """Of a word: which there are. Of a program: its placeholders."""
    is_open: bool = False
    """Other words are taken too, and warned of."""
    kinds: tuple[str, ...] = ()
    """For which kinds of entry it is; none: for all."""
    is_needed: bool = False
    """Whether each table that may have it must have it."""
    keys: Mapping[str, Option] | None = None
    """Of a table, or of each in an array; None: whatever is written in it."""


def flag_of(name: str) -> str:
    """Return the flag of a setting: `--log-level` of `log.level`."""
    return "--" + name.replace(".", "-").replace("_", "-")


def from_toml(option: Option, value: object) -> Any:
    """Return the value that a file writes; raises ValueError with a sentence."""
    form = option.form
    is_kind = isinstance(value, form.kind)
    # True is an int for Python, and no number for people.
    if not is_kind or (isinstance(value, bool) and form.kind in {int, (int, float)}):
        raise unfit(option, value)
    return form.read(option, value)


def from_text(option: Option, text: str) -> Any:
    """Return the value that a flag or a variable of the environment writes.

    Raises ValueError with a sentence, as `from_toml` does.
    """
    return (option.form.read_text or option.form.read)(option, text)


def shown(option: Option, value: Any) -> str:
    """Return a value for a person, as a flag would write it; no value is empty."""
    return "" if value is None else option.form.show(value)


def bounds_of(option: Option) -> str:
    """Return the sentence about an option's bounds, for the reference; or nothing."""
    parts: list[str] = []
    if option.form is Forms.DURATION:
        if option.least:
            parts.append(f"at least `{format_duration(int(option.least))}`")
        if option.most < math.inf:
            parts.append(f"at most `{format_duration(int(option.most))}`")
    elif option.form in {Forms.COUNT, Forms.NUMBER} and option.most < math.inf:
        parts.append(f"from `{_plain(option.least)}` to `{_plain(option.most)}`")
    told = ", ".join(parts)
    return f" {told[0].upper()}{told[1:]}." if told else ""


# Readers


def unfit(option: Option, value: object) -> ValueError:
    """Return the error for a value of another kind than its option's."""
    return ValueError(f"must be {option.form.told}, not {what(value)}")


def what(value: object) -> str:
    """Return what somebody wrote, for a sentence; a long text is cut."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, str):
        return f"the text {quoted(value[:SHOWN_MAX])}"
    kinds = {list: "a list", dict: "a table"}
    return kinds.get(cast("type[list[object]]", type(value)), "a date or time")


def text(option: Option, value: object) -> str:
    """Return a text, of several lines if it has them."""
    if not isinstance(value, str):
        raise unfit(option, value)
    if not value and not option.may_be_empty:
        raise ValueError("must not be empty")
    if len(value) > TEXT_MAX:
        raise ValueError(f"must have {TEXT_MAX} characters at most")
    # A body may have several lines.
    if not all(c.isprintable() or c in "\n\t" for c in value):
        raise ValueError("must not contain control characters")
    return value


def line(option: Option, value: object) -> str:
    """Return a text on one line."""
    found = text(option, value)
    if not found.isprintable():
        raise ValueError("must not contain control characters")
    return found


def items(option: Option, value: object) -> list[object]:
    """Return the items of a list; one text alone is as good as a list of it."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise unfit(option, value)
    # Where nothing is written, it is often all that is meant: nobody says so by [].
    if not value and not option.may_be_empty:
        raise ValueError("must not be empty")
    return cast("list[object]", value)


def item(option: Option, value: object) -> str:
    """Return a text of a list, which is never empty, whatever the list may be."""
    if not isinstance(value, str):
        raise ValueError(f"must be {option.form.told}, not with {what(value)} in it")  # noqa: TRY004
    if not value:
        raise ValueError("must not be empty")
    return text(option, value)


def texts(option: Option, value: object) -> tuple[str, ...]:
    """Return the texts of a list."""
    return tuple(item(option, each) for each in items(option, value))


def word(option: Option, value: object) -> str:
    """Return one of the option's words."""
    known = f"must be one of {', '.join(option.words)}"
    if not isinstance(value, str):
        raise ValueError(known)  # noqa: TRY004
    found = text(option, value)
    if found not in option.words:
        likeness = SLIP if option.is_open else LIKENESS
        near = did_you_mean(found, option.words, likeness=likeness)
        if option.is_open and not near:
            return found
        raise ValueError(f"{known}, not {quoted(found)}{near}")
    return found


def with_commas(option: Option, written: str) -> Any:
    """Return the list that a text with commas writes."""
    found = [each.strip() for each in written.split(",")] if written.strip() else []
    return from_toml(option, found)


def joined(value: tuple[object, ...]) -> str:
    """Return a list as a text with commas."""
    return ", ".join(map(str, value))


def duration(option: Option, value: object) -> Micros | None:
    """Return a duration within its bounds; None for an empty one, which may be."""
    if value == "" and option.may_be_empty:
        return None
    if not isinstance(value, str):
        raise unfit(option, value)
    found = parse_duration(value)
    if found < option.least:
        least = format_duration(int(option.least))
        raise ValueError(f"must be at least {least}, not {value}")
    if found > option.most:
        raise ValueError(f"must be at most {format_duration(int(option.most))}")
    return found


def bounded(option: Option, value: Any) -> Any:
    """Return a number within its bounds."""
    if option.least <= value <= option.most:
        return value
    least = _plain(option.least)
    if option.most < math.inf:
        told = f"must be {least} to {_plain(option.most)}"
    else:
        told = f"must be at least {least}"
    raise ValueError(f"{told}, not {number(value)}")


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
        found = float(written)
    except ValueError:
        raise ValueError(f"{quoted(written)} is not a number") from None
    return bounded(option, found)


def _switch_of_text(_option: Option, written: str) -> bool:
    if written not in {"true", "false"}:
        raise ValueError(f"must be true or false, not {quoted(written)}")
    return written == "true"


class Forms:
    """The forms that more than one format has."""

    TABLE = Form(told="a table", kind=dict, read=_as_it_is)
    TABLES = Form(told="an array of tables", kind=dict, read=_as_it_is)
    """`[[name]]`, which a reader of tables reads by itself."""

    TEXT = Form(told="a text", read=text, metavar="TEXT")
    LINE = Form(told="a text", read=line, metavar="TEXT")
    COUNT = Form(
        told="a whole number",
        kind=int,
        read=bounded,
        read_text=_count_of_text,
        metavar="NUMBER",
    )
    NUMBER = Form(
        told="a number",
        kind=(int, float),
        read=lambda option, value: float(bounded(option, value)),
        read_text=_number_of_text,
        show=lambda value: f"{value:g}",
        metavar="NUMBER",
    )
    SWITCH = Form(
        told="true or false",
        kind=bool,
        read=_as_it_is,
        read_text=_switch_of_text,
        show=lambda value: str(value).lower(),
        metavar="true|false",
    )
    DURATION = Form(
        told='a duration in quotes, such as "15m"',
        read=duration,
        show=format_duration,
        metavar="DURATION",
    )
    WORD = Form(told="a word", read=word, metavar="WORD")
    WORDS = Form(
        told="a list of words",
        read=lambda option, value: tuple(
            dict.fromkeys(word(option, each) for each in items(option, value))
        ),
        read_text=with_commas,
        show=joined,
    )
    NAMES = Form(
        told="a list of names",
        read=lambda option, value: tuple(dict.fromkeys(texts(option, value))),
        read_text=with_commas,
        show=joined,
    )
