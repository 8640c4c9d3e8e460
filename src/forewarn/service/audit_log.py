"""The log of committed changes: the audit entries, as they become durable.

A line about an operation contains its ID, so that a search for the ID finds all of them.
`forewarn history` shows the same entries during the retention. Progress of operations is
logged at `info`, and failures at `warning`. Frequent entries are logged at `debug`:
events (one per scope) and their approvals, and the effects of VMs and fleet files.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from forewarn.protocol.operations import Operation
from forewarn.service.observed import Change, Listener
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

    def committed(self, changes: Sequence[Change]) -> None:
        """Log the changes of a transaction."""
        if not logger.isEnabledFor(logging.WARNING):
            return
        only = _only_operation(changes)
        for change in changes:
            after = change.after
            if isinstance(after, AuditEntry) and change.before is None:
                _tell_entry(after, only)
            elif isinstance(after, Operation) and isinstance(change.before, Operation):
                _tell_call(change.before, after)


def _only_operation(changes: Sequence[Change]) -> str:
    """Return the only operation that a transaction changed, or an empty text."""
    operations = {
        change.after.operation_id
        for change in changes
        if isinstance(change.after, Operation)
    }
    return operations.pop() if len(operations) == 1 else ""


def _tell_entry(entry: AuditEntry, only: str) -> None:
    if entry.kind in _OF_EVENTS and not logger.isEnabledFor(logging.DEBUG):
        # These are by far the most frequent kinds, so return before collecting their
        # fields.
        return
    fields: Fields = dict(_fields(entry.subjects))
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
    more = {"token": actor.token, "peer": actor.peer, "reason": entry.why}
    fields.update((name, value) for name, value in more.items() if value)
    detail = detail_of(entry)
    text = f"{entry.what}: {detail}" if detail else entry.what
    _log(level, text, fields)


_PLANNED = frozenset({AuditKind.OPERATION_PLANNED, AuditKind.HOSTS_PLANNED})
"""Kinds that the next entry of the operation repeats."""


def _is_of_operation(kind: AuditKind, fields: Fields) -> bool:
    is_named = "operation" in fields or "request" in fields
    return is_named and kind not in {*_OF_EVENTS, *_PLANNED}


def _tell_call(before: Operation, after: Operation) -> None:
    """Log a driver call that is durable and is about to be made."""
    if after.generation > before.generation and logger.isEnabledFor(logging.INFO):
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


def _fields(subjects: Sequence[str]) -> Iterator[tuple[str, str | list[str]]]:
    fields: dict[str, list[str]] = {}
    for subject in subjects:
        noun, _, name = subject.partition(":")
        if name:
            fields.setdefault(noun, []).append(name)
    for noun, names in fields.items():
        yield (noun, names[:NAMES_MAX]) if noun in _MANY else (noun, names[0])
