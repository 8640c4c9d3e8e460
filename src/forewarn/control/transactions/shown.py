"""What the endpoint serves: the events and the snapshot of a view, and a guest.

Pure, apart from the reader.
"""

from collections.abc import Iterable

from forewarn.control.transactions.messages import Guest, ViewSnapshot
from forewarn.fleet.model import Vm
from forewarn.protocol import views
from forewarn.protocol.events import Event
from forewarn.store import kinds
from forewarn.store.port import Reader, every


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
