"""The outbox: messages that the receivers of webhooks have not got yet.

A message is stored in the transaction that changes the event, and deleted when it was
delivered or dropped. Every committed change therefore has its message, even if the
service is killed.
"""

import enum
from dataclasses import dataclass

from forewarn.instants import Micros
from forewarn.protocol.actors import Actor


class EventChange(enum.Enum):
    """The change of an event."""

    SCHEDULED = "scheduled"
    CHANGED = "changed"
    """A visible property of the event has changed, such as its VMs."""
    APPROVED = "approved"
    STARTED = "started"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxMessage:
    """One change of one event, for one receiver."""

    message_id: str
    """The ID, which sorts in the order of the decisions: `sequence.key_of`."""
    receiver: str
    """The receiver's name in the settings."""
    at: Micros
    change: EventChange
    public_id: str
    """The public ID of the change, the same at each delivery: a GUID in upper case.
    Unlike a counter, it reveals nothing about other tenants' changes."""
    body: str
    """The event after the change, as JSON."""
    approver: Actor | None = None
    """The approver of the event; a tenant's receiver gets it redacted."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return the message's id."""
        return self.message_id
