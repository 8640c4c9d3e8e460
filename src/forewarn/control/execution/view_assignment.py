"""Assign each VM to its view, and update the assignment when the fleet changes.

`fleet.views` computes the view of a VM; this module updates the rows. A view inherits
from the earlier views of its VMs: whether Scheduled Events are enabled, and an
incarnation. Its epoch is above every earlier one, also of a deleted view with its ID. The incarnation is such that no client sees a lower number, or another
content with the same number (clause 2.10). A VM remembers the views that it has left, so
that it can still approve the events that it saw there (3.2).
"""

from collections.abc import Collection
from dataclasses import replace

from forewarn.control.transactions.named import need
from forewarn.control.transactions.work import Work
from forewarn.fleet import views as fleet_views
from forewarn.fleet.model import Host, Scope, Vm
from forewarn.protocol import documents
from forewarn.protocol.frozen import changed
from forewarn.protocol.lifecycle import ViewInput
from forewarn.protocol.views import (
    END_OF_TIME,
    View,
    end_delays,
    step_view,
    with_marks,
)
from forewarn.store import kinds
from forewarn.store.port import every, fetch, fetch_answers

LEFT_VIEWS_MAX = 8
"""Maximum views that a VM remembers. Its view changes when the fleet file changes; an
approval comes within the length of a notice."""


def is_alone(view_id: str) -> bool:
    """Return whether a view is for one VM only; names contain no slash (6.2)."""
    return "/" in view_id


def fetch_views(work: Work, view_ids: Collection[str]) -> None:
    """Read together what `assign_view` asks for about these views."""
    fetch(work.tx, View, view_ids)
    enablings = {view_id.partition("/")[0] for view_id in view_ids}
    fetch_answers(work.tx, kinds.VIEWS_OF_ENABLING, enablings)


def view_of(work: Work, vm: Vm, scope: Scope, *, alone: bool) -> str:
    """Return the ID of the view that a VM needs; store the view if it is missing."""
    host = work.tx.get(Host, vm.host)
    assert host is not None, f"{vm.name} is on a host that is not stored"
    view_id = fleet_views.view_id(
        vm.name, scope=scope, zone=host.zone, single_fault_domain=alone
    )
    if work.tx.get(View, view_id) is None:
        wanted = fleet_views.view_for(
            vm, scope=scope, zone=host.zone, single_fault_domain=alone
        )
        _new_view(work, wanted)
    return view_id


def assign_view(work: Work, vm: Vm, scope: Scope, *, alone: bool) -> Vm:
    """Assign the VM to its view; return the stored VM."""
    view = need(work.tx, View, view_of(work, vm, scope, alone=alone))
    if vm.view == view.view_id:
        return vm
    old = work.tx.get(View, vm.view) if vm.view else None
    left = vm.left_views
    if old is not None:
        _inherit(work, view, old)
        if old.was_enabled:
            left = with_marks(left, [old])[-LEFT_VIEWS_MAX:]
    return work.save_vm(vm, changed(vm, view=view.view_id, left_views=left))


def _inherit(work: Work, view: View, old: View) -> None:
    """Prepare a view for a VM that comes from another view.

    If the old view was enabled, the new one is enabled (7.2). Its incarnation is raised
    so that the VM never sees a lower one, or the same one with different content (2.10).
    """
    if not old.is_enabled:
        return
    if not view.is_enabled:
        for other in list(every(work.tx, kinds.VIEWS_OF_ENABLING, view.enabling)):
            if not other.is_enabled:
                enable_view(work, other, like=old)
    elif old.shows_events and not view.shows_events:
        # A delay must not hide events that the VM has seen.
        view = work.tx.replace(view, end_delays(view, until=END_OF_TIME))
        work.publish_view(view)
        work.render(view)
    view = need(work.tx, View, view.view_id)
    least = old.incarnation + (old.digest != view.digest)
    if view.incarnation < least:
        raised = work.tx.replace(view, replace(view, incarnation=least))
        work.publish_view(raised)


def drop_empty_views(work: Work, scope: str) -> None:
    """Delete the views of the scope that have no VM."""
    used = {vm.view for vm in every(work.tx, kinds.VMS_OF_SCOPE, scope)}
    for view in list(every(work.tx, kinds.VIEWS_OF_SCOPE, scope)):
        if view.view_id not in used:
            work.forget_view(view)


def _new_view(work: Work, wanted: View) -> View:
    """Store a view; enable it if the views of its enabling key are enabled (7.2)."""
    # Asked before the view is stored: so no view is sent to the store for each question.
    are_enabled = any(
        other.is_enabled
        for other in every(work.tx, kinds.VIEWS_OF_ENABLING, wanted.enabling)
    )
    view = work.tx.add(changed(wanted, epoch=work.next_epoch()))
    if are_enabled:
        return enable_view(work, view)
    work.publish_view(view)
    return view


def enable_view(work: Work, view: View, *, like: View | None = None) -> View:
    """Enable a view: start a new epoch with the current events (7.1).

    `like` is the previous view of a VM. Its delays and the time of its last request are
    kept.
    """
    stepped = step_view(
        view,
        ViewInput.ASKED,
        now=work.now,
        epoch=work.next_epoch(),
        ready_at=like.ready_at if like else work.now + work.policy.first_answer_delay,
        events_from=(
            like.events_from if like else work.now + work.policy.first_events_delay
        ),
    )
    if like is not None:
        stepped = replace(stepped, last_seen=like.last_seen)
    enabled = work.tx.replace(view, replace(stepped, digest=documents.digest(())))
    work.publish_view(enabled)
    return work.render(enabled)
