"""Which view each VM is served: kept true when VMs come, go, move and change.

`fleet.views` says which view a VM belongs to; this module makes the rows follow.
A VM that comes from a view with a higher incarnation raises its new one, so that
no client ever sees a lower number within an epoch (clause 2.10).
"""

from dataclasses import replace

from forewarn.control.work import Work
from forewarn.fleet import views as fleet_views
from forewarn.fleet.model import Host, Scope, Vm
from forewarn.protocol import documents
from forewarn.protocol.lifecycle import ViewInput
from forewarn.protocol.views import View, step_view
from forewarn.store import kinds
from forewarn.store.port import every


def is_alone(view_id: str) -> bool:
    """Tell whether a view is for one VM only; names contain no slash (6.2)."""
    return "/" in view_id


def seat(work: Work, vm: Vm, scope: Scope, *, alone: bool) -> Vm:
    """Give the VM the view that it belongs to; return it as stored."""
    host = work.tx.get(Host, vm.host)
    assert host is not None, f"{vm.name} is on a host that is not stored"
    wanted = fleet_views.view_for(
        vm, scope=scope, zone=host.zone, single_fault_domain=alone
    )
    view = work.tx.get(View, wanted.view_id)
    if view is None:
        view = _new_view(work, wanted)
    if vm.view == view.view_id:
        return vm
    old = work.tx.get(View, vm.view) if vm.view else None
    if (
        old is not None
        and old.is_enabled
        and view.is_enabled
        and old.incarnation >= view.incarnation
    ):
        raised = work.tx.replace(view, replace(view, incarnation=old.incarnation + 1))
        work.tell_view(raised)
    return work.save_vm(vm, replace(vm, view=view.view_id))


def drop_empty_views(work: Work, scope: str) -> None:
    """Delete the scope's views that no VM is served any more."""
    used = {vm.view for vm in every(work.tx, kinds.VMS_OF_SCOPE, scope)}
    for view in list(every(work.tx, kinds.VIEWS_OF_SCOPE, scope)):
        if view.view_id not in used:
            work.forget_view(view)


def _new_view(work: Work, wanted: View) -> View:
    """Store a view; it is enabled if the views that it belongs to are (7.2)."""
    view = work.tx.add(wanted)
    together = any(
        other.is_enabled
        for other in every(work.tx, kinds.VIEWS_OF_ENABLING, view.enabling)
    )
    if together:
        return enable_view(work, view)
    work.tell_view(view)
    return view


def enable_view(work: Work, view: View) -> View:
    """Enable a view: a new epoch, and the events that are under way (7.1)."""
    stepped = step_view(
        view,
        ViewInput.ASKED,
        now=work.now,
        ready_at=work.now + work.policy.first_answer_delay,
        events_from=work.now + work.policy.first_events_delay,
    )
    enabled = work.tx.replace(view, replace(stepped, digest=documents.digest(())))
    work.tell_view(enabled)
    return work.render(enabled)
