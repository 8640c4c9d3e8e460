"""The commands `agent`, `agent check`, `try`, `status`, `approve` and `install`.

Both command lines use them: that of forewarn and that of the single file. A command
prints with `say`, and returns its exit status or raises CommandFailedError.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from forewarn.agent import checking, installing, present, trying
from forewarn.agent.core.decide import doubts_of
from forewarn.agent.core.model import Consent
from forewarn.agent.core.names import key_of
from forewarn.agent.failure import FAILED, UNREACHABLE, USAGE, CommandFailedError
from forewarn.agent.foreign import told
from forewarn.agent.journal import sqlite
from forewarn.agent.journal.port import JournalError
from forewarn.agent.observability import status as telling
from forewarn.agent.order import USUAL_FILE, Order
from forewarn.agent.settings import AgentSettingsError, describe, load_settings
from forewarn.agent.settings_model import Settings
from forewarn.agent.wire.answers import HttpError
from forewarn.clock import SystemClock
from forewarn.instants import parse_instant
from forewarn.protocol.decoder import DOCUMENT_BYTES_MAX, UnreadableError, decode
from forewarn.protocol.notices import Reading
from forewarn.texts import printable

STANDARD_INPUT = "-"
"""The file name that means standard input."""


def run(order: Order) -> int:
    """Run the agent until it is stopped."""
    from forewarn.agent import running  # noqa: PLC0415 - the others do not need it

    return running.run(
        order.settings_to_run(), environ=order.environ, again=order.settings
    )


def check(order: Order) -> int:
    """Print the results of all checks; the status is 1 if any check fails."""
    from forewarn.agent import assembly, outbound  # noqa: PLC0415 - as above

    settings, clock = order.settings(), SystemClock()
    problems = list(
        checking.findings(
            settings,
            endpoint=assembly.endpoint_of(settings, clock),
            elsewhere=lambda: assembly.elsewhere_of(settings, clock),
            checks=assembly.checks_of(settings, order.environ),
            look_at_lock=lambda: outbound.look_at_lock(settings, order.environ, clock),
            look_at_alerts=lambda: outbound.look_at_alerts(settings, clock),
        )
    )
    # Servers contribute to the texts. A warning about the settings may have many lines.
    problems = [
        replace(problem, text="\n".join(map(told, problem.text.splitlines())))
        for problem in problems
    ]
    if order.is_json:
        order.say_json(
            [
                {"well": problem.is_well, "what": problem.subject, "text": problem.text}
                for problem in problems
            ]
        )
    for finding in problems if not order.is_json else ():
        order.say(
            f"{'ok ' if finding.is_well else 'BAD'}  {finding.subject}: {finding.text}"
        )
    return 0 if all(problem.is_well for problem in problems) else FAILED


def show_settings(order: Order) -> int:
    """Print each setting in effect with its origin."""
    rows = describe(order.settings())
    if order.is_json:
        order.say_json(
            [{"key": r.key, "value": r.value, "origin": r.origin} for r in rows]
        )
        return 0
    width = max(len(row.key) for row in rows)
    for row in rows:
        order.say(f"{row.key:<{width}}  {row.value or '-'}  ({row.origin})")
    return 0


def try_document(order: Order, file: str, *, name: str = "", at: str = "") -> int:
    """Show what the agent would do with a document; `-` is standard input."""
    settings = order.settings()
    reading = _reading_of(file)
    try:
        now = parse_instant(at) if at else SystemClock().now()
    except ValueError as error:
        raise CommandFailedError(USAGE, f"--at: {error}") from error
    name = name or settings.watch.vm_name or _only_name(reading.notices)
    trial = trying.attempt(settings.policy, reading.notices, name=name, now=now)
    if order.is_json:
        order.say_json(trying.document_of(trial, reading.notices, name=name))
        return 0
    order.say(f"as {name}")
    if settings.watch.dry_run:
        order.say("dry_run is set: the agent only logs these actions")
    for warning in reading.warnings:
        order.say(f"warning: {warning}")
    for line in trying.words_of(trial, reading.notices, name=name, now=now):
        order.say(line)
    return 0


def _reading_of(file: str) -> Reading:
    """Return the content of a document; raises CommandFailedError."""
    shown = "(standard input)" if file == STANDARD_INPUT else file
    try:
        if file == STANDARD_INPUT:
            if sys.stdin is None:
                raise CommandFailedError(USAGE, "there is no standard input")
            return decode(sys.stdin.buffer.read(DOCUMENT_BYTES_MAX + 1))
        with open(file, "rb") as opened:
            return decode(opened.read(DOCUMENT_BYTES_MAX + 1))
    except OSError as error:
        raise CommandFailedError(
            USAGE,
            f"{shown} cannot be read: {error.strerror}",
            hint="Name a file with a document, or use - and pipe the document in.",
        ) from error
    except UnreadableError as error:
        raise CommandFailedError(USAGE, f"{shown}: {error.message}") from error


def _only_name(notices: Sequence[Any]) -> str:
    names = {key_of(name): name for notice in notices for name in notice.resources}
    if len(names) > 1:
        shown = ", ".join(sorted(names.values())[:5])
        raise CommandFailedError(
            USAGE,
            f"the document names several VMs: {shown}",
            hint="Name this VM with --vm.",
        )
    return next(iter(names.values()), "")


def show_status(order: Order) -> int:
    """Show the agent's status, or its stored memory if it does not answer."""
    settings = order.settings_of_running()
    now = SystemClock().now()
    try:
        document, status = present.asked(settings), 0
    except HttpError as error:
        document, status = _remembered(settings, error.message), UNREACHABLE
    if order.is_json:
        order.say_json(document)
    else:
        for line in telling.words_of(document, now=now):
            order.say(printable(line))
    return status


def _remembered(settings: Settings, reason: str) -> dict[str, Any]:
    path = settings.watch.state
    try:
        memory, notes = sqlite.read_memory(path), sqlite.read_notes(path)
    except JournalError as error:
        raise CommandFailedError(
            UNREACHABLE,
            f"the agent does not answer ({reason}), and {error.message}",
            hint="Run `forewarn agent check` to see whether it runs with these settings.",
        ) from error
    return telling.document_of(
        memory,
        doubts=doubts_of(memory, settings.policy, SystemClock().now()),
        history=notes,
        about={"unreachable": reason},
    )


def approve(order: Order, event_id: str) -> int:
    """Request the agent to approve an event now, regardless of its rules."""
    settings = order.settings_of_running()
    path, shown = settings.watch.state, present.shown(settings)
    if mode := _idle_mode(settings, shown):
        raise CommandFailedError(
            FAILED,
            f"the agent {mode} and sends no approvals, not even on request",
            hint="Change its settings, or POST the approval to the endpoint.",
        )
    try:
        task = sqlite.read_memory(path).find(event_id.upper())
        if task is None or not task.is_live:
            raise _not_there(event_id, shown)
        if task.notice.has_started or task.consent is Consent.GIVEN:
            how = "has started" if task.notice.has_started else "is approved"
            raise CommandFailedError(FAILED, f"event {task.event_id} {how} already")
        sqlite.order_approval(path, task.event_id, now=SystemClock().now())
    except JournalError as error:
        if _is_listed(event_id, shown):
            raise _not_there(event_id, shown, f" ({error.message})") from error
        raise CommandFailedError(FAILED, error.message, hint=error.hint) from error
    order.say(
        f"ordered: {task.notice.event_type} {task.event_id} is approved within a second"
    )
    return 0


def _idle_mode(settings: Settings, shown: Mapping[str, Any]) -> str:
    """Return why the agent approves no event at all; empty: it does."""
    if settings.watch.dry_run or shown.get("mode") == "dry run":
        return "is in a dry run"
    if settings.watch.observe or shown.get("mode") == "observe":
        return "observes only"
    return ""


def _is_listed(event_id: str, shown: Mapping[str, Any]) -> bool:
    return any(
        event["EventId"] == event_id.upper() and not event["removed"]
        for event in shown.get("events", ())
    )


def _not_there(
    event_id: str, shown: Mapping[str, Any], why: str = ""
) -> CommandFailedError:
    """Return the error for an event that the journal does not have."""
    if not _is_listed(event_id, shown):
        return CommandFailedError(
            FAILED,
            f"the agent has no current event with ID {event_id}",
            hint="Run `forewarn agent status` to list current events.",
        )
    return CommandFailedError(
        FAILED,
        f"cannot request the approval of event {event_id.upper()}: the journal, which "
        f"transports requests, cannot be written{why}",
        hint="Run `forewarn agent status` for the reason and try again, or POST the "
        "approval to the endpoint.",
    )


def install(order: Order, *, write: bool = False) -> int:
    """Print the service unit for this system, or write it."""
    config = os.path.abspath(order.config) if order.config else USUAL_FILE
    # Without --config, the agent reads the default file if it exists.
    command = (*order.program, "--config", config) if order.config else order.program
    missing = config if order.config and not os.path.exists(config) else ""
    if warning := _why_unprepared(config, is_named=bool(order.config)):
        order.tell(f"forewarn: warning: {warning}")
    if not os.path.isdir("/run/systemd/system") and not write:
        has_openrc = os.path.exists("/sbin/openrc-run")
        if sys.platform != "linux" or has_openrc:
            order.say(installing.advice(sys.platform, command, has_openrc=has_openrc))
            if missing:
                order.say(f"write {missing} first: without it the agent does not start")
            return 0
    unit = installing.unit(command, missing=missing)
    if not write:
        order.say(unit.rstrip("\n"))
        return 0
    try:
        with open(installing.UNIT_FILE, "x", encoding="utf-8") as opened:
            opened.write(unit)
    except FileExistsError as error:
        raise CommandFailedError(
            FAILED,
            f"{installing.UNIT_FILE} already exists",
            hint="Remove it first, or change it with `systemctl edit forewarn-agent`.",
        ) from error
    except OSError as error:
        raise CommandFailedError(
            FAILED, f"{installing.UNIT_FILE} cannot be written: {error.strerror}"
        ) from error
    order.say(f"{installing.UNIT_FILE} was written. Now:")
    if missing:
        order.say(f"  write {missing}: without it the agent does not start")
    elif not os.path.exists(config):
        order.say(f"  write {config}, or the agent uses the default rules")
    for line in installing.SYSTEMD_NEXT:
        order.say(f"  {line}")
    return 0


def _why_unprepared(file: str, *, is_named: bool) -> str:
    """Return why an agent with this settings file would prepare nothing; empty: it
    prepares, or it approves nothing.

    The environment of this command does not count, since the unit does not have it.
    """
    if not os.path.exists(file):
        effect = "does not start" if is_named else installing.UNPREPARED
        return f"{told(file)} does not exist: the agent {effect}"
    try:
        settings = load_settings(file=file, environ={}, flags={})
    except AgentSettingsError as error:
        return f"the agent does not start: {told(error.message)}"
    is_passive = settings.watch.observe or settings.watch.dry_run
    if settings.handlers or is_passive:
        return ""
    return f"{told(file)} has no handler: the agent {installing.UNPREPARED}"
