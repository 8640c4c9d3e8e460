"""Sentences for people, rendered from stored values; no code reads them back."""

from forewarn.store.audit import AuditEntry, AuditKind, VmMove

JOINT = "; "
"""Stands between two reasons in one line."""


def detail_of(entry: AuditEntry) -> str:
    """Return what an audit entry says beyond its kind; may be empty."""
    facts = entry.facts
    if facts.text:
        return facts.text
    if facts.by is not None:
        return f"by {facts.by.as_approver}"
    if facts.outcome is not None:
        return facts.outcome.value
    if facts.blockers:
        return JOINT.join(blocker.sentence() for blocker in facts.blockers)
    if facts.moves:
        if len(facts.moves) == 1:
            return moved(facts.moves[0])
        return JOINT.join(f"vm {move.vm} {moved(move)}" for move in facts.moves)
    return _of_kind(entry)


def moved(move: VmMove) -> str:
    """Return where a VM went: `from h1 to h2`."""
    return f"from {move.from_host} to {move.to_host}"


def _of_kind(entry: AuditEntry) -> str:
    facts = entry.facts
    match entry.kind:
        case AuditKind.SCOPE_ENABLED if facts.enabling:
            return f"{facts.enabling}, by the first request of vm {facts.vm}"
        case AuditKind.SCOPE_DISABLED if facts.enabling:
            return f"{facts.enabling}, after {facts.count} silent view(s)"
        case AuditKind.EVENT_SHRUNK if facts.vm:
            return f"vm {facts.vm} is no longer concerned"
        case AuditKind.OPERATION_RESOLVED:
            return f"the operator says {'done' if facts.is_done else 'failed'}"
        case AuditKind.WEBHOOK_GAVE_UP if facts.count:
            what = "change was" if facts.count == 1 else "changes were"
            return f"{facts.count} {what} not told: {facts.cause}"
        case _:
            return ""
