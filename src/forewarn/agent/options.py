"""The forms of the agent's settings, and the names of their variables.

`checks` compares settings with each other.
"""

from __future__ import annotations

import math
import re
from typing import cast

from forewarn.agent.settings_model import AUTO
from forewarn.agent.wire.urls import parse_url, split_listener
from forewarn.instants import Micros, parse_duration
from forewarn.problems import quoted
from forewarn.settings import forms
from forewarn.settings.forms import Form, Option

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", re.ASCII)
_NAMED_URL = re.compile(r"https?://[!-~]*\{name\}[!-~]*", re.ASCII)
ENTRY_POINT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", re.ASCII)
_START = re.compile(r"NotBefore\s*-\s*(\S+)", re.IGNORECASE)
_CLOCK = re.compile(r"([01][0-9]|2[0-4]):([0-5][0-9])", re.ASCII)
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

Starts = tuple[tuple[str, Micros], ...]
"""Handlers, each with the time before NotBefore at which it starts."""


def environment_name(name: str) -> str:
    """Return the environment variable of a setting: `FOREWARN_AGENT_LOG_LEVEL`."""
    if name == "endpoint":
        return "FOREWARN_ENDPOINT"
    return f"FOREWARN_AGENT_{name.upper().replace('.', '_')}"


def flag_help(name: str, option: Option) -> str:
    """Return the help text of a setting's flag, for both command lines."""
    alone = " (true if it has no value)" if option.form is Forms.SWITCH else ""
    return f"setting {name}{alone}; or {environment_name(name)}"


def _listener(option: Option, value: object) -> str:
    text = forms.text(option, value)
    if text and split_listener(text) is None:
        raise ValueError(
            f"{quoted(text)} is not a listening address: "
            "write HOST:PORT such as 127.0.0.1:9464 or [::1]:9464"
        )
    return text


def _web(option: Option, value: object) -> str:
    text = forms.text(option, value)
    if text:
        parse_url(text)
    return text


def _endpoint(option: Option, value: object) -> str:
    return AUTO if value == AUTO else _web(option, value).rstrip("/")


def _peers(option: Option, value: object) -> str | tuple[tuple[str, str], ...]:
    if isinstance(value, dict):
        return tuple(
            (name, _web(option, url))
            for name, url in cast("dict[str, object]", value).items()
        )
    text = forms.text(option, value)
    if text and not _NAMED_URL.fullmatch(text):
        raise ValueError(f"must be {Forms.PEERS.expected}")
    return text


def _seconds(option: Option, value: object) -> int:
    if isinstance(value, str):
        seconds, rest = divmod(parse_duration(value), 1_000_000)
        if rest:
            raise ValueError("must be whole seconds")
        return seconds
    if type(value) is not int:
        raise forms.unfit(option, value)
    return forms.bounded(option, value)


def _name(option: Option, value: object) -> str:
    text = forms.text(option, value)
    if not _NAME.fullmatch(text):
        raise ValueError(
            f"{quoted(text)} is not a valid name: write up to 63 letters, digits, ., - and _, "
            "starting with a letter or a digit"
        )
    return text


def _pairs(option: Option, value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise forms.unfit(option, value)
    pairs: list[tuple[str, str]] = []
    for name, text in cast("dict[str, object]", value).items():
        if not isinstance(text, str) or not text.isprintable():
            raise ValueError(f"{quoted(name)} must be a string on one line")
        pairs.append((name, text))
    return tuple(pairs)


def _groups(option: Option, value: object) -> tuple[tuple[str, ...], ...]:
    groups: list[tuple[str, ...]] = []
    for item in forms.items(option, value):
        group = cast("list[object]", item) if isinstance(item, list) else [item]
        names = tuple(forms.item(option, name) for name in group)
        if not names:
            raise ValueError("must not contain an empty list")
        groups.append(names)
    return tuple(groups)


def _start(option: Option, value: object) -> Micros | Starts | None:
    if not isinstance(value, dict):
        return _one_start(option, value)
    table = cast("dict[str, object]", value)
    starts = [(name, _one_start(option, item)) for name, item in table.items()]
    return tuple((name, before) for name, before in starts if before is not None)


def _one_start(option: Option, value: object) -> Micros | None:
    text = forms.text(option, value)
    if text == "at once":
        return None
    match = _START.fullmatch(text)
    if not match:
        raise ValueError(f"must be {Forms.START.expected}, not {quoted(text)}")
    return parse_duration(match[1])


def _clock(option: Option, value: object) -> int:
    text = forms.text(option, value)
    match = _CLOCK.fullmatch(text)
    minutes = int(match[1]) * 60 + int(match[2]) if match else math.inf
    if minutes > 24 * 60:
        raise ValueError(f"must be {Forms.CLOCK.expected}, not {quoted(text)}")
    return int(minutes)


class Forms(forms.Forms):
    """The forms of agent.toml."""

    LISTENER = Form(expected="HOST:PORT", read=_listener)
    ENDPOINT = Form(expected='"auto" or an http or https URL', read=_endpoint)
    WEB = Form(expected="an http or https URL", read=_web)
    PEERS = Form(
        expected='a URL with {name} in it, or a table such as { web_1 = "http://…" }',
        read=_peers,
        show=lambda value: value if isinstance(value, str) else forms.joined(value),
    )
    SECONDS = Form(expected="whole seconds, or a duration", read=_seconds)
    NAME = Form(expected="a name", read=_name)
    ACTION = Form(
        expected='a list of words such as ["/usr/local/bin/drain"], a URL or '
        "module:function",
        read=forms.texts,
        show=forms.joined,
    )
    PAIRS = Form(
        expected='a table of strings such as { Name = "value" }',
        read=_pairs,
        show=forms.joined,
    )
    GROUPS = Form(
        expected='a list of names such as ["drain", ["flush", "notify"]]', read=_groups
    )
    START = Form(
        expected='"at once" or "NotBefore - 5m", or a table of handlers with these',
        read=_start,
    )
    CLOCK = Form(expected='a time of day such as "22:00"', read=_clock)
    DAYS = Form(
        expected='a list of days such as ["mon", "sat"]',
        read=forms.weekdays,
        read_text=forms.with_commas,
    )


CA_FILE = Option(
    form=Forms.TEXT,
    text="Certificates to trust. Default: the system's.",
)
"""The setting `ca_file` of several kinds."""
