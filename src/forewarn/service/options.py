"""The additional forms of the service's settings, and the names of its variables."""

import re
import shlex
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit, urlunsplit

from forewarn.control.rules.sightings import SightingAct
from forewarn.drivers.libvirt.commands import (
    exception_problem,
    host_uri_problem,
    uri_problem,
)
from forewarn.drivers.limited import parse_limited
from forewarn.drivers.placeholders import arguments_problem
from forewarn.drivers.qemu.places import address_problem, path_problem
from forewarn.drivers.tasks import parse_fault
from forewarn.fleet.validators import name_fault, split_listener
from forewarn.problems import quoted
from forewarn.protocol.events import EventType
from forewarn.protocol.operations import Action
from forewarn.settings import forms
from forewarn.settings.forms import Form, Option
from forewarn.store.postgres import url as postgres_url

SOCKET_PATH_BYTES_MAX = 107
"""Maximum length of the path of a Unix socket: the kernel's limit."""

WORKS = {action.name.lower(): action for action in Action if action is not Action.NONE}
"""The actions of a driver, by their names in settings."""

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)
_HEADER_NAME = re.compile(r"[A-Za-z0-9-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[\x20-\x7e]+")
_PLAIN = re.compile(r"[!-~]+")
_STORE_URL = re.compile(r"sqlite:///(?!:)[^\0]*[^\0/]")
_EXAMPLE_LISTENER = "write HOST:PORT such as 127.0.0.1:8200 or [::1]:8200"


SOCKET_PREFIX = "unix:"
"""The prefix of a Unix socket's path in the setting `admin.listen`."""


def socket_path(listen: str) -> str:
    """Return the path of the Unix socket in a setting, or an empty text."""
    path = listen.removeprefix(SOCKET_PREFIX)
    return path if path != listen else ""


def environment_name(name: str) -> str:
    """Return the environment variable for a setting."""
    return f"FOREWARN_{name.upper().replace('.', '_')}"


def without_password(url: str) -> str:
    """Return a URL with its password replaced by `***`."""
    password = urlsplit(url).password if "@" in url else None
    return url.replace(f":{password}@", ":***@", 1) if password else url


def without_secrets(url: str) -> str:
    """Return a web URL with user, password and query replaced by `***`."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    redacted = parts._replace(
        netloc=f"***{at}{host}" if user else host,
        query="***" if parts.query else "",
        fragment="",
    )
    return urlunsplit(redacted)


def _split(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError:
        raise ValueError("has an unclosed quotation mark") from None


def _listed(option: Option, value: object) -> tuple[str, ...]:
    values = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(word, str) for word in values):
        raise ValueError(f"must be {option.form.expected}")
    return tuple(cast("list[str]", values))


def _program(option: Option, value: object) -> tuple[str, ...]:
    command = _listed(option, value)
    if fault := arguments_problem(command, option.words):
        raise ValueError(fault)
    return command


def _program_of_text(option: Option, text: str) -> tuple[str, ...]:
    # In a flag or variable, an empty text means no program.
    command = _split(text)
    return _program(option, [*command]) if command else ()


def _patterns(_option: Option, value: dict[str, object]) -> tuple[tuple[str, str], ...]:
    for name, pattern in value.items():
        if not isinstance(pattern, str):
            raise ValueError(f"{name} must be a regular expression in quotes")  # noqa: TRY004
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(
                f"{name}: {quoted(pattern)} is not a regular expression: {error}"
            ) from None
    return tuple(sorted(cast("dict[str, str]", value).items()))


def _socket(option: Option, text: str) -> str:
    return _checked(option, text, path_problem)


def _migration(option: Option, text: str) -> str:
    return _checked(option, text, address_problem)


def _libvirt(option: Option, text: str) -> str:
    return _checked(option, text, uri_problem)


def _libvirts(option: Option, value: object) -> tuple[str, ...]:
    entries = _listed(option, value)
    for word in entries:
        if problem := exception_problem(word):
            raise ValueError(problem)
    return entries


def _uris(option: Option, value: object) -> tuple[str, ...]:
    uris = _listed(option, value)
    for word in uris:
        if problem := host_uri_problem(word):
            raise ValueError(problem)
    return uris


def _checked(option: Option, text: str, problem_of: Callable[[str], str]) -> str:
    if not text and option.may_be_empty:
        return ""
    if problem := problem_of(text):
        raise ValueError(problem)
    return text


def _headers(_option: Option, value: dict[str, object]) -> tuple[tuple[str, str], ...]:
    for name, text in value.items():
        if not isinstance(text, str) or not _HEADER_VALUE.fullmatch(text):
            raise ValueError(f"{name} must be a string in quotes, without line breaks")
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{quoted(name)} is not the name of a header")
    return tuple(sorted(cast("dict[str, str]", value).items()))


def _actions(option: Option, value: object) -> tuple[str, ...]:
    names = _listed(option, value)
    for word in names:
        if word not in WORKS:
            raise ValueError(f"{word!r} is not one of {', '.join(WORKS)}")
    return names


def _sightings(option: Option, value: object) -> tuple[str, ...]:
    allowed = [act.value for act in SightingAct]
    names = _listed(option, value)
    for word in names:
        if word not in allowed:
            raise ValueError(f"{word!r} is not one of {', '.join(allowed)}")
    return names


def _hosts(option: Option, value: object) -> tuple[str, ...]:
    names = _listed(option, value)
    for word in names:
        if fault := name_fault(word):
            raise ValueError(fault)
    return names


def _faults(option: Option, value: object) -> tuple[str, ...]:
    texts = _listed(option, value)
    for text in texts:
        parse_fault(text)
    return texts


def _limited(option: Option, value: object) -> tuple[str, ...]:
    texts = _listed(option, value)
    for text in texts:
        parse_limited(text)
    return texts


def _limited_of_text(option: Option, text: str) -> tuple[str, ...]:
    # Each entry has several words, so they are separated by commas.
    names = text.split(",") if text.strip() else ()
    return _limited(option, [name.strip() for name in names])


def _faults_of_text(option: Option, text: str) -> tuple[str, ...]:
    # A fault has several words, so faults are separated by commas.
    names = text.split(",") if text.strip() else ()
    return _faults(option, [name.strip() for name in names])


def _listener(option: Option, text: str) -> str:
    if not text and option.may_be_empty:
        return ""
    if split_listener(text) is None:
        raise ValueError(f"{text!r} is not a listen address: {_EXAMPLE_LISTENER}")
    return text


def _door(option: Option, text: str) -> str:
    path = text.removeprefix("unix:")
    if path == text:
        return _listener(option, text)
    if not path.startswith("/") or not path.isprintable() or path.endswith("/"):
        raise ValueError(
            f"{text!r} does not name a socket: write unix:/run/forewarn/api"
        )
    if len(path.encode()) > SOCKET_PATH_BYTES_MAX:
        raise ValueError(
            f"the path of a socket can have at most {SOCKET_PATH_BYTES_MAX} bytes, not "
            f"{len(path.encode())}"
        )
    return text


def _url(_option: Option, text: str) -> str:
    # Opening the store later checks whether it exists and can be used.
    if postgres_url.is_url(text):
        postgres_url.check(text)
        return text
    if text == "memory://" or _STORE_URL.fullmatch(text):
        return text
    raise ValueError(
        f"{without_password(text)!r} is not the URL of a store: write memory://, "
        "sqlite:///forewarn.db (in the current directory), "
        "sqlite:////var/lib/forewarn/forewarn.db or postgresql://USER@HOST/DATABASE"
    )


def _name(_option: Option, text: str) -> str:
    if not NAME.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a name: write up to 63 of a-z, 0-9, - and _, starting with "
            "a letter or a digit"
        )
    return text


def is_web(text: str) -> bool:
    """Return whether a string is an http or https URL."""
    try:
        parts = urlsplit(text)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname)
        _ = parts.port  # raises ValueError if it is invalid
    except ValueError:
        return False
    return is_good and text.isascii() and _PLAIN.fullmatch(text) is not None


def _web(option: Option, text: str) -> str:
    if not text and option.may_be_empty:
        return ""
    if not is_web(text):
        # The value is not quoted, since it can contain a password.
        raise ValueError("must be a URL such as https://hooks.example.com/forewarn")
    return text


class Forms(forms.Forms):
    """The forms of forewarn.toml."""

    LISTENER = Form(expected="HOST:PORT", kind=str, read=_listener, metavar="HOST:PORT")
    DOOR = Form(expected="HOST:PORT or unix:/PATH", kind=str, read=_door)
    URL = Form(
        expected="the URL of a store",
        kind=str,
        read=_url,
        show=without_password,
        metavar="URL",
    )
    SOCKETS = Form(
        expected="the path of sockets", kind=str, read=_socket, metavar="PATH"
    )
    MIGRATION = Form(
        expected="an address", kind=str, read=_migration, metavar="ADDRESS"
    )
    LIBVIRT = Form(expected="a URI", kind=str, read=_libvirt, metavar="URI")
    LIBVIRTS = Form(
        expected='a list of hosts and URIs such as ["h9=qemu+tls://h9.lan/system"]',
        read=_libvirts,
        read_text=lambda option, text: _libvirts(option, text.split()),
        show=" ".join,
    )
    URIS = Form(
        expected='a list of URIs such as ["qemu+ssh://root@h1/system"]',
        read=_uris,
        read_text=lambda option, text: _uris(option, text.split()),
        show=" ".join,
    )
    EVENT = Form(
        expected="an event type",
        read=lambda option, value: EventType(forms.word(option, value)),
        show=lambda value: value.value,
        metavar="TYPE",
    )
    PROGRAM = Form(
        expected='a list of words such as ["/usr/local/bin/pause-vm", "{vm}"]',
        read=_program,
        read_text=_program_of_text,
        show=shlex.join,
    )
    ARGUMENTS = Form(
        expected='a list of words such as ["/usr/local/sbin/flash", "{host}"]',
        # The placeholders depend on another key, so `named_tables` checks them.
        read=_listed,
        show=shlex.join,
    )
    PATTERNS = Form(
        expected='a table such as { version = "[0-9.]+" }',
        kind=dict,
        read=_patterns,
        show=lambda value: ", ".join(f"{name}={pattern}" for name, pattern in value),
    )
    HEADERS = Form(
        expected='a table such as { X-Scope-OrgID = "ops" }',
        kind=dict,
        read=_headers,
        show=lambda value: ", ".join(f"{name}: {text}" for name, text in value),
    )
    ACTIONS = Form(
        expected='a list of actions such as ["live_migrate"]',
        read=_actions,
        read_text=lambda option, text: _actions(option, [*_split(text)]),
        show=shlex.join,
    )
    HOSTS = Form(
        expected='a list of hosts such as ["h3", "h4"]',
        read=_hosts,
        read_text=lambda option, text: _hosts(option, [*_split(text)]),
        show=shlex.join,
    )
    SIGHTINGS = Form(
        expected='a list of "fail", "restore" and "move"',
        read=_sightings,
        read_text=lambda option, text: _sightings(option, [*_split(text)]),
        show=shlex.join,
    )
    FAULTS = Form(
        expected='a list of faults such as ["reboot fail times=2"]',
        read=_faults,
        read_text=_faults_of_text,
        show=forms.joined,
    )
    LIMITED = Form(
        expected='a list such as ["live-migrate host=h1", "freeze vm=web_0"]',
        read=_limited,
        read_text=_limited_of_text,
        show=forms.joined,
    )
    NAME = Form(expected="a name in lower case", kind=str, read=_name)
    WEB = Form(
        expected="an http or https URL", kind=str, read=_web, show=without_secrets
    )
