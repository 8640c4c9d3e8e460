"""What the metadata endpoint serves: views and guests as values, and their publication.

The endpoint holds prepared answers and never reads the store; control commits
and tells it what changed. The messages are values, so that the endpoint could
be a process of its own. Readers converge by (view, epoch, incarnation): a
message may come twice or late, and never makes a document older.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from forewarn.fleet.model import Vm, VmState
from forewarn.instants import Micros
from forewarn.protocol import documents, views
from forewarn.protocol.events import Event
from forewarn.store import kinds
from forewarn.store.port import PAGE_ROWS, Reader, every


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


def events_for(reader: Reader, view: views.View) -> tuple[Event, ...]:
    """Return what the view's document shows, oldest first (clause 2.1)."""
    if not view.shows_events:
        return ()
    live = every(reader, kinds.LIVE_EVENTS_OF_SCOPE, view.scope)
    return shown_to(view, live)


def shown_to(view: views.View, live: Iterable[Event]) -> tuple[Event, ...]:
    """Return which of its scope's live events the view's document shows, in order.

    Nothing before the first-events delay of an enabling is over (7.1). The clock is
    no argument: equal rows have equal documents, before and after a restart (2.10).
    """
    if not view.shows_events:
        return ()
    shown = (event for event in live if views.sees(view, event))
    return tuple(sorted(shown, key=lambda event: event.place))


def snapshot_of(view: views.View, events: tuple[Event, ...]) -> ViewSnapshot:
    """Return the view as the endpoint must serve it, with what it shows."""
    return ViewSnapshot(
        view_id=view.view_id,
        enabling=view.enabling,
        enabled=view.is_enabled,
        epoch=view.epoch,
        incarnation=view.incarnation,
        ready_at=view.ready_at,
        events=events,
    )


def guest_of(vm: Vm) -> Guest:
    """Return the VM as the endpoint knows it."""
    return Guest(
        vm=vm.name,
        view_id=vm.view,
        vm_id=vm.vm_id,
        addresses=vm.addresses,
        listen=vm.listen,
    )


_EMPTY = documents.digest(())


def publish_all(reader: Reader, publish: Callable[[Publication], None]) -> list[str]:
    """Publish all views and guests, a page at a time.

    Returns the views that were left out, because their document renders otherwise
    than it was served: they must raise their incarnation first.
    """
    live: defaultdict[str, list[Event]] = defaultdict(list)
    for event in every(reader, kinds.LIVE_EVENTS):
        live[event.scope].append(event)
    stale: list[str] = []
    after = ""
    while page := reader.select(kinds.ALL_VIEWS, after=after, limit=PAGE_ROWS):
        after = page[-1].key
        snapshots: list[ViewSnapshot] = []
        for view in page:
            events = shown_to(view, live.get(view.scope, ()))
            digest = documents.digest(events) if events else _EMPTY
            if view.is_enabled and view.digest != digest:
                stale.append(view.view_id)
            else:
                snapshots.append(snapshot_of(view, events))
        publish(Publication(views=tuple(snapshots)))
    after = ""
    while vms := reader.select(kinds.ALL_VMS, after=after, limit=PAGE_ROWS):
        after = vms[-1].key
        publish(
            Publication(
                guests=tuple(
                    guest_of(vm) for vm in vms if vm.state is not VmState.DELETED
                )
            )
        )
    return stale
