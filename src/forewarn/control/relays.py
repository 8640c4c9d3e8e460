"""Relays: which VMs the relay of a host serves, and its requests on their behalf.

A relay serves the VMs on its host and those on their way to it. Its requests for other
VMs have no effect, so a stolen token of a relay is a matter of one host.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forewarn.control.requests import approvals, enabling
from forewarn.control.transactions.named import need
from forewarn.control.transactions.publishing import events_for, guest_of, snapshot_of
from forewarn.control.transactions.work import Who, Work
from forewarn.fleet import instance_json
from forewarn.fleet.instance import InstanceFacts
from forewarn.fleet.model import Host, Scope, Vm, taken_by
from forewarn.instants import Micros
from forewarn.protocol import relayed
from forewarn.protocol.actors import vm_actor
from forewarn.protocol.views import View
from forewarn.store import kinds
from forewarn.store.port import Reader, every

UNKNOWN_VM = "this VM is not known"
"""The refusal for a VM of another host: the same as for one that does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The VMs of a relay, as texts."""

    guests: Mapping[str, str]
    """Each VM as JSON, by its name."""
    views: Mapping[str, str]
    """Each view as JSON, by its ID."""
    view_of: Mapping[str, str]
    """The view of each VM."""
    tokens: Mapping[str, Micros]
    """The end of each token of the relay; 0: it does not expire."""


class Views:
    """The texts of views, read once for all relays of one snapshot of the store."""

    def __init__(self, reader: Reader) -> None:
        """Read from `reader`."""
        self._reader = reader
        self._texts: dict[str, str | None] = {}

    def text(self, view_id: str) -> str | None:
        """Return a view as JSON; None: it does not exist."""
        if view_id not in self._texts:
            view = self._reader.get(View, view_id)
            self._texts[view_id] = (
                None
                if view is None
                else relayed.view_text(
                    snapshot_of(view, events_for(self._reader, view))
                )
            )
        return self._texts[view_id]


def is_served(vm: Vm | None, host: str) -> bool:
    """Return whether the relay of the host serves a VM."""
    return host in taken_by(vm)


def served(reader: Reader, host: str, views: Views) -> Served:
    """Return what the relay of the host serves now."""
    vms = {vm.name: vm for vm in every(reader, kinds.VMS_ON_HOST, host)}
    vms |= {vm.name: vm for vm in every(reader, kinds.VMS_MOVING_TO, host)}
    vms = {name: vm for name, vm in vms.items() if is_served(vm, host)}
    texts = {vm.view: views.text(vm.view) for vm in vms.values()}
    return Served(
        guests={name: _guest_text(reader, vm) for name, vm in vms.items()},
        views={view: text for view, text in texts.items() if text is not None},
        view_of={name: vm.view for name, vm in vms.items()},
        tokens={
            token.token_id: token.expires_at
            for token in every(reader, kinds.TOKENS_OF_RELAY, host)
        },
    )


def _guest_text(reader: Reader, vm: Vm) -> str:
    facts = InstanceFacts(
        vm=vm, scope=need(reader, Scope, vm.scope), host=need(reader, Host, vm.host)
    )
    return relayed.guest_text(guest_of(vm), instance_json.members_of(facts))


def approve(
    work: Work, host: str, asked: Sequence[approvals.Approval]
) -> tuple[str | None, ...]:
    """Approve for the VMs of a host: for each None, or the reason of the refusal (3.3)."""
    ours = [each for each in asked if is_served(work.tx.get(Vm, each.vm), host)]
    verdicts = dict(zip(ours, approvals.approve_together(work, ours), strict=True))
    return tuple(verdicts.get(each, UNKNOWN_VM) for each in asked)


def enable(work: Work, host: str, vm: str) -> bool:
    """Enable the view of a VM of the host (7.1); return whether the host has the VM."""
    if not is_served(work.tx.get(Vm, vm), host):
        return False
    speaker = work.who
    work.who = Who(actor=vm_actor(vm))
    enabling.enable(work, vm)
    work.who = speaker
    return True


def note_last_seen(work: Work, host: str, ages: Mapping[str, Micros]) -> None:
    """Store how long ago VMs of the host have requested their documents.

    A relay reports ages, so that its clock does not matter.
    """
    seen: dict[str, Micros] = {}
    for name, age in ages.items():
        vm = work.tx.get(Vm, name)
        if vm is not None and is_served(vm, host):
            view = need(work.tx, View, vm.view).view_id
            seen[view] = max(seen.get(view, 0), work.now - max(0, age))
    enabling.note_last_seen(work, seen)
