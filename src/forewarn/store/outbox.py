"""The outbox: what receivers of webhooks are still to be told.

A message is written in the transaction that changes the event, and deleted when
it was delivered or given up. So no change that was committed is without its
message, whenever the service is killed.
"""

import enum
from dataclasses import dataclass

from forewarn.instants import Micros
from forewarn.protocol.actors import Actor


class EventChange(enum.Enum):
    """What happened to an event."""

    SCHEDULED = "scheduled"
    CHANGED = "changed"
    """Something that its document shows is otherwise, such as its VMs."""
    APPROVED = "approved"
    STARTED = "started"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxMessage:
    """One change of one event, for one receiver."""

    message_id: str
    """Sorts in the order of the decisions: `sequence.key_of`."""
    receiver: str
    """The receiver's name in the settings."""
    at: Micros
    change: EventChange
    public_id: str
    """What receivers know the change by, the same each time that it is sent: a GUID
    in upper case, which tells nothing of others' changes, as a counter would."""
    body: str
    """The event as it became, as JSON."""
    approver: Actor | None = None
    """Who had approved the event; a receiver of a tenant is told of it redacted."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return the message's id."""
        return self.message_id
