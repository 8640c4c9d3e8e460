"""`agent check`: is it all well? In plain words, one line for each thing.

Settings are sound by the time this looks. Nothing is changed, approved or run but the
checks of handlers; a file that is written for a trial is not left behind.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from forewarn.agent import present
from forewarn.agent.core.polling import NAME_TIMEOUT
from forewarn.agent.core.rules import default_rules
from forewarn.agent.endpoint_lock import holder_of
from forewarn.agent.handlers.secret import (
    SecretError,
    exposure,
    read_secret,
    read_token,
)
from forewarn.agent.journal.port import JournalRefusedError
from forewarn.agent.journal.whose import refuse_others
from forewarn.agent.naming import named
from forewarn.agent.settings_model import Settings
from forewarn.agent.watcher import Port
from forewarn.agent.wire.endpoint import Asked
from forewarn.agent.wire.http import look_up
from forewarn.agent.wire.urls import split_listener
from forewarn.instants import SECOND, Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.frozen import frozen_dataclass

ENDPOINT_TIMEOUT: Micros = 10 * SECOND
"""For the endpoint here: somebody waits. The first answer of all may take longer."""

TRIAL_BYTES = 64 * 1024
"""What is written for a trial where the journal will be: as much as a new one takes."""

NOTHING = "nothing is run and nothing approved"


@frozen_dataclass
class Finding:
    """How one thing stands."""

    is_well: bool
    what: str
    """`endpoint`, `handler drain`, and so on."""
    text: str


Elsewhere = Callable[[], Iterable[tuple[Sequence[Port], Sequence[str]]]]
"""Where else the endpoint may be, when it does not answer where it should, and what
was heard of those who were asked for it; further places are found only when wanted."""


def _nowhere() -> Iterable[tuple[Sequence[Port], Sequence[str]]]:
    return ()


def findings(
    settings: Settings,
    *,
    endpoint: Port,
    elsewhere: Elsewhere = _nowhere,
    checks: Sequence[tuple[str, Callable[[str], Sequence[str]]]],
    look_at_lock: Callable[[], str] = str,
    look_at_alerts: Callable[[], tuple[bool, str]] = lambda: (True, ""),
) -> Iterator[Finding]:
    """Yield how everything stands.

    `checks` has each handler, and those notified, with its own, which is told this VM's
    name; empty: not known. `look_at_lock` says who holds the lock, and `look_at_alerts`
    whether no alert fires and which; they raise ForewarnError.
    """
    yield _settings(settings)
    for warning in settings.warnings:
        yield Finding(is_well=False, what="settings", text=warning)
    yield _state(settings.watch.state)
    vm = yield from _endpoint(settings, endpoint, elsewhere)
    for what, check in checks:
        faults = check(vm)
        for fault in faults:
            yield Finding(is_well=False, what=what, text=fault)
        if not faults:
            yield Finding(is_well=True, what=what, text="is as it should be")
    if settings.lock.kind:
        yield _lock(settings, look_at_lock)
    if settings.gate.url:
        yield _gate(settings, look_at_alerts)
    if not settings.handlers and not settings.watch.observe:
        text = "there are none: only what needs no preparation is approved"
        yield Finding(is_well=True, what="handlers", text=text)
    status = present.shown(settings)
    process = present.process_of(settings, status)
    yield from _others(settings, process)
    for key, listen in (
        ("listen", settings.watch.listen),
        ("peers.listen", settings.peers.listen),
    ):
        if listen:
            yield _listener(key, listen, process=process, status=status)
    yield from _secrets(settings)
    if settings.watch.dry_run:
        yield Finding(is_well=True, what="dry_run", text=NOTHING)
    if settings.watch.observe:
        yield Finding(is_well=True, what="observe", text=NOTHING)


def _lock(settings: Settings, look: Callable[[], str]) -> Finding:
    label = settings.lock.label.removeprefix("lock ")
    try:
        text = look()
    except ForewarnError as error:
        hint = f" ({error.hint})" if error.hint else ""
        text = f"{label}: {error.message}{hint}"
        return Finding(is_well=False, what="lock", text=text)
    return Finding(is_well=True, what="lock", text=f"{label}: {text}")


def _gate(settings: Settings, look: Callable[[], tuple[bool, str]]) -> Finding:
    label = settings.gate.label
    try:
        is_clear, text = look()
    except ForewarnError as error:
        text = f"{label}: {error.message}"
        return Finding(is_well=False, what="gate", text=text)
    if not is_clear:
        text += ": events would not be approved now"
    return Finding(is_well=is_clear, what="gate", text=f"{label}: {text}")


def _settings(settings: Settings) -> Finding:
    policy = settings.policy
    rules = policy.rules
    count = f"{len(rules)} rules" if len(rules) != 1 else "1 rule"
    if rules == default_rules(policy.handlers, has_peers=policy.has_peers):
        count = "the default rules"
    text = f"sound: {settings.file or 'no file'}, {count}"
    return Finding(is_well=True, what="settings", text=text)


def _state(path: str) -> Finding:
    fault = _why_no_state(path)
    if fault:
        return Finding(is_well=False, what="state", text=fault)
    folder = os.path.dirname(os.path.realpath(path))
    can = (
        f"{path} can be written" if os.path.isdir(folder) else f"{folder} will be made"
    )
    return Finding(is_well=True, what="state", text=can)


def _why_no_state(path: str) -> str:
    """Return why an agent would not start with a journal, or forget; empty: it works."""
    whole = os.path.realpath(path)
    folder = os.path.dirname(whole)
    if os.path.exists(folder) and not os.path.isdir(folder):
        return f"{folder} is not a folder"
    if not os.path.isdir(folder):
        parent = os.path.dirname(folder)
        if os.path.isdir(parent) and (fault := _why_no_file(parent)):
            return fault
        if os.path.isdir(parent) and os.access(parent, os.W_OK | os.X_OK):
            return ""
        return (
            f"there is no folder {folder}, and it cannot be made: nothing would be "
            "remembered"
        )
    try:
        refuse_others(whole)
    except JournalRefusedError as error:
        return f"{error.message} ({error.hint})"
    if fault := _why_no_file(folder):
        return fault
    files = [each for each in (whole, f"{whole}.lock") if os.path.exists(each)]
    if not os.access(folder, os.W_OK | os.X_OK) or not all(
        os.access(each, os.R_OK | os.W_OK) for each in files
    ):
        return f"{path} cannot be written by this user: is it the agent's?"
    return ""


def _why_no_file(folder: str) -> str:
    """Return why a folder takes no file, as on a full disk; empty: it may.

    Who may not write there is told so elsewhere. The trial has no name where the system can do that, and is gone afterwards.
    """
    # Only who looks has it: an agent starts without it.
    import tempfile  # noqa: PLC0415

    try:
        with tempfile.TemporaryFile(dir=folder, prefix=".forewarn-check-") as trial:
            trial.write(b"\0" * TRIAL_BYTES)
            trial.flush()
            os.fsync(trial.fileno())
    except PermissionError:
        return ""
    except OSError as error:
        return f"{folder} takes no file: {error.strerror}; nothing would be remembered"
    return ""


def _others(settings: Settings, process: int) -> Iterator[Finding]:
    """Yield how it stands with agents at work; `process` is this journal's, if any."""
    if process:
        yield Finding(is_well=True, what="agent", text=f"runs: process {process}")
    if settings.watch.dry_run or settings.watch.observe:
        return
    url = settings.watch.endpoint
    holder = holder_of(url)
    if holder is not None and holder.is_believed and holder.process != process:
        text = f"another one acts at {url}: {holder}; this one would not start"
        yield Finding(is_well=False, what="agent", text=text)


def _endpoint(
    settings: Settings, endpoint: Port, elsewhere: Elsewhere
) -> Generator[Finding, None, str]:
    """Yield how the endpoint stands, and return this VM's name; empty: not known."""
    url = endpoint.url
    asked = endpoint.ask(timeout=ENDPOINT_TIMEOUT, full=True)
    refusals = [] if asked.reading is not None else [_refusal(url, asked)]
    for others, told in elsewhere() if refusals else _nowhere():
        for other in others:
            if asked.reading is None:
                endpoint, asked = other, other.ask(timeout=ENDPOINT_TIMEOUT, full=True)
                if asked.reading is None:
                    refusals.append(_refusal(other.url, asked))
        for sentence in told:
            yield Finding(is_well=asked.reading is not None, what="dhcp", text=sentence)
        if asked.reading is not None:
            break
    if asked.reading is None:
        for refusal in refusals:
            yield Finding(is_well=False, what="endpoint", text=refusal)
        return named(settings)
    events = len(asked.reading.notices)
    count = f"{events} events" if events != 1 else "1 event"
    text = f"{endpoint.url} answers with version {endpoint.version}: {count}"
    if asked.reading.is_empty:
        text = (
            f"{endpoint.url} answers with status 200 and an empty body. That counts as "
            "no events, but no document and no version was seen: anything may answer so"
        )
    yield Finding(is_well=True, what="endpoint", text=text)
    for oddity in asked.reading.oddities:
        yield Finding(is_well=False, what="endpoint", text=oddity)
    return (yield from _name(settings, endpoint))


def _refusal(url: str, asked: Asked) -> str:
    return f"{url} gave no document: {asked.detail or asked.result.value}"


def _name(settings: Settings, endpoint: Port) -> Generator[Finding, None, str]:
    """Yield how this VM's name is known, and return it; empty: it is not."""
    name, by = named(settings), "settings"
    if not name:
        name, by = endpoint.instance_name(timeout=NAME_TIMEOUT) or "", "endpoint"
    text = f"{name}, by the {by}"
    if not name:
        text = "the endpoint does not tell what this VM is called: write name"
    yield Finding(is_well=bool(name), what="name", text=text)
    return name


def _listener(
    key: str, listen: str, *, process: int, status: Mapping[str, Any]
) -> Finding:
    place = split_listener(listen)
    assert place is not None, listen
    try:
        family, kind, number, _, where = look_up(*place, socket.AI_PASSIVE)[0]
        with socket.socket(family, kind, number) as trial:
            if os.name == "posix":
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(where)
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        if is_taken and process:
            text = f"{listen} is the running agent's"
            return Finding(is_well=True, what=key, text=text)
        who = _who_listens(status) if is_taken and key == "listen" else ""
        text = f"{listen}: {error.strerror}{who}"
        return Finding(is_well=False, what=key, text=text)
    return Finding(is_well=True, what=key, text=f"{listen} is free")


def _who_listens(status: Mapping[str, Any]) -> str:
    """Return who has the address of the status, which is not this journal's agent."""
    if not status:
        return " by another program: choose another port with listen"
    return (
        f" by another agent: process {status.get('process')!r} "
        f"with the journal {status.get('state')!r}"
    )


def _secrets(settings: Settings) -> Iterator[Finding]:
    if settings.peers.token_file:
        yield _secret("peers.token_file", settings.peers.token_file, read_token)
    if settings.lock.token_file:
        yield _secret("lock.token_file", settings.lock.token_file, read_token)
    if settings.gate.token_file:
        yield _secret("gate.token_file", settings.gate.token_file, read_token)
    for each in (*settings.handlers, *settings.notify):
        if each.secret_file:
            yield _secret("secret_file", each.secret_file, read_secret)


def _secret(key: str, path: str, read: Callable[[str], str]) -> Finding:
    """Return how a secret stands, read as the agent reads it."""
    try:
        read(path)
    except SecretError as error:
        return Finding(is_well=False, what=key, text=error.message)
    if exposed := exposure(path):
        return Finding(is_well=False, what=key, text=exposed)
    return Finding(is_well=True, what=key, text=f"{path} can be read")
