"""Each setting's form, bounds and meaning, and how its value is read and shown.

The texts are the reference: `docs/reference/agent-settings.md` is written from them. What must
hold between several settings is for `checks`.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from forewarn.agent.values import AUTO
from forewarn.agent.wire.urls import parse_url, split_listener
from forewarn.instants import Micros, format_duration, parse_duration
from forewarn.problems import LIKENESS, did_you_mean, quoted
from forewarn.protocol.frozen import frozen_dataclass

TEXT_MAX = 10_000
"""Characters of one text: a template of a message is the longest."""

SLIP = 0.8
"""How like a known word one is that is no new word, but a slip of the hand."""

_COUNT = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", re.ASCII)
_NAMED_URL = re.compile(r"https?://[!-~]*\{name\}[!-~]*", re.ASCII)
_ENTRY_POINT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", re.ASCII)
_START = re.compile(r"NotBefore\s*-\s*(\S+)", re.IGNORECASE)
_CLOCK = re.compile(r"([01][0-9]|2[0-4]):([0-5][0-9])", re.ASCII)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Form(enum.Enum):
    """What a value looks like; the value is what a person is told."""

    TEXT = "a text"
    LISTENER = "HOST:PORT"
    ENDPOINT = '"auto" or an http or https URL'
    WEB = "an http or https URL"
    PEERS = 'a URL with {name} in it, or a table such as { web_1 = "http://…" }'
    COUNT = "a whole number"
    SWITCH = "true or false"
    DURATION = "a duration"
    SECONDS = "whole seconds, or a duration"
    WORD = "a word"
    WORDS = "a list of words"
    NAME = "a name"
    NAMES = "a list of names"
    ACTION = (
        'a list of words such as ["/usr/local/bin/drain"], a URL or module:function'
    )
    PAIRS = 'a table of texts such as { Name = "value" }'
    GROUPS = 'a list of names such as ["drain", ["flush", "notify"]]'
    START = '"at once" or "NotBefore - 5m", or a table of handlers with these'
    CLOCK = 'a time of day such as "22:00"'
    DAYS = 'a list of days such as ["mon", "sat"]'


Starts = tuple[tuple[str, Micros], ...]
"""Handlers, each with how long before NotBefore it begins."""


@frozen_dataclass
class Option:
    """One setting."""

    form: Form
    text: str
    """What it means, for the reference."""
    least: float = 0
    most: float = math.inf
    may_be_empty: bool = False
    """A text or a list; other lists are left out where they have nothing in them."""
    words: tuple[str, ...] = ()
    is_open: bool = False
    """Other words are taken too, and warned of."""
    kinds: tuple[str, ...] = ()
    """For which kinds of handler or receiver it is; none: for all."""


CA_FILE = Option(
    form=Form.TEXT,
    text="Certificates to trust. Default: the system's.",
)
"""The key `ca_file` of several kinds."""


def environment_name(name: str) -> str:
    """Return the environment variable of a setting: `FOREWARN_AGENT_LOG_LEVEL`."""
    if name == "endpoint":
        return "FOREWARN_ENDPOINT"
    return f"FOREWARN_AGENT_{name.upper().replace('.', '_')}"


def flag_of(name: str) -> str:
    """Return the flag of a setting: `--log-level` of `log.level`."""
    return "--" + name.replace(".", "-").replace("_", "-")


def flag_help(name: str, option: Option) -> str:
    """Return what a setting's flag is for, as both front doors say it."""
    alone = " (true, where it stands alone)" if option.form is Form.SWITCH else ""
    return f"setting {name}{alone}; or {environment_name(name)}"


def from_text(option: Option, text: str) -> Any:
    """Return the value that a flag or a variable of the environment writes.

    Raises ValueError with a sentence, as `from_toml` does.
    """
    form = option.form
    if form is Form.COUNT:
        if not _COUNT.fullmatch(text):
            raise ValueError(f"{quoted(text)} is not a whole number")
        return _bounded(option, int(text))
    if form is Form.SWITCH:
        if text not in {"true", "false"}:
            raise ValueError(f"must be true or false, not {quoted(text)}")
        return text == "true"
    if form in {Form.WORDS, Form.NAMES, Form.DAYS}:
        words = [word.strip() for word in text.split(",")] if text.strip() else []
        return from_toml(option, words)
    return from_toml(option, text)


def from_toml(option: Option, value: object) -> Any:
    """Return the value that a file writes; raises ValueError with a sentence."""
    return _READERS[option.form](option, value)


def shown(option: Option, value: Any) -> str:
    """Return a value for a person, as a file would write it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if option.form is Form.DURATION:
        return format_duration(value)
    if isinstance(value, tuple):
        return ", ".join(map(str, cast("tuple[object, ...]", value)))
    return str(value)


def _bounded(option: Option, number: int) -> int:
    if not option.least <= number <= option.most:
        if option.most < math.inf:
            raise ValueError(f"must be {option.least:.0f} to {option.most:.0f}")
        raise ValueError(f"must be at least {option.least:.0f}, not {number}")
    return number


def _text(option: Option, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be {option.form.value}")  # noqa: TRY004
    if not value and not option.may_be_empty:
        raise ValueError("must not be empty")
    if len(value) > TEXT_MAX:
        raise ValueError(f"must have {TEXT_MAX} characters at most")
    # A body may have several lines.
    if not all(c.isprintable() or c in "\n\t" for c in value):
        raise ValueError("must not contain control characters")
    return value


def _listener(option: Option, value: object) -> str:
    text = _text(option, value)
    if text and split_listener(text) is None:
        raise ValueError(
            f"{quoted(text)} is no address to listen at: "
            "write HOST:PORT such as 127.0.0.1:9464 or [::1]:9464"
        )
    return text


def _web(option: Option, value: object) -> str:
    text = _text(option, value)
    if text:
        parse_url(text)
    return text


def _endpoint(option: Option, value: object) -> str:
    if value == AUTO:
        return AUTO
    return _web(option, value).rstrip("/")


def _peers(option: Option, value: object) -> str | tuple[tuple[str, str], ...]:
    if isinstance(value, dict):
        return tuple(
            (name, _web(option, url))
            for name, url in cast("dict[str, object]", value).items()
        )
    text = _text(option, value)
    if text and not _NAMED_URL.fullmatch(text):
        raise ValueError(f"must be {Form.PEERS.value}")
    return text


def _count(option: Option, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("must be a whole number")  # noqa: TRY004
    return _bounded(option, value)


def _switch(_option: Option, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false, without quotes")  # noqa: TRY004
    return value


def _duration(option: Option, value: object) -> Micros:
    if not isinstance(value, str):
        raise ValueError('must be a duration in quotes, such as "15m"')  # noqa: TRY004
    duration = parse_duration(value)
    if duration < option.least:
        raise ValueError(f"must be at least {format_duration(int(option.least))}")
    if duration > option.most:
        raise ValueError(f"must be at most {format_duration(int(option.most))}")
    return duration


def _seconds(option: Option, value: object) -> int:
    if isinstance(value, str):
        seconds, rest = divmod(parse_duration(value), 1_000_000)
        if rest:
            raise ValueError("must be whole seconds")
        return seconds
    return _count(option, value)


def _word(option: Option, value: object) -> str:
    text = _text(option, value)
    if text not in option.words:
        likeness = SLIP if option.is_open else LIKENESS
        near = did_you_mean(text, option.words, likeness=likeness)
        if option.is_open and not near:
            return text
        known = ", ".join(option.words)
        raise ValueError(f"must be one of {known}, not {quoted(text)}{near}")
    return text


def _words(option: Option, value: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_word(option, each) for each in _items(option, value)))


def _items(option: Option, value: object) -> list[object]:
    # One word alone is as good as a list of one.
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise ValueError(f"must be {option.form.value}")  # noqa: TRY004
    # Where nothing is written, it is often all that is meant: nobody says so by [].
    if not value and not option.may_be_empty:
        raise ValueError("must not be empty")
    return cast("list[object]", value)


def _item(option: Option, value: object) -> str:
    """Return a text of a list, which is never empty, whatever the list may be."""
    text = _text(option, value)
    if not text:
        raise ValueError("must not be empty")
    return text


def _name(option: Option, value: object) -> str:
    text = _text(option, value)
    if not _NAME.fullmatch(text):
        raise ValueError(
            f"{quoted(text)} is no name: write up to 63 letters, digits, ., - and _, "
            "a letter or a digit first"
        )
    return text


def _names(option: Option, value: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_item(option, each) for each in _items(option, value)))


def _action(option: Option, value: object) -> tuple[str, ...]:
    return tuple(_item(option, each) for each in _items(option, value))


def _pairs(_option: Option, value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise ValueError(f"must be {Form.PAIRS.value}")  # noqa: TRY004
    pairs: list[tuple[str, str]] = []
    for name, text in cast("dict[str, object]", value).items():
        if not isinstance(text, str) or not text.isprintable():
            raise ValueError(f"{quoted(name)} must be a text on one line")
        pairs.append((name, text))
    return tuple(pairs)


def _groups(option: Option, value: object) -> tuple[tuple[str, ...], ...]:
    groups: list[tuple[str, ...]] = []
    for each in _items(option, value):
        group = cast("list[object]", each) if isinstance(each, list) else [each]
        names = tuple(_item(option, name) for name in group)
        if not names:
            raise ValueError("has an empty list in it")
        groups.append(names)
    return tuple(groups)


def _start(option: Option, value: object) -> Micros | Starts | None:
    if not isinstance(value, dict):
        return _one_start(option, value)
    table = cast("dict[str, object]", value)
    starts = [(name, _one_start(option, each)) for name, each in table.items()]
    return tuple((name, before) for name, before in starts if before is not None)


def _one_start(option: Option, value: object) -> Micros | None:
    text = _text(option, value)
    if text == "at once":
        return None
    found = _START.fullmatch(text)
    if not found:
        raise ValueError(f"must be {Form.START.value}, not {quoted(text)}")
    return parse_duration(found[1])


def _clock(option: Option, value: object) -> int:
    text = _text(option, value)
    found = _CLOCK.fullmatch(text)
    minutes = int(found[1]) * 60 + int(found[2]) if found else math.inf
    if minutes > 24 * 60:
        raise ValueError(f"must be {Form.CLOCK.value}, not {quoted(text)}")
    return int(minutes)


def _days(option: Option, value: object) -> frozenset[int]:
    named = Option(form=Form.WORD, text="", words=DAYS)
    return frozenset(DAYS.index(_word(named, each)) for each in _items(option, value))


def is_entry_point(text: str) -> bool:
    """Tell whether a text is `module:function`."""
    return _ENTRY_POINT.fullmatch(text) is not None


def is_header_name(text: str) -> bool:
    """Tell whether a text may be the name of a header."""
    return _HEADER_NAME.fullmatch(text) is not None


def is_variable(text: str) -> bool:
    """Tell whether a text may be the name of a variable of the environment."""
    return _VARIABLE.fullmatch(text) is not None


_READERS: Mapping[Form, Callable[[Option, object], Any]] = {
    Form.TEXT: _text,
    Form.LISTENER: _listener,
    Form.ENDPOINT: _endpoint,
    Form.WEB: _web,
    Form.PEERS: _peers,
    Form.COUNT: _count,
    Form.SWITCH: _switch,
    Form.DURATION: _duration,
    Form.SECONDS: _seconds,
    Form.WORD: _word,
    Form.WORDS: _words,
    Form.NAME: _name,
    Form.NAMES: _names,
    Form.ACTION: _action,
    Form.PAIRS: _pairs,
    Form.GROUPS: _groups,
    Form.START: _start,
    Form.CLOCK: _clock,
    Form.DAYS: _days,
}
