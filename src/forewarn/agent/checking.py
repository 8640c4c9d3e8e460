"""`agent check`: check the settings and everything they name, one line per result.

The settings themselves are already valid. The checks change and approve nothing, and
run only the check programs of handlers. A test file is removed afterwards.
"""

from __future__ import annotations

import errno
import os
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
from forewarn.agent.journal.opening import refuse_others
from forewarn.agent.journal.port import JournalRefusedError
from forewarn.agent.observability.server import bound
from forewarn.agent.settings_model import Settings
from forewarn.agent.watcher import Port
from forewarn.agent.wire.endpoint import PollResult
from forewarn.instants import SECOND, Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.frozen import frozen_dataclass

ENDPOINT_TIMEOUT: Micros = 10 * SECOND
"""Timeout for the endpoint, which is short because a person waits."""

TRIAL_BYTES = 64 * 1024
"""Size of the test file next to the journal, which is the size of a new journal."""

NOTHING = "no handler runs, and no event is approved"


@frozen_dataclass
class Finding:
    """The result of one check."""

    is_well: bool
    subject: str
    """The part that was checked, such as `endpoint` or `handler drain`."""
    text: str


def _good(subject: str, text: str) -> Finding:
    return Finding(is_well=True, subject=subject, text=text)


def _bad(subject: str, text: str) -> Finding:
    return Finding(is_well=False, subject=subject, text=text)


Elsewhere = Callable[[], Iterable[tuple[Sequence[Port], Sequence[str]]]]
"""Other possible endpoints, with the results of the search for them. The search runs
only if the main endpoint does not answer."""


def findings(
    settings: Settings,
    *,
    endpoint: Port,
    elsewhere: Elsewhere = tuple,
    checks: Sequence[tuple[str, Callable[[str], Sequence[str]]]],
    look_at_lock: Callable[[], str] = str,
    look_at_alerts: Callable[[], tuple[bool, str]] = lambda: (True, ""),
) -> Iterator[Finding]:
    """Yield the results of all checks.

    `checks` has the handlers and receivers with their checks, which take this VM's
    name, or an empty text if it is unknown. `look_at_lock` returns the lock's holders.
    `look_at_alerts` returns whether no alert fires, and which ones do. Both raise
    ForewarnError.
    """
    yield _settings(settings)
    for warning in settings.warnings:
        yield _bad("settings", warning)
    yield _state(settings.watch.state)
    vm = yield from _endpoint(settings, endpoint, elsewhere)
    for subject, check in checks:
        faults = check(vm)
        for fault in faults:
            yield _bad(subject, fault)
        if not faults:
            yield _good(subject, "no problem found")
    if settings.lock.kind:
        yield _lock(settings, look_at_lock)
    if settings.gate.url:
        yield _gate(settings, look_at_alerts)
    if not settings.handlers and not settings.watch.observe:
        yield _good(
            "handlers",
            "there are none: only events that need no preparation are approved",
        )
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
    for key in ("dry_run", "observe"):
        if getattr(settings.watch, key):
            yield _good(key, NOTHING)


def _lock(settings: Settings, look: Callable[[], str]) -> Finding:
    label = settings.lock.label.removeprefix("lock ")
    try:
        text = look()
    except ForewarnError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return _bad("lock", f"{label}: {error.message}{hint}")
    return _good("lock", f"{label}: {text}")


def _gate(settings: Settings, look: Callable[[], tuple[bool, str]]) -> Finding:
    label = settings.gate.label
    try:
        is_clear, text = look()
    except ForewarnError as error:
        return _bad("gate", f"{label}: {error.message}")
    if not is_clear:
        text += ": events would not be approved now"
    return Finding(is_well=is_clear, subject="gate", text=f"{label}: {text}")


def _settings(settings: Settings) -> Finding:
    policy = settings.policy
    rules = policy.rules
    count = f"{len(rules)} rules" if len(rules) != 1 else "1 rule"
    if rules == default_rules(policy.handlers, has_peers=policy.has_peers):
        count = "the default rules"
    return _good("settings", f"valid: {settings.file or 'no file'}, {count}")


def _state(path: str) -> Finding:
    fault = _why_no_state(path)
    if fault:
        return _bad("state", fault)
    directory = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(directory):
        return _good("state", f"{path} can be written")
    return _good("state", f"{directory} will be created")


def _why_no_state(path: str) -> str:
    """Return why the journal cannot work at this path; empty: it can."""
    whole = os.path.realpath(path)
    directory = os.path.dirname(whole)
    if os.path.exists(directory) and not os.path.isdir(directory):
        return f"{directory} is not a directory"
    if not os.path.isdir(directory):
        parent = os.path.dirname(directory)
        if os.path.isdir(parent) and (fault := _why_no_file(parent)):
            return fault
        if os.path.isdir(parent) and os.access(parent, os.W_OK | os.X_OK):
            return ""
        return (
            f"the directory {directory} does not exist and cannot be created, so the agent "
            "would work without a journal"
        )
    try:
        refuse_others(whole)
    except JournalRefusedError as error:
        return f"{error.message} ({error.hint})"
    if fault := _why_no_file(directory):
        return fault
    files = [file for file in (whole, f"{whole}.lock") if os.path.exists(file)]
    if not os.access(directory, os.W_OK | os.X_OK) or not all(
        os.access(file, os.R_OK | os.W_OK) for file in files
    ):
        return f"{path} is not writable for this user; is it the agent's user?"
    return ""


def _why_no_file(directory: str) -> str:
    """Return why a directory accepts no file, for example on a full disk; empty: it
    does.

    Missing permissions are reported elsewhere. The test file has no name if the system
    supports that, and is removed in any case.
    """
    # Only this command needs it, not a running agent.
    import tempfile  # noqa: PLC0415

    try:
        with tempfile.TemporaryFile(dir=directory, prefix=".forewarn-check-") as trial:
            trial.write(b"\0" * TRIAL_BYTES)
            trial.flush()
            os.fsync(trial.fileno())
    except PermissionError:
        return ""
    except OSError as error:
        return f"{directory} accepts no file: {error.strerror}; the agent would work without a journal"
    return ""


def _others(settings: Settings, process: int) -> Iterator[Finding]:
    """Yield the results about running agents; `process` has this journal, if any."""
    if process:
        yield _good("agent", f"running: process {process}")
    if settings.watch.dry_run or settings.watch.observe:
        return
    url = settings.watch.endpoint
    holder = holder_of(url)
    if holder is not None and holder.is_believed and holder.process != process:
        yield _bad(
            "agent",
            f"another agent ({holder}) handles events from {url}; this one would not start",
        )


def _endpoint(
    settings: Settings, endpoint: Port, elsewhere: Elsewhere
) -> Generator[Finding, None, str]:
    """Yield the results for the endpoint; return this VM's name, or an empty text."""
    url = endpoint.url
    response = endpoint.ask(timeout=ENDPOINT_TIMEOUT, full=True)
    refusals = [] if response.reading is not None else [_refusal(url, response)]
    for others, sentences in elsewhere() if refusals else ():
        for other in others:
            if response.reading is None:
                endpoint, response = (
                    other,
                    other.ask(timeout=ENDPOINT_TIMEOUT, full=True),
                )
                if response.reading is None:
                    refusals.append(_refusal(other.url, response))
        for sentence in sentences:
            yield Finding(
                is_well=response.reading is not None, subject="dhcp", text=sentence
            )
        if response.reading is not None:
            break
    if response.reading is None:
        for refusal in refusals:
            yield _bad("endpoint", refusal)
        return settings.watch.vm_name
    events = len(response.reading.notices)
    count = f"{events} events" if events != 1 else "1 event"
    text = f"{endpoint.url} answers with version {endpoint.version}: {count}"
    if response.reading.is_empty:
        text = (
            f"{endpoint.url} returns status 200 with an empty body. That counts as no "
            "events, but without a document or a version, it may be any server"
        )
    yield _good("endpoint", text)
    for warning in response.reading.warnings:
        yield _bad("endpoint", warning)
    return (yield from _name(settings, endpoint))


def _refusal(url: str, response: PollResult) -> str:
    return f"{url} returned no document: {response.detail or response.result.value}"


def _name(settings: Settings, endpoint: Port) -> Generator[Finding, None, str]:
    """Yield the source of this VM's name, and return it; empty: unknown."""
    name, by = settings.watch.vm_name, "settings"
    if not name:
        name, by = endpoint.instance_name(timeout=NAME_TIMEOUT) or "", "endpoint"
    text = f"{name}, by the {by}"
    if not name:
        text = "the endpoint does not return this VM's name: set name"
    yield Finding(is_well=bool(name), subject="name", text=text)
    return name


def _listener(
    key: str, listen: str, *, process: int, status: Mapping[str, Any]
) -> Finding:
    try:
        bound(listen).close()
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        if is_taken and process:
            return _good(key, f"{listen} is in use by the running agent")
        who = _who_listens(status) if is_taken and key == "listen" else ""
        return _bad(key, f"{listen}: {error.strerror}{who}")
    return _good(key, f"{listen} is free")


def _who_listens(status: Mapping[str, Any]) -> str:
    """Return the process that listens at the address, if it is an agent."""
    if not status:
        return " by another program; set listen to another port"
    return (
        f" by another agent: process {status.get('process')!r} "
        f"with the journal {status.get('state')!r}"
    )


def _secrets(settings: Settings) -> Iterator[Finding]:
    for table in ("peers", "lock", "gate"):
        if file := getattr(settings, table).token_file:
            yield _secret(f"{table}.token_file", file, read_token)
    for entry in (*settings.handlers, *settings.notify):
        if entry.secret_file:
            yield _secret("secret_file", entry.secret_file, read_secret)


def _secret(key: str, path: str, read: Callable[[str], str]) -> Finding:
    """Return the result for a secret, which is read as the agent reads it."""
    try:
        read(path)
    except SecretError as error:
        return _bad(key, error.message)
    if exposed := exposure(path):
        return _bad(key, exposed)
    return _good(key, f"{path} can be read")
