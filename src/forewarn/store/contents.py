"""Everything that a store holds but its trail, for who judges all of it at once."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

from forewarn.fleet.capacity import Capacity
from forewarn.fleet.model import AppliedFile, Host, Scope, Tenant, Vm, VmState
from forewarn.fleet.spans import Span
from forewarn.protocol.events import Event
from forewarn.protocol.operations import ENDED_STATES, Operation, Request
from forewarn.protocol.views import View
from forewarn.store.kinds import Record
from forewarn.store.token import Token


@dataclass(kw_only=True)
class Contents:
    """The records by key."""

    term: int = 0
    """The present term of the store."""
    tenants: dict[str, Tenant] = field(default_factory=dict[str, Tenant])
    scopes: dict[str, Scope] = field(default_factory=dict[str, Scope])
    hosts: dict[str, Host] = field(default_factory=dict[str, Host])
    rooms: dict[str, Capacity] = field(default_factory=dict[str, Capacity])
    vms: dict[str, Vm] = field(default_factory=dict[str, Vm])
    views: dict[str, View] = field(default_factory=dict[str, View])
    requests: dict[str, Request] = field(default_factory=dict[str, Request])
    operations: dict[str, Operation] = field(default_factory=dict[str, Operation])
    events: dict[str, Event] = field(default_factory=dict[str, Event])
    tokens: dict[tuple[str, str], list[Token]] = field(
        default_factory=dict[tuple[str, str], list[Token]]
    )
    """By tenant and folded name; those that were read already."""
    open_spans: dict[str, list[Span]] = field(default_factory=dict[str, list[Span]])
    """By VM, the times that go on: those that are over judge themselves."""
    is_whole: bool = True
    """Every row could be read."""

    def add(self, record: Record) -> None:
        """Put a record in its place."""
        if isinstance(record, AppliedFile):
            return
        if isinstance(record, Span):
            if record.is_open:
                self.open_spans.setdefault(record.vm, []).append(record)
            return
        tables: dict[type[Record], object] = {
            Tenant: self.tenants,
            Scope: self.scopes,
            Host: self.hosts,
            Capacity: self.rooms,
            Vm: self.vms,
            View: self.views,
            Request: self.requests,
            Operation: self.operations,
            Event: self.events,
        }
        cast("dict[str, Record]", tables[type(record)])[record.key] = record

    @cached_property
    def live_vms(self) -> list[Vm]:
        """Return the VMs that are not deleted."""
        return [vm for vm in self.vms.values() if vm.state is not VmState.DELETED]

    @cached_property
    def open_operations(self) -> list[Operation]:
        """Return the operations that have not ended."""
        return [op for op in self.operations.values() if op.state not in ENDED_STATES]

    @cached_property
    def events_of(self) -> dict[str, list[Event]]:
        """Return the events by operation."""
        found: dict[str, list[Event]] = {key: [] for key in self.operations}
        for event in self.events.values():
            found.setdefault(event.operation, []).append(event)
        return found

    @cached_property
    def live_events_of_scope(self) -> dict[str, list[Event]]:
        """Return the events that documents show, by scope."""
        found: dict[str, list[Event]] = {}
        for event in self.events.values():
            if event.is_live:
                found.setdefault(event.scope, []).append(event)
        return found
