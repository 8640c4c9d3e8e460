"""Enabling and disabling: who listens (section 7).

The first valid GET of any VM enables its scope, or its zone of a zonal scale
set; a day without a request disables it. Sightings come from the endpoint now
and then, merged: only the enabling itself is written at once.
"""

from collections.abc import Mapping
from dataclasses import replace

from forewarn.control import seating
from forewarn.control.work import Work, need
from forewarn.instants import Micros
from forewarn.protocol.lifecycle import ViewInput
from forewarn.protocol.views import View, step_view
from forewarn.store import kinds
from forewarn.store.port import every


def enable(work: Work, vm: str) -> None:
    """Enable the views that belong together with this VM's (7.1, 7.2).

    Nothing happens if they are enabled already.
    """
    asked = need(work.tx, View, work.vm(vm).view)
    if asked.is_enabled:
        return
    work.secure([asked.scope])
    for view in list(every(work.tx, kinds.VIEWS_OF_ENABLING, asked.enabling)):
        if not view.is_enabled:
            seating.enable_view(work, view)
    work.note(
        "scope enabled",
        (f"scope:{asked.scope}", f"vm:{vm}"),
        f"{asked.enabling}, by the first request of vm {vm}",
    )


def note_sightings(work: Work, seen: Mapping[str, Micros]) -> None:
    """Take over when views were last asked for."""
    for view_id, instant in seen.items():
        view = work.tx.get(View, view_id)
        if view is not None and view.is_enabled and instant > view.last_seen:
            work.tx.replace(view, step_view(view, ViewInput.ASKED, now=instant))


def disable_if_silent(work: Work, enabling: str, *, silent_since: Micros) -> bool:
    """Disable views that belong together if none was asked since (7.3)."""
    views = list(every(work.tx, kinds.VIEWS_OF_ENABLING, enabling))
    last_seen = max((view.last_seen for view in views), default=0)
    if last_seen > silent_since:
        # One of them is alive: all are, and need not be looked at until later.
        for view in views:
            if view.is_enabled and view.last_seen < last_seen:
                work.tx.replace(view, replace(view, last_seen=last_seen))
        return False
    work.secure({view.scope for view in views})
    for view in views:
        if view.is_enabled:
            silent = step_view(view, ViewInput.SILENT, now=work.now)
            work.tell_view(work.tx.replace(view, silent))
    work.note(
        "scope disabled",
        [f"scope:{view.scope}" for view in views],
        f"{enabling}, after {len(views)} silent view(s)",
    )
    return True


def show_events(work: Work, view_id: str) -> None:
    """Render a view whose first-events delay is over (7.1)."""
    view = need(work.tx, View, view_id)
    work.render(work.tx.replace(view, replace(view, due_at=0)))
