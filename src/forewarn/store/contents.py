"""All records of a store except audit entries, for the checks of a whole store."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.model import Capacity, Host, Scope, Span, Tenant, Vm, VmState
from forewarn.protocol.events import Event
from forewarn.protocol.operations import ENDED_STATES, Operation, Request
from forewarn.protocol.views import View
from forewarn.protocol.visits import Visit
from forewarn.store.host_abilities import HostAbilities
from forewarn.store.questions import Record
from forewarn.store.records import Brake, Leader, Loss, Tally, Token
from forewarn.store.relay_links import RelayLink
from forewarn.store.unplanned import UnplannedPage
from forewarn.store.wide_blackouts import WideBlackout


class Contents:
    """The records by key."""

    def __init__(self) -> None:
        """Start empty."""
        self.term = 0
        """The current term of the store."""
        self.tenants: dict[str, Tenant] = {}
        self.scopes: dict[str, Scope] = {}
        self.hosts: dict[str, Host] = {}
        self.rooms: dict[str, Capacity] = {}
        self.vms: dict[str, Vm] = {}
        self.views: dict[str, View] = {}
        self.requests: dict[str, Request] = {}
        self.operations: dict[str, Operation] = {}
        self.visits: dict[str, Visit] = {}
        self.events: dict[str, Event] = {}
        self.campaigns: dict[str, CampaignRecord] = {}
        self.tokens = defaultdict[tuple[str, str], list[Token]](list)
        """The tokens that were read, by tenant and case-folded name."""
        self.open_spans = defaultdict[str, list[Span]](list)
        """The open spans by VM: ended spans are checked one by one."""
        self.last_spans: dict[bool, Span] = {}
        """The last span that was read: of an outage (True) and of existence (False)."""
        self.losses: dict[str, Loss] = {}
        self.tallies: dict[str, Tally] = {}
        self.brakes: dict[str, Brake] = {}
        self.blackouts: dict[str, WideBlackout] = {}
        self.abilities: dict[str, HostAbilities] = {}
        self.relay_links: dict[str, RelayLink] = {}
        self.unplanned: dict[str, UnplannedPage] = {}
        self.is_whole = True
        """Whether every row could be read."""
        self._tables: Mapping[type[Record], dict[str, Any]] = {
            Tenant: self.tenants,
            Scope: self.scopes,
            Host: self.hosts,
            Capacity: self.rooms,
            Vm: self.vms,
            View: self.views,
            Request: self.requests,
            Operation: self.operations,
            Visit: self.visits,
            Event: self.events,
            CampaignRecord: self.campaigns,
            Loss: self.losses,
            Tally: self.tallies,
            Brake: self.brakes,
            WideBlackout: self.blackouts,
            HostAbilities: self.abilities,
            RelayLink: self.relay_links,
            UnplannedPage: self.unplanned,
        }

    def add(self, record: Record) -> None:
        """Store a record; ignore kinds that no rule over several records needs."""
        if isinstance(record, Leader):
            self.term = record.term
        elif isinstance(record, Span):
            if record.is_open:
                self.open_spans[record.vm].append(record)
        elif type(record) in self._tables:
            self._tables[type(record)][record.key] = record

    @cached_property
    def live_vms(self) -> list[Vm]:
        """Return the VMs that are not deleted."""
        return [vm for vm in self.vms.values() if vm.state is not VmState.DELETED]

    @cached_property
    def open_operations(self) -> list[Operation]:
        """Return the operations that have not ended."""
        return [op for op in self.operations.values() if op.state not in ENDED_STATES]

    @cached_property
    def events_of(self) -> Mapping[str, list[Event]]:
        """Return the events by operation."""
        by_operation = defaultdict[str, list[Event]](list)
        for event in self.events.values():
            by_operation[event.operation].append(event)
        return by_operation

    @cached_property
    def unplanned_of(self) -> Mapping[str, list[tuple[str, str]]]:
        """Return the IDs of future operations and their hosts, by request."""
        by_request = defaultdict[str, list[tuple[str, str]]](list)
        for _, page in sorted(self.unplanned.items()):
            by_request[page.request] += page.hosts
        return by_request

    @cached_property
    def live_events_of_scope(self) -> Mapping[str, list[Event]]:
        """Return the live events, by scope."""
        by_scope = defaultdict[str, list[Event]](list)
        for event in self.events.values():
            if event.is_live:
                by_scope[event.scope].append(event)
        return by_scope


def violated(*claims: tuple[object, str]) -> Iterator[str]:
    """Yield the sentences whose condition is true."""
    return (sentence for is_wrong, sentence in claims if is_wrong)


def first_of(*claims: tuple[object, str]) -> str:
    """Return the first sentence whose condition is true, or nothing."""
    return next(violated(*claims), "")


def unknown(
    what: str, names: Iterable[str], known: Mapping[str, object]
) -> Iterator[str]:
    """Yield a sentence about each name that is not known."""
    for name in sorted(set(names) - known.keys()):
        yield f"{what} {name}, which does not exist"
