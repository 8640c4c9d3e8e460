"""`agent check`: is it all well? In plain words, one line for each thing.

Settings are sound by the time this looks. Nothing is changed, approved or run but the
checks of handlers.
"""

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from forewarn.agent.core.polling import NAME_TIMEOUT
from forewarn.agent.core.rules import default_rules
from forewarn.agent.handlers.secret import SECRET_BYTES_MAX, exposure
from forewarn.agent.naming import named
from forewarn.agent.values import Settings
from forewarn.agent.watcher import Port
from forewarn.agent.wire.endpoint import Asked
from forewarn.agent.wire.urls import split_listener
from forewarn.instants import SECOND, Micros

ENDPOINT_TIMEOUT: Micros = 10 * SECOND
"""For the endpoint here: somebody waits. The first answer of all may take longer."""

NOTHING = "nothing is run and nothing approved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How one thing stands."""

    is_well: bool
    what: str
    """`endpoint`, `handler drain`, and so on."""
    text: str


Elsewhere: TypeAlias = Callable[[], tuple[Sequence[Port], Sequence[str]]]
"""Where else the endpoint may be, when it does not answer where it should, and what
was heard of those who were asked for it."""


def _nowhere() -> tuple[Sequence[Port], Sequence[str]]:
    return (), ()


def findings(
    settings: Settings,
    *,
    endpoint: Port,
    elsewhere: Elsewhere = _nowhere,
    checks: Sequence[tuple[str, Callable[[], Sequence[str]]]],
) -> Iterator[Finding]:
    """Yield how everything stands; `checks` has each handler, and those notified, with its own."""
    yield _settings(settings)
    for warning in settings.warnings:
        yield Finding(is_well=False, what="settings", text=warning)
    yield _state(settings.watch.state)
    yield from _endpoint(settings, endpoint, elsewhere)
    for name, check in checks:
        faults = check()
        for fault in faults:
            yield Finding(is_well=False, what=name, text=fault)
        if not faults:
            yield Finding(is_well=True, what=name, text="is as it should be")
    if not settings.handlers and not settings.watch.observe:
        text = "there are none: only what needs no preparation is approved"
        yield Finding(is_well=True, what="handlers", text=text)
    for key, listen in (
        ("listen", settings.watch.listen),
        ("peers.listen", settings.peers.listen),
    ):
        if listen:
            yield _listener(key, listen)
    yield from _secrets(settings)
    if settings.watch.dry_run:
        yield Finding(is_well=True, what="dry_run", text=NOTHING)
    if settings.watch.observe:
        yield Finding(is_well=True, what="observe", text=NOTHING)


def _settings(settings: Settings) -> Finding:
    rules = settings.policy.rules
    count = f"{len(rules)} rules" if len(rules) != 1 else "1 rule"
    if rules == default_rules(tuple(settings.policy.handlers)):
        count = "the default rules"
    text = f"sound: {settings.file or 'no file'}, {count}"
    return Finding(is_well=True, what="settings", text=text)


def _state(path: str) -> Finding:
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        parent = os.path.dirname(folder)
        if os.access(parent, os.W_OK | os.X_OK):
            return Finding(is_well=True, what="state", text=f"{folder} will be made")
        text = f"there is no folder {folder}, and it cannot be made: nothing would be "
        return Finding(is_well=False, what="state", text=f"{text}remembered")
    if not os.access(folder, os.W_OK | os.X_OK) or (
        os.path.exists(path) and not os.access(path, os.R_OK | os.W_OK)
    ):
        text = f"{path} cannot be written by this user: is it the agent's?"
        return Finding(is_well=False, what="state", text=text)
    return Finding(is_well=True, what="state", text=f"{path} can be written")


def _endpoint(
    settings: Settings, endpoint: Port, elsewhere: Elsewhere
) -> Iterator[Finding]:
    url = endpoint.url
    asked = endpoint.ask(timeout=ENDPOINT_TIMEOUT, full=True)
    refusals = [] if asked.reading is not None else [_refusal(url, asked)]
    others, told = elsewhere() if refusals else _nowhere()
    for other in others:
        if asked.reading is None:
            endpoint, asked = other, other.ask(timeout=ENDPOINT_TIMEOUT, full=True)
            if asked.reading is None:
                refusals.append(_refusal(other.url, asked))
    for sentence in told:
        yield Finding(is_well=asked.reading is not None, what="dhcp", text=sentence)
    if asked.reading is None:
        for refusal in refusals:
            yield Finding(is_well=False, what="endpoint", text=refusal)
        return
    events = len(asked.reading.notices)
    count = f"{events} events" if events != 1 else "1 event"
    text = f"{endpoint.url} answers with version {endpoint.version}: {count}"
    yield Finding(is_well=True, what="endpoint", text=text)
    for oddity in asked.reading.oddities:
        yield Finding(is_well=False, what="endpoint", text=oddity)
    yield _name(settings, endpoint)


def _refusal(url: str, asked: Asked) -> str:
    return f"{url} gave no document: {asked.detail or asked.result.value}"


def _name(settings: Settings, endpoint: Port) -> Finding:
    name = named(settings)
    if name:
        return Finding(is_well=True, what="name", text=f"{name}, by the settings")
    found = endpoint.instance_name(timeout=NAME_TIMEOUT)
    if found:
        text = f"{found}, by the endpoint"
        return Finding(is_well=True, what="name", text=text)
    text = "the endpoint does not tell what this VM is called: write name"
    return Finding(is_well=False, what="name", text=text)


def _listener(key: str, listen: str) -> Finding:
    place = split_listener(listen)
    assert place is not None, listen
    try:
        family, kind, number, _, where = socket.getaddrinfo(
            *place, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, number) as trial:
            if os.name == "posix":
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(where)
    except OSError as error:
        text = f"{listen}: {error.strerror}; is the agent running already?"
        return Finding(is_well=False, what=key, text=text)
    return Finding(is_well=True, what=key, text=f"{listen} is free")


def _secrets(settings: Settings) -> Iterator[Finding]:
    if settings.peers.token_file:
        yield _secret("peers.token_file", settings.peers.token_file)
    for each in (*settings.handlers, *settings.notify):
        if each.secret_file:
            yield _secret("secret_file", each.secret_file)


def _secret(key: str, path: str) -> Finding:
    try:
        with open(path, "rb") as opened:
            is_empty = not opened.readline(SECRET_BYTES_MAX).strip()
    except OSError as error:
        text = f"{path} cannot be read: {error.strerror}"
        return Finding(is_well=False, what=key, text=text)
    if is_empty:
        return Finding(is_well=False, what=key, text=f"{path} has nothing in it")
    if exposed := exposure(path):
        return Finding(is_well=False, what=key, text=exposed)
    return Finding(is_well=True, what=key, text=f"{path} can be read")
