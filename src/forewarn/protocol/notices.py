"""Events as a client reads them, from whoever wrote them.

A `Notice` promises nothing beyond its id: words that no version knows are kept as
they came, and what is missing has a value that says so. `decoder` makes notices of
bytes; the service's own strict values are in `events`. Pure.
"""

from __future__ import annotations

from forewarn.instants import Micros
from forewarn.protocol.frozen import frozen_dataclass

SCHEDULED = "Scheduled"
STARTED = "Started"

DURATION_UNKNOWN = -1
"""Of an interruption of unknown length; never counts as short (clause 8.4)."""


@frozen_dataclass
class Notice:
    """One event of a document."""

    event_id: str
    """In upper case, as IDs are compared (clause 2.3)."""
    wire_id: str = ""
    """The same as it came; empty: it came in upper case."""
    event_type: str = ""
    """As written: one of the five, or what a later version may bring."""
    status: str = ""
    """As written; what is neither Scheduled nor Started is treated as Scheduled."""
    source: str = ""
    """`User` or `Platform`; empty: an old version, which does not tell."""
    resources: tuple[str, ...] = ()
    """Names as in `compute.name`, in the document's order (clause 2.5)."""
    resource_type: str = ""
    not_before: Micros | None = None
    """None: there is none any more, or it cannot be read (clause 2.7)."""
    duration_seconds: int = DURATION_UNKNOWN
    description: str = ""

    @property
    def id_on_wire(self) -> str:
        """Return the EventId as it came."""
        return self.wire_id or self.event_id

    @property
    def has_started(self) -> bool:
        """Tell whether its impact has begun, or is about to (clause 2.6)."""
        return self.status == STARTED


@frozen_dataclass
class Reading:
    """One document, as far as it could be read."""

    incarnation: int | None
    """None: there was none. It may rise by any step, and fall (clause 8.1)."""
    notices: tuple[Notice, ...]
    oddities: tuple[str, ...] = ()
    """What was not as it should be and did no harm, one sentence each."""
    is_partial: bool = False
    """It has an entry of which not even the EventId can be read: nobody knows which
    event that is, so the document does not say that any event is absent."""
    vague: frozenset[str] = frozenset()
    """The EventIds of events of which it is not known which VMs they name."""
    is_empty: bool = False
    """It was no document, but an empty body: there are no events, and no incarnation."""
