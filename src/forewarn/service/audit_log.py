"""The log of committed changes: the audit entries, as they become durable.

A line about an operation contains its ID, so that a search for the ID finds all of them.
`forewarn history` shows the same entries during the retention. Progress of operations is
logged at `info`, and failures at `warning`. Frequent entries are logged at `debug`:
events (one per scope) and their approvals, and the effects of VMs and fleet files.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from forewarn.protocol.operations import Operation
from forewarn.service.observed import Changes, Listener
from forewarn.store.records import AuditEntry, AuditKind
from forewarn.wording.operators import detail_of

logger = logging.getLogger("forewarn.audit")

Fields: TypeAlias = dict[str, str | int | list[str]]

NAMES_MAX = 20
"""Maximum names of one kind in one line: the VMs of a full host."""

TEXT_CHARACTERS_MAX = 1_000
"""Maximum text of one line; `forewarn history` shows longer changes of a fleet file."""

_MANY = ("vm", "scope", "host", "tenant")
"""The subjects that one entry can have several of."""

_NOTABLE = frozenset(
    {
        AuditKind.FLEET_APPLIED,
        AuditKind.HOST_FAILED,
        AuditKind.HOST_RESTORED,
        AuditKind.HOST_CORDONED,
        AuditKind.HOST_OPENED,
        AuditKind.MAINTENANCE_DEFERRED,
        AuditKind.MAINTENANCE_EXPEDITED,
        AuditKind.DEFERRAL_CLEARED,
        AuditKind.WINDOW_SET,
        AuditKind.WINDOW_CLEARED,
        AuditKind.BRAKE_ON,
        AuditKind.BRAKE_OFF,
        AuditKind.BLACKOUT_SET,
        AuditKind.BLACKOUT_REMOVED,
        AuditKind.BLACKOUTS_IGNORED,
        *(kind for kind in AuditKind if kind.name.startswith("CAMPAIGN_")),
    }
)
"""Kinds logged at `info` although they name no operation."""

_OF_EVENTS = frozenset(
    {
        AuditKind.EVENT_SCHEDULED,
        AuditKind.EVENT_APPROVED,
        AuditKind.EVENT_STARTED,
        AuditKind.EVENT_SHRUNK,
        AuditKind.EVENT_REMOVED,
    }
)
"""Kinds about events, which are logged at `debug` since they are frequent."""

_BAD = frozenset(
    {
        AuditKind.DRIVER_FAILED,
        AuditKind.DRIVER_OUTCOME_UNKNOWN,
        AuditKind.OPERATION_FAILED,
    }
)


class AuditLog(Listener):
    """Logs the audit entries of commits (observed.Listener)."""

    def committed(self, changes: Changes) -> None:
        """Log the changes of a transaction."""
        if not logger.isEnabledFor(logging.WARNING):
            return
        only = _only_operation(changes)
        for before, after in changes:
            if isinstance(after, AuditEntry):
                if before is None and _is_told(after):
                    _tell_entry(after, only)
            elif (
                isinstance(after, Operation)
                and isinstance(before, Operation)
                and after.generation > before.generation
            ):
                _tell_call(after)


def _only_operation(changes: Changes) -> str:
    """Return the only operation that a transaction changed, or an empty text."""
    operations = {
        after.operation_id
        for _before, after in changes.of(Operation)
        if after is not None
    }
    return operations.pop() if len(operations) == 1 else ""


def _is_told(entry: AuditEntry) -> bool:
    """Return whether an entry is logged, unless it is one without an operation.

    Most entries are about events.
    """
    return entry.kind not in _DETAILS or logger.isEnabledFor(logging.DEBUG)


def _tell_entry(entry: AuditEntry, only: str) -> None:
    fields = _fields(entry.subjects)
    if only:
        fields.setdefault("operation", only)
    level = logging.DEBUG
    if entry.kind in _BAD:
        level = logging.WARNING
    elif entry.kind in _NOTABLE or _is_of_operation(entry.kind, fields):
        level = logging.INFO
    if not logger.isEnabledFor(level):
        return
    actor = entry.actor
    fields["actor"] = actor.text
    more = ("token", actor.token), ("peer", actor.peer), ("reason", entry.why)
    for name, value in more:
        if value:
            fields[name] = value
    detail = detail_of(entry)
    text = f"{entry.what}: {detail}" if detail else entry.what
    _log(level, text, fields)


_DETAILS = _OF_EVENTS | {AuditKind.OPERATION_PLANNED, AuditKind.HOSTS_PLANNED}
"""Kinds about events, and those that the next entry of the operation repeats."""


def _is_of_operation(kind: AuditKind, fields: Fields) -> bool:
    is_named = "operation" in fields or "request" in fields
    return is_named and kind not in _DETAILS


def _tell_call(after: Operation) -> None:
    """Log a driver call that is durable and is about to be made."""
    if logger.isEnabledFor(logging.INFO):
        names = [move.vm for move in after.moves if not move.done]
        _log(
            logging.INFO,
            f"driver called: {after.action.value}, attempt {after.attempts}",
            {
                "operation": after.operation_id,
                "request": after.request,
                "vm": names[:NAMES_MAX],
                "host": [after.host],
                "generation": after.generation,
            },
        )


def _log(level: int, text: str, fields: Mapping[str, object]) -> None:
    line = text.replace("\n", "; ")[:TEXT_CHARACTERS_MAX]
    # Create the record here instead of in `logger.log`, which would search for the
    # calling line. That search costs as much as everything else, and its result is
    # always this line.
    record = logging.LogRecord(logger.name, level, "", 0, "%s", (line,), None)
    record.fields = fields
    logger.handle(record)


def _fields(subjects: Sequence[str]) -> Fields:
    named: dict[str, list[str]] = {}
    for subject in subjects:
        noun, _, name = subject.partition(":")
        if name:
            named.setdefault(noun, []).append(name)
    return {
        noun: names[:NAMES_MAX] if noun in _MANY else names[0]
        for noun, names in named.items()
    }
