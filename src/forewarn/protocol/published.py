"""The values that the metadata endpoint serves: views, VMs, and their changes.

A change replaces views and VMs by their names. Readers converge by (view, epoch,
incarnation): a repeated or late message never makes a document older. Pure.
"""

from __future__ import annotations

from forewarn.instants import Micros
from forewarn.protocol.events import Event
from forewarn.protocol.frozen import frozen_dataclass


def rank(
    *, epoch: int, is_enabled: bool, incarnation: int, ready_at: Micros
) -> tuple[int, bool, int, Micros]:
    """Return the place of a snapshot among those of its view: a newer one is greater.

    A higher epoch is always newer. Within an epoch, the incarnation only rises, the
    delay of the first response may end early and is never extended, and disabling is
    the last change.
    """
    if not is_enabled:
        return epoch, True, 0, 0
    return epoch, False, incarnation, -ready_at


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

    @property
    def rank(self) -> tuple[int, bool, int, Micros]:
        """Return its place among the snapshots of its view."""
        return rank(
            epoch=self.epoch,
            is_enabled=self.enabled,
            incarnation=self.incarnation,
            ready_at=self.ready_at,
        )


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
