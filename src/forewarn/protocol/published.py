"""What the metadata endpoint serves: views and VMs as values, and their changes.

A change replaces views and VMs by their names. Readers converge by (view, epoch,
incarnation): a repeated or late message never makes a document older. Pure.
"""

from __future__ import annotations

from forewarn.instants import Micros
from forewarn.protocol.events import Event
from forewarn.protocol.frozen import frozen_dataclass


@frozen_dataclass
class ViewSnapshot:
    """A committed view."""

    view_id: str
    enabling: str
    enabled: bool
    epoch: int
    incarnation: int
    ready_at: Micros
    """Model time before which no document of this epoch may be returned (7.1)."""
    events: tuple[Event, ...]
    """Events of the view's document, in order; empty while the view is disabled."""


@frozen_dataclass
class Guest:
    """A VM for the endpoint: its identity and its view."""

    vm: str
    view_id: str
    vm_id: str
    addresses: tuple[str, ...]
    listen: str


@frozen_dataclass
class Publication:
    """Changes for the endpoint from one transaction or from the start."""

    views: tuple[ViewSnapshot, ...] = ()
    views_gone: tuple[str, ...] = ()
    guests: tuple[Guest, ...] = ()
    guests_gone: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether the publication has any change."""
        return bool(self.views or self.views_gone or self.guests or self.guests_gone)
