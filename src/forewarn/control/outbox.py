"""Read the outbox, and delete messages that were delivered or dropped.

After a crash between a delivery and its deletion, the message is delivered again with the
same public ID.
"""

from collections.abc import Sequence
from dataclasses import replace

from forewarn.control.redaction.tenant_filter import aliases_of
from forewarn.control.transactions.event_json import told_to_tenant
from forewarn.control.transactions.work import Work
from forewarn.instants import cut_to_second
from forewarn.store import kinds
from forewarn.store.port import Reader
from forewarn.store.records import AuditKind, Facts, OutboxMessage


def waiting(
    reader: Reader, receiver: str, *, tenant: str, limit: int
) -> list[OutboxMessage]:
    """Return the next messages of a receiver, redacted for its tenant.

    The receiver of an operator has an empty tenant and gets the messages unchanged.
    """
    found = reader.select(kinds.OUTBOX_OF_RECEIVER, receiver, limit=limit)
    if not tenant or not found:
        return found
    aliases = aliases_of(reader, tenant)
    return [
        replace(
            each, at=cut_to_second(each.at), body=told_to_tenant(each.body, aliases)
        )
        for each in found
    ]


def forget(work: Work, messages: Sequence[OutboxMessage]) -> int:
    """Delete messages; return the number of deleted ones."""
    # Messages of a tenant were redacted when they were read, so they differ.
    there = [
        kept
        for message in messages
        if (kept := work.tx.get(OutboxMessage, message.message_id)) is not None
    ]
    for message in there:
        work.tx.remove(message)
    return len(there)


def give_up(
    work: Work,
    messages: Sequence[OutboxMessage],
    *,
    receiver: str,
    tenant: str,
    why: str,
) -> int:
    """Delete undeliverable messages, with one history entry for all."""
    count = forget(work, messages)
    if count:
        subjects = (f"webhook:{receiver}", *([f"tenant:{tenant}"] if tenant else []))
        work.note(AuditKind.WEBHOOK_GAVE_UP, subjects, Facts(count=count, cause=why))
    return count
