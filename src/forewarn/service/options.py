"""Each setting's form and bounds, and how its value is read and shown."""

import enum
import math
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from forewarn.control.requests.verbs import TARGETS_MAX
from forewarn.drivers.placeholders import OBSERVER_PLACEHOLDERS, known_in
from forewarn.fleet.values import split_listener
from forewarn.instants import (
    MINUTE,
    SECOND,
    Micros,
    format_duration,
    parse_duration,
)
from forewarn.protocol.events import EventType
from forewarn.service import values, words

RATE_MAX = 1_000_000
"""Requests a second: more than any machine answers."""

SPEED_MAX = 1_000_000
"""A day in a tenth of a second: beyond it, notices are nothing at all."""

ATTEMPTS_MAX = 100
"""Calls to a driver that fails: an operator is wanted long before."""

FIRST_ANSWER_MAX = 2 * MINUTE
FIRST_EVENTS_MAX = 5 * MINUTE
"""Clause 7.1: up to two minutes, and up to five."""

LONGEST_WAIT_MAX = 10 * MINUTE
"""Of one wait for a change: beyond it, firewalls and proxies forget a connection."""

PARALLEL_MAX = 1_000
"""Programs of one call at once: more than a host has VMs for."""

GRACE_MAX = 10 * MINUTE
"""Between asking a program to end and ending it: another call may wait for it."""

SOCKET_PATH_BYTES_MAX = 107
"""Of the path of a Unix socket: the kernel's limit."""

DRIVERS = ("simulated", "command")

FAILURE_EVENTS = {"Reboot": EventType.REBOOT, "Redeploy": EventType.REDEPLOY}

_COUNT = re.compile(r"[0-9]{1,9}", re.ASCII)
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)
_PLAIN = re.compile(r"[!-~]+")
_STORE_URL = re.compile(r"sqlite:///(?!:)[^\0]*[^\0/]|postgres(?:ql)?://.*")
_EXAMPLE_LISTENER = "write HOST:PORT such as 127.0.0.1:8200 or [::1]:8200"


class Form(enum.Enum):
    """What a value looks like."""

    TEXT = "a text"
    LISTENER = "HOST:PORT"
    DOOR = "HOST:PORT or unix:/PATH"
    URL = "the URL of a store"
    NUMBER = "a number"
    COUNT = "a whole number"
    SWITCH = "true or false"
    DURATION = "a duration"
    EVENT = "an event type"
    DRIVER = "a driver"
    WORD = "a word"
    PROGRAM = 'a list of words such as ["/usr/local/bin/pause-vm", "{vm}"]'
    ACTIONS = 'a list of actions such as ["live_migrate"]'
    FAULTS = 'a list of faults such as ["reboot fail times=2"]'
    WORDS = "a list of words"
    NAME = "a name in lower case"
    WEB = "an http or https URL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One setting: its form and its bounds."""

    form: Form = Form.DURATION
    least: float = 0
    most: float = math.inf
    may_be_empty: bool = False
    words: tuple[str, ...] = ()
    """Of a word: which there are."""
    placeholders: tuple[str, ...] = ()
    """Of a program: what its words may contain."""


SECTIONS: Mapping[str, type] = {
    "metadata": values.MetadataSettings,
    "admin": values.AdminSettings,
    "store": values.StoreSettings,
    "timing": values.TimingSettings,
    "policy": values.PolicySettings,
    "driver": values.DriverSettings,
    "driver.simulated": values.SimulatedSettings,
    "driver.command": values.CommandSettings,
    "log": values.LogSettings,
}
"""The tables of forewarn.toml."""

_SPECIAL: Mapping[str, Option] = {
    "metadata.listen": Option(form=Form.LISTENER, may_be_empty=True),
    "metadata.rate_limit": Option(form=Form.NUMBER, most=RATE_MAX),
    "metadata.first_answer_delay": Option(most=FIRST_ANSWER_MAX),
    "metadata.first_events_delay": Option(most=FIRST_EVENTS_MAX),
    "metadata.disable_after": Option(least=SECOND),
    "metadata.signed_secret_file": Option(form=Form.TEXT, may_be_empty=True),
    "metadata.push": Option(form=Form.SWITCH),
    "metadata.push_longest_wait": Option(least=SECOND, most=LONGEST_WAIT_MAX),
    "metadata.own_events": Option(form=Form.SWITCH),
    "admin.listen": Option(form=Form.DOOR),
    "admin.token_file": Option(form=Form.TEXT, may_be_empty=True),
    "admin.tls_certificate": Option(form=Form.TEXT, may_be_empty=True),
    "admin.tls_key": Option(form=Form.TEXT, may_be_empty=True),
    "store.url": Option(form=Form.URL),
    "store.retention": Option(least=MINUTE),
    "timing.speed": Option(form=Form.NUMBER, least=0.001, most=SPEED_MAX),
    "timing.terminate_notice": Option(may_be_empty=True),
    "timing.failure_event": Option(form=Form.EVENT),
    "timing.hold_bound": Option(least=SECOND),
    "policy.hosts_at_once": Option(form=Form.COUNT, least=1, most=TARGETS_MAX),
    "driver.kind": Option(form=Form.DRIVER),
    "driver.timeout": Option(least=SECOND),
    "driver.attempts": Option(form=Form.COUNT, least=1, most=ATTEMPTS_MAX),
    "driver.simulated.faults": Option(form=Form.FAULTS),
    **{
        f"driver.command.{name}": Option(
            form=Form.PROGRAM, placeholders=known_in(action)
        )
        for name, action in words.WORKS.items()
    },
    **{
        f"driver.command.{name}timeout": Option(least=SECOND, may_be_empty=True)
        for name in ("", *(f"{work}_" for work in words.WORKS))
    },
    "driver.command.observe": Option(
        form=Form.PROGRAM, placeholders=OBSERVER_PLACEHOLDERS
    ),
    "driver.command.probe": Option(form=Form.PROGRAM, placeholders=known_in(None)),
    "driver.command.abortable": Option(form=Form.ACTIONS),
    "driver.command.parallel": Option(form=Form.COUNT, least=1, most=PARALLEL_MAX),
    "driver.command.grace": Option(most=GRACE_MAX),
    "driver.command.records": Option(form=Form.TEXT, may_be_empty=True),
    "log.format": Option(form=Form.WORD, words=("auto", "text", "json")),
    "log.level": Option(form=Form.WORD, words=("debug", "info", "warning", "error")),
}

OPTIONS: Mapping[str, Option] = {
    f"{section}.{each.name}": _SPECIAL.get(f"{section}.{each.name}", Option())
    for section, group in SECTIONS.items()
    for each in fields(group)
}
"""Every setting by its whole name, in the order of the file."""


def is_socket(listen: str) -> bool:
    """Tell whether the setting of a listener names a Unix socket."""
    return listen.startswith("unix:")


def environment_name(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"FOREWARN_{name.upper().replace('.', '_')}"


def from_text(option: Option, text: str) -> Any:
    """Return the value that a flag or an environment variable writes.

    Raises ValueError with a sentence.
    """
    if option.form is Form.NUMBER:
        try:
            return _bounded(option, float(text))
        except ValueError as error:
            if "must be" in str(error):
                raise
            raise ValueError(f"{text!r} is not a number") from None
    if option.form is Form.COUNT:
        if not _COUNT.fullmatch(text):
            raise ValueError(f"{text!r} is not a whole number")
        return _bounded(option, int(text))
    if option.form in _LISTS:
        found = _split(option, text)
        # As a text, nothing at all is how a program is left out.
        return _LISTS[option.form](option, found) if found else found
    return _READERS[option.form](option, text)


def from_toml(option: Option, value: object) -> Any:
    """Return the value that a file writes; raises ValueError with a sentence."""
    if option.form in {Form.NUMBER, Form.COUNT}:
        kinds = (int, float) if option.form is Form.NUMBER else (int,)
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise ValueError(f"must be {option.form.value}")
        number = float(value) if option.form is Form.NUMBER else value
        return _bounded(option, number)
    if option.form is Form.SWITCH:
        if not isinstance(value, bool):
            raise ValueError(f"must be {option.form.value}, without quotes")
        return value
    if option.form in _LISTS:
        return _LISTS[option.form](option, words.listed(value, option.form.value))
    if not isinstance(value, str):
        example = ' in quotes, such as "15m"' if option.form is Form.DURATION else ""
        raise ValueError(f"must be {option.form.value}{example}")  # noqa: TRY004
    return _READERS[option.form](option, value)


def shown(option: Option, value: Any) -> str:
    """Return a value for a person; a password in a URL is left out."""
    if value is None:
        return ""
    if option.form is Form.DURATION:
        return format_duration(value)
    if option.form is Form.EVENT:
        return value.value
    if option.form is Form.NUMBER:
        return f"{value:g}"
    if option.form is Form.URL:
        return without_password(value)
    if option.form is Form.WEB:
        return without_secrets(value)
    if option.form is Form.SWITCH:
        return str(value).lower()
    if option.form is Form.FAULTS:
        return ", ".join(value)
    if option.form in _LISTS:
        return shlex.join(value)
    return str(value)


def without_password(url: str) -> str:
    """Return a URL with `***` in the place of its password."""
    password = urlsplit(url).password if "@" in url else None
    return url.replace(f":{password}@", ":***@", 1) if password else url


def without_secrets(url: str) -> str:
    """Return a web URL with `***` for its user, password and query, where it has any."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    shown = parts._replace(
        netloc=f"***{at}{host}" if user else host,
        query="***" if parts.query else "",
        fragment="",
    )
    return urlunsplit(shown)


def _split(option: Option, text: str) -> tuple[str, ...]:
    if option.form is Form.FAULTS:
        # Each is of several words: a comma is easier to write than two quotations.
        return tuple(each.strip() for each in text.split(",")) if text.strip() else ()
    try:
        return tuple(shlex.split(text))
    except ValueError:
        raise ValueError("has a quotation mark that is not closed") from None


def _bounded(option: Option, number: float) -> float:
    if not option.least <= number <= option.most:
        bounds = f"{option.least:g}"
        if option.most < math.inf:
            raise ValueError(f"must be {bounds} to {option.most:g}, not {number:g}")
        raise ValueError(f"must be at least {bounds}, not {number:g}")
    return number


def _text(option: Option, text: str) -> str:
    if not text and not option.may_be_empty:
        raise ValueError("must not be empty")
    if not text.isprintable():
        raise ValueError("must not contain control characters")
    return text


def _listener(option: Option, text: str) -> str:
    if not text and option.may_be_empty:
        return ""
    if split_listener(text) is None:
        raise ValueError(f"{text!r} is no address to listen at: {_EXAMPLE_LISTENER}")
    return text


def _door(option: Option, text: str) -> str:
    path = text.removeprefix("unix:")
    if path == text:
        return _listener(option, text)
    if not path.startswith("/") or not path.isprintable() or path.endswith("/"):
        raise ValueError(f"{text!r} names no socket: write unix:/run/forewarn/api")
    if len(path.encode()) > SOCKET_PATH_BYTES_MAX:
        raise ValueError(
            f"the path of a socket may have {SOCKET_PATH_BYTES_MAX} bytes, not "
            f"{len(path.encode())}"
        )
    return text


def _url(_option: Option, text: str) -> str:
    # Whether the store is there, and may be used, is seen when it is opened.
    if text == "memory://" or _STORE_URL.fullmatch(text):
        return text
    raise ValueError(
        f"{without_password(text)!r} is not the URL of a store: write memory://, "
        "sqlite:///forewarn.db (beside the service) or "
        "sqlite:////var/lib/forewarn/forewarn.db"
    )


def _duration(option: Option, text: str) -> Micros | None:
    if not text and option.may_be_empty:
        return None
    duration = parse_duration(text)
    if duration < option.least:
        least = format_duration(int(option.least))
        raise ValueError(f"must be at least {least}, not {text}")
    if duration > option.most:
        raise ValueError(f"must be at most {format_duration(int(option.most))}")
    return duration


def _event(_option: Option, text: str) -> EventType:
    if text not in FAILURE_EVENTS:
        raise ValueError(f"must be Reboot or Redeploy (clause 5.5), not {text!r}")
    return FAILURE_EVENTS[text]


def _driver(_option: Option, text: str) -> str:
    if text not in DRIVERS:
        known = " or ".join(f'"{name}"' for name in DRIVERS)
        raise ValueError(
            f"this version of forewarn has no driver {text!r}: write {known}"
        )
    return text


def _word(option: Option, text: str) -> str:
    if text not in option.words:
        raise ValueError(f"must be one of {', '.join(option.words)}, not {text!r}")
    return text


def _switch(option: Option, text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f"must be {option.form.value}, not {text!r}")
    return text == "true"


def _name(_option: Option, text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(
            f"{text!r} is no name: write up to 63 of a-z, 0-9, - and _, "
            "a letter or a number first"
        )
    return text


def _web(option: Option, text: str) -> str:
    if not text and option.may_be_empty:
        return ""
    try:
        parts = urlsplit(text)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname)
        _ = parts.port  # raises ValueError where it is none
    except ValueError:
        is_good = False
    if not is_good or not text.isascii() or not _PLAIN.fullmatch(text):
        # What was written may have a password in it.
        raise ValueError("must be a URL such as https://hooks.example.com/forewarn")
    return text


def _words(option: Option, found: tuple[str, ...]) -> tuple[str, ...]:
    for each in found:
        _word(option, each)
    return tuple(dict.fromkeys(found))


_READERS: Mapping[Form, Callable[[Option, str], Any]] = {
    Form.TEXT: _text,
    Form.LISTENER: _listener,
    Form.DOOR: _door,
    Form.URL: _url,
    Form.DURATION: _duration,
    Form.EVENT: _event,
    Form.DRIVER: _driver,
    Form.WORD: _word,
    Form.NAME: _name,
    Form.WEB: _web,
    Form.SWITCH: _switch,
}

_LISTS: Mapping[Form, Callable[[Option, tuple[str, ...]], tuple[str, ...]]] = {
    Form.PROGRAM: lambda option, found: words.program(found, option.placeholders),
    Form.ACTIONS: lambda _option, found: words.actions(found),
    Form.FAULTS: lambda _option, found: words.faults(found),
    Form.WORDS: _words,
}
