"""Relays: which VMs the relay of a host serves, and its requests on their behalf.

A relay serves the VMs on its host and those on their way to it. Its requests for other
VMs have no effect, so a stolen token of a relay is a matter of one host.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from forewarn.control.requests import approvals, enabling
from forewarn.control.transactions.named import need
from forewarn.control.transactions.publishing import shown_to, snapshot_of
from forewarn.control.transactions.work import Who, Work
from forewarn.fleet import instance_json
from forewarn.fleet.model import Host, Scope, ScopeKind, Vm, VmState, taken_by
from forewarn.instants import Micros
from forewarn.protocol import relayed
from forewarn.protocol.actors import vm_actor
from forewarn.protocol.events import Event
from forewarn.protocol.lifecycle import ViewState
from forewarn.protocol.views import View
from forewarn.store import kinds
from forewarn.store.port import Reader, columns, columns_of, every, those_found

UNKNOWN_VM = "this VM is not known"
"""The refusal for a VM of another host: the same as for one that does not exist."""

_OF_VIEW = (
    *("view_id", "scope", "vm", "state", "epoch", "incarnation"),
    *("ready_at", "events_from"),
)
"""The fields of a view that its text depends on."""

_OF_SCOPE = ("name", "kind", "scale_set")
"""The fields of a scope that the texts of its VMs depend on."""

_OF_VM = (
    *("name", "state", "host", "scope", "view", "vm_id", "addresses"),
    *instance_json.OF_VM,
)
"""The fields of a VM that its text depends on, and its state and places."""

_values_of = attrgetter(*_OF_VM)


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

    Only the fields that relays need are read, those of many records together, and each of
    them once. After a restart of the service, all hosts are read.
    """

    def __init__(self, reader: Reader) -> None:
        """Read from `reader`."""
        self._reader = reader
        self._views: dict[str, str | None] = {}
        self._events: dict[str, tuple[Event, ...]] = {}
        """The live events of each scope."""
        self._sets: dict[str, tuple[str, str]] = {}
        """The placement group and the scale set of each scope, if it has them."""
        self._zones: dict[str, str] = {}

    def views(self, wanted: Collection[str]) -> dict[str, str]:
        """Return those views that exist as JSON, by their IDs."""
        ids = dict.fromkeys(wanted)
        self._read_views(ids.keys() - self._views.keys())
        texts = {view: self._views[view] for view in ids}
        return {view: text for view, text in texts.items() if text is not None}

    def guests(self, vms: Collection[tuple[Any, ...]]) -> dict[str, str]:
        """Return VMs, of which the values are those of `_OF_VM`, as JSON by their names."""
        self._read_sets({scope for _, _, _, scope, *_ in vms} - self._sets.keys())
        guests: dict[str, str] = {}
        for name, _, host, scope, view, vm_id, addresses, *values in vms:
            if host not in self._zones:
                self._zones[host] = need(self._reader, Host, host).zone
            members = instance_json.members(
                values, zone=self._zones[host], place=self._sets[scope]
            )
            guests[name] = relayed.text_of_guest(name, view, vm_id, addresses, members)
        return guests

    def _read_views(self, missing: Collection[str]) -> None:
        self._views |= dict.fromkeys(missing)
        with_events: list[View] = []
        for page in columns_of(self._reader, View, _OF_VIEW, missing):
            for values in zip(*page, strict=True):
                view_id, _, _, state, epoch, incarnation, ready_at, events_from = values
                is_enabled = state is ViewState.ENABLED
                if is_enabled and not events_from:
                    view = View(enabling="", **dict(zip(_OF_VIEW, values, strict=True)))
                    with_events.append(view)
                    continue
                self._views[view_id] = relayed.text_of_view(
                    view_id,
                    enabled=is_enabled,
                    epoch=epoch,
                    incarnation=incarnation,
                    ready_at=ready_at,
                )
        self._read_events({view.scope for view in with_events} - self._events.keys())
        for view in with_events:
            events = shown_to(view, self._events[view.scope])
            self._views[view.view_id] = relayed.view_text(snapshot_of(view, events))

    def _read_events(self, scopes: Collection[str]) -> None:
        """Read the live events of scopes. Most scopes have none, and cost no question."""
        query = kinds.LIVE_EVENTS_OF_SCOPE
        self._events |= dict.fromkeys(scopes, ())
        for scope in those_found(self._reader, query, scopes):
            self._events[scope] = (*every(self._reader, query, scope),)

    def _read_sets(self, missing: Collection[str]) -> None:
        for page in columns_of(self._reader, Scope, _OF_SCOPE, missing):
            for name, kind, scale_set in zip(*page, strict=True):
                is_set = kind is ScopeKind.SCALE_SET
                self._sets[name] = (name, scale_set) if is_set else ("", "")


def is_served(vm: Vm | None, host: str) -> bool:
    """Return whether the relay of the host serves a VM."""
    return host in taken_by(vm)


def served(reader: Reader, host: str, texts: Texts) -> Served:
    """Return what the relay of the host serves now."""
    pages = columns(reader, kinds.VMS_ON_HOST, _OF_VM, between=(host, host))
    on_it = (values for page in pages for values in zip(*page, strict=True))
    moving = map(_values_of, every(reader, kinds.VMS_MOVING_TO, host))
    vms = {
        values[0]: values
        for values in (*on_it, *moving)
        if values[1] is not VmState.DELETED
    }
    view_of = {name: values[4] for name, values in vms.items()}
    return Served(
        guests=texts.guests(vms.values()),
        views=texts.views(view_of.values()),
        view_of=view_of,
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
