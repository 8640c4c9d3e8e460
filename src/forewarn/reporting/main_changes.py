"""Main changes among the entries of the history: the others only explain these."""

from forewarn.store.records import AuditEntry, AuditKind

_DETAILS = frozenset(
    {
        AuditKind.HOSTS_PLANNED,
        AuditKind.EVENT_SCHEDULED,
        AuditKind.EVENT_STARTED,
        AuditKind.EVENT_SHRUNK,
        AuditKind.EVENT_REMOVED,
        AuditKind.DRIVER_DONE,
        AuditKind.VISIT_WAITING,
        AuditKind.VISIT_ANNOUNCED,
        AuditKind.VISIT_ENTERING,
        AuditKind.VISIT_DRAINING,
        AuditKind.VISIT_WORKING,
        AuditKind.VISIT_ANSWERING,
        AuditKind.VISIT_RESTORING,
        AuditKind.VISIT_VERIFYING,
        AuditKind.VISIT_EXITING,
        AuditKind.VM_MOVED,
        AuditKind.SCOPE_ENABLED,
        AuditKind.TENANT_ADD,
        AuditKind.TENANT_CHANGE,
        AuditKind.SCOPE_ADD,
        AuditKind.SCOPE_CHANGE,
        AuditKind.HOST_ADD,
        AuditKind.HOST_CHANGE,
        AuditKind.VM_ADD,
        AuditKind.VM_CHANGE,
    }
)

_ENDS_OF_WORK = frozenset({AuditKind.OPERATION_RECOVERING, AuditKind.OPERATION_DONE})
"""They say little if steps of the host follow."""


def is_main(entry: AuditEntry, visit: str | None) -> bool:
    """Return whether an entry is a main change.

    `visit` is the visit whose steps decide how the host of the entry ends; None or an empty
    text: the operation decides.
    """
    return entry.kind not in _DETAILS and not (visit and entry.kind in _ENDS_OF_WORK)
