"""Publication: the views and VMs that the metadata endpoint serves, read from the store.

The endpoint holds prepared responses and never reads the store. After each commit,
control sends it the changes. The messages are values (`protocol.published`), so that the
endpoint can be a separate process, as in a relay.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from operator import attrgetter

from forewarn.fleet.model import Vm, VmState
from forewarn.protocol import documents, views
from forewarn.protocol.events import Event
from forewarn.protocol.frozen import maker_of
from forewarn.protocol.published import Guest, Publication, ViewSnapshot
from forewarn.store import kinds
from forewarn.store.port import PAGE_ROWS, Reader, every


def events_for(reader: Reader, view: views.View) -> tuple[Event, ...]:
    """Return the events of the document of a view, oldest first (clause 2.1)."""
    if not view.shows_events:
        return ()
    return shown_to(view, every(reader, kinds.LIVE_EVENTS_OF_SCOPE, view.scope))


def shown_to(view: views.View, live: Iterable[Event]) -> tuple[Event, ...]:
    """Return the live events of the scope that the document of a view shows, in order.

    There are none before the first-events delay has ended (7.1). The clock is not an
    argument: equal rows give equal documents, before and after a restart (2.10).
    """
    if not view.shows_events:
        return ()
    shown = (event for event in live if views.sees(view, event))
    return tuple(sorted(shown, key=lambda event: event.place))


def snapshot_of(view: views.View, events: tuple[Event, ...]) -> ViewSnapshot:
    """Return the view with its events, for the endpoint."""
    return _make_snapshot((*_of_view(view), events))


_of_view = attrgetter(
    "view_id", "enabling", "is_enabled", "epoch", "incarnation", "ready_at"
)
_make_snapshot = maker_of(
    ViewSnapshot,
    ("view_id", "enabling", "enabled", "epoch", "incarnation", "ready_at", "events"),
)

_of_guest = attrgetter("name", "view", "vm_id", "addresses", "listen")
_make_guest = maker_of(Guest, ("vm", "view_id", "vm_id", "addresses", "listen"))


def is_same_guest(old: Vm, new: Vm) -> bool:
    """Return whether `guest_of` returns the same for both."""
    return _of_guest(old) == _of_guest(new)


def guest_of(vm: Vm) -> Guest:
    """Return the VM for the endpoint."""
    return _make_guest(_of_guest(vm))


_EMPTY = documents.digest(())


def publish_all(reader: Reader, publish: Callable[[Publication], None]) -> list[str]:
    """Publish all views and VMs, page by page.

    A large fleet has a view for every second VM but few events, so live events are read
    once for all views. Return the views that were left out because their document now
    renders differently: they must raise their incarnation first.
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
