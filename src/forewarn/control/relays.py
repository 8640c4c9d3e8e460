"""Relays: which VMs the relay of a host serves, and its requests on their behalf.

A relay serves the VMs on its host and those on their way to it. Its requests for other
VMs have no effect, so a stolen token of a relay is a matter of one host.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
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
from forewarn.store.port import Reader, columns_of, every

UNKNOWN_VM = "this VM is not known"
"""The refusal for a VM of another host: the same as for one that does not exist."""

_OF_VIEW = (
    *("view_id", "scope", "vm", "state", "epoch", "incarnation"),
    *("ready_at", "events_from"),
)
"""The fields of a view that its text depends on."""

_OF_SCOPE = ("name", "tenant", "kind", "scale_set")
"""The fields of a scope that the texts of its VMs depend on, and its tenant."""


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


class Texts:
    """The texts of views and VMs, for all relays of one snapshot of the store.

    The records that they need are read together, and each of them once.
    """

    def __init__(self, reader: Reader) -> None:
        """Read from `reader`."""
        self._reader = reader
        self._views: dict[str, str | None] = {}
        self._scopes: dict[str, Scope] = {}
        self._hosts: dict[str, Host] = {}

    def view(self, view_id: str) -> str | None:
        """Return a view as JSON; None: it does not exist."""
        self._read_views({view_id})
        return self._views[view_id]

    def views(self, vms: Iterable[Vm]) -> dict[str, str]:
        """Return the views of VMs as JSON, by their IDs."""
        wanted = dict.fromkeys(vm.view for vm in vms)
        self._read_views(wanted.keys())
        texts = {view: self._views[view] for view in wanted}
        return {view: text for view, text in texts.items() if text is not None}

    def guests(self, vms: Collection[Vm]) -> dict[str, str]:
        """Return VMs as JSON, by their names."""
        self._read_scopes({vm.scope for vm in vms})
        return {vm.name: self._guest(vm) for vm in vms}

    def _guest(self, vm: Vm) -> str:
        if vm.host not in self._hosts:
            self._hosts[vm.host] = need(self._reader, Host, vm.host)
        facts = InstanceFacts(
            vm=vm, scope=self._scopes[vm.scope], host=self._hosts[vm.host]
        )
        return relayed.guest_text(guest_of(vm), instance_json.members_of(facts))

    def _read_views(self, wanted: AbstractSet[str]) -> None:
        missing = wanted - self._views.keys()
        self._views |= dict.fromkeys(missing)
        for page in columns_of(self._reader, View, _OF_VIEW, missing):
            for values in zip(*page, strict=True):
                view = View(enabling="", **dict(zip(_OF_VIEW, values, strict=True)))
                self._views[view.view_id] = relayed.view_text(
                    snapshot_of(view, events_for(self._reader, view))
                )

    def _read_scopes(self, wanted: AbstractSet[str]) -> None:
        missing = wanted - self._scopes.keys()
        for page in columns_of(self._reader, Scope, _OF_SCOPE, missing):
            for values in zip(*page, strict=True):
                scope = Scope(**dict(zip(_OF_SCOPE, values, strict=True)))
                self._scopes[scope.name] = scope


def is_served(vm: Vm | None, host: str) -> bool:
    """Return whether the relay of the host serves a VM."""
    return host in taken_by(vm)


def served(reader: Reader, host: str, texts: Texts) -> Served:
    """Return what the relay of the host serves now."""
    by_name = {vm.name: vm for vm in every(reader, kinds.VMS_ON_HOST, host)}
    by_name |= {vm.name: vm for vm in every(reader, kinds.VMS_MOVING_TO, host)}
    vms = [vm for vm in by_name.values() if is_served(vm, host)]
    return Served(
        guests=texts.guests(vms),
        views=texts.views(vms),
        view_of={vm.name: vm.view for vm in vms},
        tokens={
            token.token_id: token.expires_at
            for token in every(reader, kinds.TOKENS_OF_RELAY, host)
        },
    )


def approve(
    work: Work, host: str, asked: Sequence[approvals.Approval]
) -> tuple[str | None, ...]:
    """Approve for the VMs of a host: for each None, or the reason of the refusal (3.3)."""
    ours = [
        approval for approval in asked if is_served(work.tx.get(Vm, approval.vm), host)
    ]
    verdicts = dict(zip(ours, approvals.approve_together(work, ours), strict=True))
    return tuple(verdicts.get(approval, UNKNOWN_VM) for approval in asked)


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
    last_seen: dict[str, Micros] = {}
    for name, age in ages.items():
        vm = work.tx.get(Vm, name)
        if vm is not None and is_served(vm, host):
            view = need(work.tx, View, vm.view).view_id
            last_seen[view] = max(last_seen.get(view, 0), work.now - max(0, age))
    enabling.note_last_seen(work, last_seen)
