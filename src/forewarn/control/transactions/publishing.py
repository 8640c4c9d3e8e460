"""Everything that the endpoint must serve, for the start of a service.

A large fleet has a view for every second VM and hardly any event, so live events
are read once, and not asked for view by view.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

from forewarn.control.transactions.messages import Publication, ViewSnapshot
from forewarn.control.transactions.shown import guest_of, shown_to, snapshot_of
from forewarn.fleet.model import VmState
from forewarn.protocol import documents
from forewarn.protocol.events import Event
from forewarn.protocol.views import View
from forewarn.store import kinds
from forewarn.store.port import PAGE_ROWS, Reader, every

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
            if _is_stale(view, events):
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


def _is_stale(view: View, events: Sequence[Event]) -> bool:
    """Tell whether the document of an enabled view renders otherwise than served."""
    if not view.is_enabled:
        return False
    return view.digest != (documents.digest(events) if events else _EMPTY)
