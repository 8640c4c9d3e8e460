"""The phases that a host of a campaign has passed, from the history of its attempts.

The records of an operation and a visit have only some of the times. Their history has an
entry for each change of state.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from forewarn.instants import Micros
from forewarn.protocol.operations import Operation
from forewarn.protocol.visits import STUCK_VISITS, Visit
from forewarn.reporting.campaign_courses import attempt_of
from forewarn.reporting.campaign_states import HostState
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditEntry, AuditKind

ENTRIES_MAX = 5_000
"""Maximum entries of the history that are read for one attempt: each VM has some, and this
is enough for 500 VMs. The earliest ones count, and the record says when the work ended."""


class Phase(NamedTuple):
    """A time in which a host was in one state and one step."""

    state: HostState
    step: str
    """The state of its visit, such as Draining; empty: it has no visit, or not begun."""
    begins: Micros
    ends: Micros
    """0: it has not ended."""


_STATES: Mapping[AuditKind, HostState | None] = {
    AuditKind.OPERATION_ANNOUNCED: HostState.ANNOUNCED,
    AuditKind.OPERATION_READY: HostState.READY,
    AuditKind.OPERATION_IMPACTING: HostState.IMPACTING,
    AuditKind.OPERATION_RECOVERING: HostState.RECOVERING,
    AuditKind.OPERATION_DONE: None,
    AuditKind.OPERATION_CANCELLED: None,
    AuditKind.OPERATION_FAILED: None,
}
"""The state of a host from an entry about its operation on; None: it has none."""

_STEPS: Mapping[AuditKind, HostState | None] = {
    AuditKind.VISIT_ENTERING: HostState.IMPACTING,
    AuditKind.VISIT_DRAINING: HostState.IMPACTING,
    AuditKind.VISIT_WORKING: HostState.IMPACTING,
    AuditKind.VISIT_ANSWERING: HostState.IMPACTING,
    AuditKind.VISIT_RESTORING: HostState.IMPACTING,
    AuditKind.VISIT_VERIFYING: HostState.RECOVERING,
    AuditKind.VISIT_EXITING: HostState.RECOVERING,
    AuditKind.VISIT_FAILED: HostState.FAILED,
    AuditKind.VISIT_UNKNOWN: HostState.FAILED,
    AuditKind.VISIT_DONE: None,
    AuditKind.VISIT_DEFERRED: None,
    AuditKind.VISIT_SKIPPED: None,
}
"""The same for its visit, which decides from its beginning on."""


def phases(reader: Reader, operation: Operation, visit: Visit | None) -> list[Phase]:
    """Return the phases of an attempt, in the order of time."""
    entries = _entries(reader, f"operation:{operation.operation_id}", _STATES)
    if visit is not None:
        steps = _entries(reader, f"visit:{visit.visit_id}", _STEPS)
        if steps:
            begun = steps[0].key
            entries = [entry for entry in entries if entry.key < begun] + steps
    phases_so_far = list(_of(entries)) or _of_records(operation, visit)
    over = attempt_of(operation, visit).over
    if (
        phases_so_far
        and over
        and not phases_so_far[-1].ends
        and phases_so_far[-1].begins < over
    ):
        phases_so_far[-1] = phases_so_far[-1]._replace(ends=over)
    return phases_so_far


def _entries(
    reader: Reader, subject: str, wanted: Mapping[AuditKind, HostState | None]
) -> list[AuditEntry]:
    entries = islice(every(reader, kinds.AUDIT_OF_SUBJECT, subject), ENTRIES_MAX)
    return [entry for entry in entries if entry.kind in wanted]


def _of(entries: Iterable[AuditEntry]) -> Iterator[Phase]:
    open_: Phase | None = None
    for entry in entries:
        is_visit = entry.kind in _STEPS
        state = _STEPS[entry.kind] if is_visit else _STATES[entry.kind]
        step = entry.kind.value.removeprefix("visit ").capitalize() if is_visit else ""
        if open_ is not None:
            yield open_._replace(ends=entry.at)
        open_ = None if state is None else Phase(state, step, entry.at, 0)
    if open_ is not None:
        yield open_


def _of_records(operation: Operation, visit: Visit | None) -> list[Phase]:
    """Return the work of an attempt whose history is deleted."""
    attempt = attempt_of(operation, visit)
    if not attempt.started:
        return []
    work = Phase(HostState.IMPACTING, "", attempt.started, attempt.over)
    if visit is None or visit.state not in STUCK_VISITS:
        return [work]
    return [work, Phase(HostState.FAILED, visit.state.value, attempt.over, 0)]
