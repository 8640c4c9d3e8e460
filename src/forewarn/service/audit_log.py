"""The log of what was committed: the trail's own lines, as they become durable.

Each line has the id of its operation where it is about one, so that a search for
the id finds all of them; `forewarn history` tells the same for the time of the
retention. What becomes of operations is told at `info`, what failed at `warning`,
and what there are great numbers of at `debug`: events, one for each scope, with
their approvals, and what VMs and fleet files cause.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from forewarn.protocol.operations import Operation
from forewarn.service.observed import Change, Listener
from forewarn.store.audit import AuditEntry, AuditKind
from forewarn.wording.operators import detail_of

logger = logging.getLogger("forewarn.audit")

Fields: TypeAlias = dict[str, str | int | list[str]]

NAMES_MAX = 20
"""Names of one kind in one line: an operation on a full host has as many."""

TEXT_CHARACTERS_MAX = 1_000
"""Of what one line says: a fleet file's changes are told by `history`."""

_MANY = ("vm", "scope", "host", "tenant")
"""What a line may be about several of."""

_NOTABLE = frozenset(
    {AuditKind.FLEET_APPLIED, AuditKind.HOST_FAILED, AuditKind.HOST_RESTORED}
)
"""What is told at `info` although no operation is named."""

_OF_EVENTS = frozenset(
    {
        AuditKind.EVENT_SCHEDULED,
        AuditKind.EVENT_APPROVED,
        AuditKind.EVENT_STARTED,
        AuditKind.EVENT_SHRUNK,
        AuditKind.EVENT_REMOVED,
    }
)
"""What happens to events: of great numbers, and so for `debug`."""

_BAD = frozenset(
    {
        AuditKind.DRIVER_FAILED,
        AuditKind.DRIVER_OUTCOME_UNKNOWN,
        AuditKind.OPERATION_FAILED,
    }
)


class AuditLog(Listener):
    """Writes the log of commits (observed.Listener)."""

    def committed(self, changes: Sequence[Change]) -> None:
        """Log what a transaction wrote."""
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
    """Return the operation that a whole transaction is about, if it is one."""
    found = {
        change.after.operation_id
        for change in changes
        if isinstance(change.after, Operation)
    }
    return found.pop() if len(found) == 1 else ""


def _tell_entry(entry: AuditEntry, only: str) -> None:
    if entry.kind in _OF_EVENTS and not logger.isEnabledFor(logging.DEBUG):
        # The most frequent by far: to find out what it is about would be for nothing.
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
"""Steps that the next line of the operation tells of again."""


def _is_of_operation(kind: AuditKind, fields: Fields) -> bool:
    is_named = "operation" in fields or "request" in fields
    return is_named and kind not in {*_OF_EVENTS, *_PLANNED}


def _tell_call(before: Operation, after: Operation) -> None:
    """Tell of a driver's call that is durable, and made next."""
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
    shown = text.replace("\n", "; ")[:TEXT_CHARACTERS_MAX]
    # Made by hand: to find out which line of the program it is costs as much as
    # all the rest, and it is always this one.
    record = logging.LogRecord(logger.name, level, "", 0, "%s", (shown,), None)
    record.fields = fields
    logger.handle(record)


def _fields(subjects: Sequence[str]) -> Iterator[tuple[str, str | list[str]]]:
    found: dict[str, list[str]] = {}
    for subject in subjects:
        noun, _, name = subject.partition(":")
        if name:
            found.setdefault(noun, []).append(name)
    for noun, names in found.items():
        yield (noun, names[:NAMES_MAX]) if noun in _MANY else (noun, names[0])
