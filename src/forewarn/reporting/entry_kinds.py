"""Values of the kinds of history entries, for lists of entries."""

from forewarn.store.records import AuditKind

_NOUNS = frozenset({"event", "host", "operation", "scope", "token", "visit", "vm"})
_ORDERED = "ordered"

_FAILURES = frozenset(
    {
        AuditKind.REQUEST_STOPPED,
        AuditKind.OPERATION_FAILED,
        AuditKind.DRIVER_FAILED,
        AuditKind.DRIVER_OUTCOME_UNKNOWN,
        AuditKind.VISIT_FAILED,
        AuditKind.VISIT_UNKNOWN,
        AuditKind.HOST_FAILED,
        AuditKind.VM_STOPPED,
        AuditKind.WEBHOOK_GAVE_UP,
        AuditKind.CAMPAIGN_HALTED,
    }
)


def _noun_and_rest(kind: AuditKind) -> tuple[str, str]:
    noun, *others = kind.value.split()
    if others[-1] == _ORDERED:
        return "order", kind.value
    return (noun, " ".join(others)) if noun in _NOUNS else ("", kind.value)


_PARTS = {kind: _noun_and_rest(kind) for kind in AuditKind}


def name_of(kind: AuditKind) -> str:
    """Return the name of a kind for programs, such as `event-approved`."""
    return kind.value.replace(" ", "-")


def object_of(kind: AuditKind) -> str:
    """Return the object of a kind, such as `event`; empty for rare objects."""
    return _PARTS[kind][0]


def short_text(kind: AuditKind) -> str:
    """Return the text of a kind for lists that name the object: `approved`."""
    return _PARTS[kind][1]


def is_failure(kind: AuditKind) -> bool:
    """Return whether something failed or stopped, or has an unknown outcome."""
    return kind in _FAILURES
