"""The forms that only settings of the service have, and the names of its variables."""

import re
import shlex
from urllib.parse import urlsplit, urlunsplit

from forewarn.fleet.validators import split_listener
from forewarn.protocol.events import EventType
from forewarn.service import list_values
from forewarn.settings import forms
from forewarn.settings.forms import Form, Option

SOCKET_PATH_BYTES_MAX = 107
"""Of the path of a Unix socket: the kernel's limit."""

DRIVERS = ("simulated", "command")

FAILURE_EVENTS = {"Reboot": EventType.REBOOT, "Redeploy": EventType.REDEPLOY}

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)
_PLAIN = re.compile(r"[!-~]+")
_STORE_URL = re.compile(r"sqlite:///(?!:)[^\0]*[^\0/]|postgres(?:ql)?://.*")
_EXAMPLE_LISTENER = "write HOST:PORT such as 127.0.0.1:8200 or [::1]:8200"


def _text(option: Option, value: object) -> str:
    """Return a text for a form that says by itself what an empty one lacks."""
    if not isinstance(value, str):
        raise forms.unfit(option, value)
    return value


def is_socket(listen: str) -> bool:
    """Tell whether the setting of a listener names a Unix socket."""
    return listen.startswith("unix:")


def environment_name(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"FOREWARN_{name.upper().replace('.', '_')}"


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


def _listed(option: Option, value: object) -> tuple[str, ...]:
    return list_values.listed(value, option.form.told)


def _split(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError:
        raise ValueError("has a quotation mark that is not closed") from None


def _program(option: Option, value: object) -> tuple[str, ...]:
    return list_values.program(_listed(option, value), option.words)


def _program_of_text(option: Option, text: str) -> tuple[str, ...]:
    # As a text, nothing at all is how a program is left out.
    found = _split(text)
    return list_values.program(found, option.words) if found else ()


def _faults_of_text(_option: Option, text: str) -> tuple[str, ...]:
    # Each is of several words: a comma is easier to write than two quotations.
    found = text.split(",") if text.strip() else ()
    return list_values.faults(tuple(each.strip() for each in found))


def _listener(option: Option, value: object) -> str:
    text = _text(option, value)
    if not text and option.may_be_empty:
        return ""
    if split_listener(text) is None:
        raise ValueError(f"{text!r} is no address to listen at: {_EXAMPLE_LISTENER}")
    return text


def _door(option: Option, value: object) -> str:
    text = _text(option, value)
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


def _url(option: Option, value: object) -> str:
    text = _text(option, value)
    # Whether the store is there, and may be used, is seen when it is opened.
    if text == "memory://" or _STORE_URL.fullmatch(text):
        return text
    raise ValueError(
        f"{without_password(text)!r} is not the URL of a store: write memory://, "
        "sqlite:///forewarn.db (beside the service) or "
        "sqlite:////var/lib/forewarn/forewarn.db"
    )


def _event(option: Option, value: object) -> EventType:
    text = _text(option, value)
    if text not in FAILURE_EVENTS:
        raise ValueError(f"must be Reboot or Redeploy (clause 5.5), not {text!r}")
    return FAILURE_EVENTS[text]


def _driver(option: Option, value: object) -> str:
    text = _text(option, value)
    if text not in DRIVERS:
        known = " or ".join(f'"{name}"' for name in DRIVERS)
        raise ValueError(
            f"this version of forewarn has no driver {text!r}: write {known}"
        )
    return text


def _name(option: Option, value: object) -> str:
    text = _text(option, value)
    if not _NAME.fullmatch(text):
        raise ValueError(
            f"{text!r} is no name: write up to 63 of a-z, 0-9, - and _, "
            "a letter or a number first"
        )
    return text


def _web(option: Option, value: object) -> str:
    text = _text(option, value)
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


class Forms(forms.Forms):
    """The forms of forewarn.toml."""

    LISTENER = Form(told="HOST:PORT", read=_listener, metavar="HOST:PORT")
    DOOR = Form(told="HOST:PORT or unix:/PATH", read=_door)
    URL = Form(
        told="the URL of a store", read=_url, show=without_password, metavar="URL"
    )
    EVENT = Form(
        told="an event type",
        read=_event,
        show=lambda value: value.value,
        metavar="TYPE",
    )
    DRIVER = Form(told="a driver", read=_driver, metavar="KIND")
    PROGRAM = Form(
        told='a list of words such as ["/usr/local/bin/pause-vm", "{vm}"]',
        read=_program,
        read_text=_program_of_text,
        show=shlex.join,
    )
    ACTIONS = Form(
        told='a list of actions such as ["live_migrate"]',
        read=lambda option, value: list_values.actions(_listed(option, value)),
        read_text=lambda _option, text: list_values.actions(_split(text)),
        show=shlex.join,
    )
    FAULTS = Form(
        told='a list of faults such as ["reboot fail times=2"]',
        read=lambda option, value: list_values.faults(_listed(option, value)),
        read_text=_faults_of_text,
        show=forms.joined,
    )
    NAME = Form(told="a name in lower case", read=_name)
    WEB = Form(told="an http or https URL", read=_web, show=without_secrets)
