"""Select the operations and events that a reader asks for, by the narrowest query."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from forewarn.admin import limits
from forewarn.control.redaction import tenant_reader
from forewarn.fleet.model import Host, Scope, Vm, VmState, places_of, tags_of
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.operations import (
    ENDED_STATES,
    Operation,
    OperationState,
    Request,
)
from forewarn.reporting.attention import Problem
from forewarn.store import kinds
from forewarn.store.port import PAGE_ROWS, Reader, Record, every
from forewarn.store.questions import Query
from forewarn.store.records import AuditEntry

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The names by which an object of a list can be selected: its VMs, hosts and so
    on."""

    vms: Collection[str] = ()
    hosts: Collection[str] = ()
    scopes: Collection[str] = ()
    tenants: Collection[str] = ()
    places: Collection[str] = ()
    """Places and labels of the object's hosts: `fleet.model.place`."""
    tags: Collection[str] = ()
    """Tags of the object's VMs, as `key=value`."""
    rollout: str = ""
    """The real ID of the object's rollout or request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The selection that a reader asks for; an empty field selects everything."""

    vm: str = ""
    host: str = ""
    scope: str = ""
    tenant: str = ""
    places: tuple[str, ...] = ()
    """Places and labels of a host: `fleet.model.place`."""
    tag: str = ""
    """A tag of a VM, as `key=value`."""
    rollout: str = ""
    """The real ID of a rollout or another request."""
    state: OperationState | None = None
    status: EventStatus | None = None
    ended: bool = False
    """Include ended objects."""

    def matches(self, about: About) -> bool:
        """Return whether the names of an object are selected."""
        return (
            (not self.vm or self.vm in about.vms)
            and (not self.host or self.host in about.hosts)
            and (not self.scope or self.scope in about.scopes)
            and (not self.tenant or self.tenant in about.tenants)
            and all(place in about.places for place in self.places)
            and (not self.tag or self.tag in about.tags)
            and self.rollout in {"", about.rollout}
        )


EVERYTHING = Wanted(vm="*", tenant="*", places=("*",), tag="*")
"""Needs each member of an `About`."""


class Lookups:
    """Names that objects refer to, cached for one read."""

    def __init__(self, reader: Reader) -> None:
        """Read from `reader`."""
        self._reader = reader
        self._tenants: dict[str, str] = {}
        self._places: dict[str, tuple[str, ...]] = {}
        self._tags: dict[str, tuple[str, ...]] = {}
        self._visits: dict[str, str | None] = {"": None}

    def tenant_of(self, name: str) -> str:
        """Return the tenant of a scope; empty if the scope was removed."""
        if name not in self._tenants:
            scope = self._reader.get(Scope, name)
            self._tenants[name] = scope.tenant if scope else ""
        return self._tenants[name]

    def places_of(self, name: str) -> tuple[str, ...]:
        """Return the places of a host; none if it was removed."""
        if name not in self._places:
            host = self._reader.get(Host, name)
            self._places[name] = places_of(host) if host else ()
        return self._places[name]

    def tags_of(self, name: str) -> tuple[str, ...]:
        """Return the tags of a VM, as `key=value`."""
        if name not in self._tags:
            vm = self._reader.get(Vm, name)
            self._tags[name] = tags_of(vm) if vm else ()
        return self._tags[name]

    def visit_of(self, entry: AuditEntry) -> str | None:
        """Return the visit whose steps decide how the host of an entry ends."""
        if entry.operation not in self._visits:
            operation = self._reader.get(Operation, entry.operation)
            self._visits[entry.operation] = (operation and operation.visit) or None
        return self._visits[entry.operation]

    def tenants_of(self, operation: Operation) -> set[str]:
        """Return the tenants of an operation, when it was open.

        Only an ended operation can be in a scope that has another tenant now.
        """
        if operation.state in ENDED_STATES:
            events = every(
                self._reader, kinds.EVENTS_OF_OPERATION, operation.operation_id
            )
            if found := {event.tenant for event in events}:
                return found
        return {self.tenant_of(scope) for scope in operation.scopes}

    def about(self, operation: Operation, wanted: Wanted = EVERYTHING) -> About:
        """Return the names that an operation concerns, as far as `wanted` needs them."""
        vms = operation.vms + (operation.left_vms if _asks_for_ended(wanted) else ())
        return self._about(
            wanted,
            vms=vms,
            hosts=(operation.host,),
            scopes=operation.scopes,
            tenants=self.tenants_of(operation) if wanted.tenant else (),
            rollout=operation.request,
        )

    def about_event(
        self, event: Event, operation: Operation, wanted: Wanted = EVERYTHING
    ) -> About:
        """Return the names that an event concerns."""
        return self._about(
            wanted,
            vms=tuple(resource.vm for resource in event.resources),
            hosts=(operation.host,),
            scopes=(event.scope,),
            tenants=(event.tenant,),
            rollout=operation.request,
        )

    def about_problem(self, problem: Problem, wanted: Wanted = EVERYTHING) -> About:
        """Return the names that a problem concerns."""
        return self._about(
            wanted,
            vms=problem.vms,
            hosts=problem.hosts,
            scopes=problem.scopes,
            tenants=problem.tenants,
            rollout=problem.request,
        )

    def about_entry(self, entry: AuditEntry, wanted: Wanted = EVERYTHING) -> About:
        """Return the names that an entry of the history concerns."""
        names: dict[str, list[str]] = {}
        for subject in entry.subjects:
            kind, _, name = subject.partition(":")
            names.setdefault(kind, []).append(name)
        return self._about(
            wanted,
            vms=names.get("vm", ()),
            hosts=names.get("host", ()),
            scopes=names.get("scope", ()),
            tenants=names.get("tenant", ()),
            rollout=next(iter(names.get("request", ())), ""),
        )

    def about_vm(self, vm: Vm, wanted: Wanted = EVERYTHING) -> About:
        """Return the names of a VM. A deleted VM is at no place."""
        self._tags[vm.name] = tags_of(vm)
        is_placed = wanted.places and vm.state is not VmState.DELETED
        return About(
            vms=(vm.name,),
            hosts=(vm.host,),
            scopes=(vm.scope,),
            tenants=(vm.tenant,),
            places=self.places_of(vm.host) if is_placed else (),
            tags=self._tags[vm.name],
        )

    def _about(
        self,
        wanted: Wanted,
        *,
        vms: Collection[str],
        hosts: Collection[str],
        **others: Any,
    ) -> About:
        places = {
            place
            for host in (hosts if wanted.places else ())
            for place in self.places_of(host)
        }
        tags = {tag for vm in vms for tag in self.tags_of(vm)} if wanted.tag else ()
        return About(vms=vms, hosts=hosts, places=places, tags=tags, **others)


def scan(
    reader: Reader,
    query: Query[R],
    value: str,
    *,
    matches: Callable[[R], bool],
    after: str,
    limit: int,
    last: str = "",
    newest: bool = False,
) -> tuple[list[R], str]:
    """Return a page of the matching objects, and the key after which the next page
    begins.

    With `newest`, the page goes backwards, from the end or from before the key `after`.
    Objects beyond the key `last` do not count, unless `last` is empty. If the returned
    key is empty, there is no next page. The work is bounded: a page may have fewer than
    `limit` objects, even none, and still have a next page.
    """
    matching: list[R] = []
    began = tenant_reader.rows_read(reader)
    for _page in range(limits.SCAN_ROWS_MAX // PAGE_ROWS):
        rows = (
            reader.latest(query, value, before=after, limit=PAGE_ROWS)
            if newest
            else reader.select(query, value, after=after, limit=PAGE_ROWS)
        )
        for row in rows:
            if last and (row.key <= last if newest else row.key > last):
                return matching, ""
            after = row.key
            if matches(row):
                matching.append(row)
            if len(matching) == limit:
                return matching, after
        if len(rows) < PAGE_ROWS:
            return matching, ""
        if tenant_reader.rows_read(reader) - began >= limits.TENANT_SCAN_READS_MAX:
            break
    return matching, after


def operations(
    reader: Reader, wanted: Wanted, *, after: str = "", limit: int
) -> tuple[list[Operation], str]:
    """Return a page of operations, and where the next one begins."""
    lookups = Lookups(reader)
    query, value = narrowest(wanted)
    return scan(
        reader,
        query,
        value,
        matches=lambda operation: is_wanted(operation, wanted, lookups),
        after=after,
        limit=limit,
    )


def rollouts(
    reader: Reader, wanted: Wanted, *, after: str, limit: int
) -> tuple[list[Request], str]:
    """Return a page of rollouts, and where the next one begins.

    The page ends early if its rollouts have many operations, because these are counted.
    """
    left = limits.SCAN_ROWS_MAX
    lookups = Lookups(reader)
    has_names = replace(wanted, ended=False) != Wanted()

    def matches(request: Request) -> bool:
        is_listed = wanted.ended or bool(
            request.hosts_unplanned
            or reader.select(kinds.OPEN_OPERATIONS_OF_REQUEST, request.key, limit=1)
        )
        return is_listed and (
            not has_names
            or any(
                wanted.matches(lookups.about(operation, wanted))
                for operation in every(reader, kinds.OPERATIONS_OF_REQUEST, request.key)
            )
        )

    found, following = scan(
        reader, kinds.ROLLOUTS, "", matches=matches, after=after, limit=limit
    )
    for place, request in enumerate(found):
        left -= max(request.hosts, 1)
        if left <= 0 and place + 1 < len(found):
            return found[: place + 1], request.key
    return found, following


def is_wanted(operation: Operation, wanted: Wanted, lookups: Lookups) -> bool:
    """Return whether an operation is selected.

    This does not check whether the operation has ended: the query does that.
    """
    return (wanted.state is None or wanted.state is operation.state) and wanted.matches(
        lookups.about(operation, wanted)
    )


def events(
    reader: Reader, wanted: Wanted, *, after: str = "", limit: int
) -> tuple[list[Event], str]:
    """Return the events of a page of operations, and where the next page begins.

    All events of an operation are in one page, so it may exceed `limit`.
    """
    page, after_page = operations(reader, wanted, after=after, limit=limit)
    lookups = Lookups(reader)
    matching: list[Event] = []
    for operation in page:
        matching += events_of(reader, operation, wanted, lookups)
        if len(matching) >= limit and operation.key != page[-1].key:
            return matching, operation.key
    return matching, after_page


def events_of(
    reader: Reader, operation: Operation, wanted: Wanted, lookups: Lookups
) -> Iterator[Event]:
    """Yield the events of an operation that are selected."""
    for event in every(reader, kinds.EVENTS_OF_OPERATION, operation.operation_id):
        if (
            event.status is not EventStatus.NEW
            and (wanted.ended or event.is_live)
            and (wanted.status is None or wanted.status is event.status)
            and wanted.matches(lookups.about_event(event, operation, wanted))
        ):
            yield event


def _asks_for_ended(wanted: Wanted) -> bool:
    return wanted.ended or wanted.state in ENDED_STATES


def narrowest(wanted: Wanted) -> tuple[Query[Operation], str]:
    """Return the query that reads the fewest records."""
    ended = _asks_for_ended(wanted)
    if wanted.vm:
        by_vm = kinds.OPERATIONS_OF_VM if ended else kinds.OPEN_OPERATIONS_OF_VM
        return by_vm, wanted.vm
    if not ended and wanted.host:
        return kinds.OPEN_OPERATIONS_OF_HOST, wanted.host
    if not ended and wanted.scope:
        return kinds.OPEN_OPERATIONS_OF_SCOPE, wanted.scope
    if wanted.rollout:
        by_request = (
            kinds.OPERATIONS_OF_REQUEST if ended else kinds.OPEN_OPERATIONS_OF_REQUEST
        )
        return by_request, wanted.rollout
    if wanted.state is not None:
        return kinds.OPERATIONS_IN_STATE, wanted.state.value
    if ended:
        return kinds.ALL_OPERATIONS, ""
    return kinds.OPEN_OPERATIONS, ""
