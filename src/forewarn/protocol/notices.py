"""Events as a client reads them, from whoever wrote them.

A `Notice` promises nothing beyond its id: words that no version knows are kept as
they came, and what is missing has a value that says so. `decoder` makes notices of
bytes; the service's own strict values are in `events`. Pure.
"""

from dataclasses import dataclass

from forewarn.instants import Micros

SCHEDULED = "Scheduled"
STARTED = "Started"

DURATION_UNKNOWN = -1
"""Of an interruption of unknown length; never counts as short (clause 8.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One event of a document."""

    event_id: str
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
    def has_started(self) -> bool:
        """Tell whether its impact has begun, or is about to (clause 2.6)."""
        return self.status == STARTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One document, as far as it could be read."""

    incarnation: int | None
    """None: there was none. It may rise by any step, and fall (clause 8.1)."""
    notices: tuple[Notice, ...]
    oddities: tuple[str, ...] = ()
    """What was not as it should be and did no harm, one sentence each."""
    spelled: tuple[tuple[str, str], ...] = ()
    """Ids that did not come in upper case: as notices have them, and as they came."""
