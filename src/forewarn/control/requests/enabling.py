"""Enable and disable Scheduled Events for views (section 7).

The first valid GET of any VM enables its scope, or its zone of a zonal scale set. A day
without a request disables it. The endpoint reports last-seen times occasionally, merged;
only the enabling is stored at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from forewarn.control.execution import view_assignment
from forewarn.control.transactions.named import need
from forewarn.control.transactions.work import Work
from forewarn.instants import Micros
from forewarn.protocol.lifecycle import ViewInput
from forewarn.protocol.views import END_OF_TIME, View, step_view
from forewarn.protocol.views import end_delays as end_delays_of
from forewarn.store import kinds
from forewarn.store.port import PAGE_ROWS, every
from forewarn.store.records import AuditKind, Facts


def enable(work: Work, vm: str) -> None:
    """Enable the view of this VM and the views of the same enabling key (7.1, 7.2).

    If the view of this VM is already enabled, nothing happens.
    """
    wanted = need(work.tx, View, work.vm(vm).view)
    if wanted.is_enabled:
        return
    work.lock_scopes([wanted.scope])
    for view in list(every(work.tx, kinds.VIEWS_OF_ENABLING, wanted.enabling)):
        if not view.is_enabled:
            view_assignment.enable_view(work, view)
    work.note(
        AuditKind.SCOPE_ENABLED,
        (f"scope:{wanted.scope}", f"vm:{vm}"),
        Facts(enabling=wanted.enabling, vm=vm),
    )


def note_last_seen(work: Work, seen: Mapping[str, Micros]) -> None:
    """Store when views were last requested."""
    for view_id, instant in seen.items():
        view = work.tx.get(View, view_id)
        if view is None or not view.is_enabled:
            continue
        if view.last_seen > work.now:
            # The clock was set back: the stored time is in the future.
            view = work.tx.replace(view, replace(view, last_seen=instant))
        if instant > view.last_seen:
            work.tx.replace(view, step_view(view, ViewInput.ASKED, now=instant))


def disable_if_silent(work: Work, enabling: str, *, silent_since: Micros) -> bool:
    """Disable the views of an enabling key if none was requested since (7.3)."""
    views = list(every(work.tx, kinds.VIEWS_OF_ENABLING, enabling))
    last_seen = max((view.last_seen for view in views), default=0)
    if last_seen > silent_since:
        # One of them is in use, so all stay enabled and are checked again later.
        for view in views:
            if view.is_enabled and view.last_seen < last_seen:
                work.tx.replace(view, replace(view, last_seen=last_seen))
        return False
    work.lock_scopes({view.scope for view in views})
    for view in views:
        if view.is_enabled:
            work.publish_view(
                work.tx.replace(view, step_view(view, ViewInput.SILENT, now=work.now))
            )
    work.note(
        AuditKind.SCOPE_DISABLED,
        [f"scope:{view.scope}" for view in views],
        Facts(enabling=enabling, count=len(views)),
    )
    return True


def end_all_of(work: Work, view_ids: Sequence[str], *, until: Micros) -> None:
    """End the delays after enabling of these views (7.1)."""
    for view_id in view_ids:
        end_delays(work, view_id, until=until)


def end_delays(work: Work, view_id: str, *, until: Micros) -> None:
    """End the delays of a view up to `until`, and render its document (7.1).

    The document is published even if it is unchanged: requests that wait for the first
    answer can get it now.
    """
    view = need(work.tx, View, view_id)
    ended = end_delays_of(view, until=until)
    if ended != view:
        view = work.tx.replace(view, ended)
        work.publish_view(view)
    work.render(view)


def end_all_delays(work: Work) -> int:
    """End the delays of a page of views; return the number of these views.

    A delay is a duration, but the store has the time of its end. After a clock step, or
    if the service was down, the service cannot tell how much of a delay has passed.
    Clause 7.1 sets only a maximum, so the service ends every delay at once.
    """
    late = work.tx.due(kinds.VIEWS_DUE, END_OF_TIME, limit=PAGE_ROWS)
    for view in late:
        end_delays(work, view.view_id, until=END_OF_TIME)
    return len(late)
