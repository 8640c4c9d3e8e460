"""Read the outbox, and delete messages that were delivered or dropped.

After a crash between a delivery and its deletion, the message is delivered again with the
same public ID.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

from forewarn.control.redaction.tenant_filter import aliases_of
from forewarn.control.transactions.event_json import told_to_tenant
from forewarn.control.transactions.work import Work
from forewarn.instants import cut_to_second
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditKind, Facts, OutboxMessage


def waiting(
    reader: Reader, receiver: str, *, tenant: str, limit: int
) -> list[OutboxMessage]:
    """Return the next messages of a receiver, redacted for its tenant.

    The receiver of an operator has an empty tenant and gets the messages unchanged. A
    tenant's receiver gets no message that is not its own.
    """
    messages = reader.select(kinds.OUTBOX_OF_RECEIVER, receiver, limit=limit)
    if not tenant or not messages:
        return messages
    messages = [message for message in messages if is_of(message, tenant)]
    aliases = aliases_of(reader, tenant)
    return [
        replace(
            message,
            at=cut_to_second(message.at),
            body=told_to_tenant(message.body, aliases),
        )
        for message in messages
    ]


def is_of(message: OutboxMessage, tenant: str) -> bool:
    """Return whether a tenant may get a message."""
    return message.notice is None and json.loads(message.body)["tenant"] == tenant


def foreign(reader: Reader, receiver: str, *, tenant: str) -> list[OutboxMessage]:
    """Return the messages of a receiver that its tenant may not get.

    There are some if the settings have given the receiver to the tenant since.
    """
    every_message = every(reader, kinds.OUTBOX_OF_RECEIVER, receiver)
    return [message for message in every_message if not is_of(message, tenant)]


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
