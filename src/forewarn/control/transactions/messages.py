"""What the control plane and the metadata endpoint say to each other.

The endpoint holds prepared answers and never reads the store; control commits
and tells it what changed. These messages are values, so that the endpoint could
be a process of its own. Readers converge by (view, epoch, incarnation): a
message may come twice or late, and never makes a document older.
"""

from dataclasses import dataclass

from forewarn.instants import Micros
from forewarn.protocol.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSnapshot:
    """A view as it was committed."""

    view_id: str
    enabling: str
    enabled: bool
    epoch: int
    incarnation: int
    ready_at: Micros
    """Model time before which no document of this epoch may be answered (7.1)."""
    events: tuple[Event, ...]
    """What its document shows, in order; empty while disabled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """A VM as the endpoint knows it: who it is and which view it is served."""

    vm: str
    view_id: str
    vm_id: str
    addresses: tuple[str, ...]
    listen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What one transaction, or the first load, changed for the endpoint."""

    views: tuple[ViewSnapshot, ...] = ()
    views_gone: tuple[str, ...] = ()
    guests: tuple[Guest, ...] = ()
    guests_gone: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Tell whether it says anything."""
        return bool(self.views or self.views_gone or self.guests or self.guests_gone)
