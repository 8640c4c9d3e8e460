"""Events as a client reads them from any server.

A `Notice` guarantees only its ID. Unknown words are kept as received, and missing
members have a value that says so. `decoder` creates notices from bytes; `events` has
the strict values of the service. Pure.
"""

from __future__ import annotations

from forewarn.instants import Micros
from forewarn.protocol.frozen import frozen_dataclass

SCHEDULED = "Scheduled"
STARTED = "Started"

DURATION_UNKNOWN = -1
"""Duration of an interruption of unknown length; it never counts as short (8.4)."""


@frozen_dataclass
class Notice:
    """One event of a document."""

    event_id: str
    """The EventId in upper case, for comparisons (clause 2.3)."""
    wire_id: str = ""
    """The ID as received; empty: it was in upper case."""
    event_type: str = ""
    """The type as received: one of the five types, or a type of a later version."""
    status: str = ""
    """The status as received. Any status except Scheduled and Started is treated as
    Scheduled."""
    source: str = ""
    """`User` or `Platform`; empty: an old api-version, which does not include it."""
    resources: tuple[str, ...] = ()
    """Names as in `compute.name`, in the document's order (clause 2.5)."""
    resource_type: str = ""
    not_before: Micros | None = None
    """None: it is missing, empty after the start, or unreadable (clause 2.7)."""
    duration_seconds: int = DURATION_UNKNOWN
    description: str = ""

    @property
    def id_on_wire(self) -> str:
        """Return the EventId as received."""
        return self.wire_id or self.event_id

    @property
    def has_started(self) -> bool:
        """Return whether the impact has started or is about to start (clause 2.6)."""
        return self.status == STARTED


@frozen_dataclass
class Reading:
    """A decoded document."""

    incarnation: int | None = None
    """None: it was missing. It can rise by any step, and fall (clause 8.1)."""
    notices: tuple[Notice, ...]
    warnings: tuple[str, ...] = ()
    """Deviations that caused no harm, one message each."""
    is_partial: bool = False
    """Whether an entry has no readable EventId. The entry can be any event, so the
    document does not prove that an event is absent."""
    vague: frozenset[str] = frozenset()
    """EventIds of events whose VM names cannot be read."""
    is_empty: bool = False
    """Whether the body was empty: no events and no incarnation."""
