"""Which operations and events a reader asks for, found by the narrowest query."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from forewarn.admin import limits
from forewarn.fleet.model import Scope
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.operations import (
    ENDED_STATES,
    Operation,
    OperationState,
    Request,
)
from forewarn.store import kinds
from forewarn.store.kinds import Query
from forewarn.store.port import PAGE_ROWS, Reader, Record, every

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a reader wants to see; an empty field asks for nothing."""

    vm: str = ""
    host: str = ""
    scope: str = ""
    tenant: str = ""
    rollout: str = ""
    """The real id of a rollout or another request."""
    state: OperationState | None = None
    status: EventStatus | None = None
    ended: bool = False
    """Also what has ended."""


@dataclass(slots=True)
class Scopes:
    """Whose each scope is; remembered for the length of one read."""

    reader: Reader
    _tenants: dict[str, str]

    def tenant_of(self, name: str) -> str:
        """Return the scope's tenant, or nothing if the scope is gone."""
        if name not in self._tenants:
            scope = self.reader.get(Scope, name)
            self._tenants[name] = scope.tenant if scope else ""
        return self._tenants[name]

    def tenants_of(self, operation: Operation) -> set[str]:
        """Return whose the operation is, or was when it was open.

        Only what is over can be in a scope that is another's now.
        """
        if operation.state in ENDED_STATES:
            events = every(
                self.reader, kinds.EVENTS_OF_OPERATION, operation.operation_id
            )
            if told := {event.tenant for event in events}:
                return told
        return {self.tenant_of(scope) for scope in operation.scopes}


def scan(
    reader: Reader,
    query: Query[R],
    value: str,
    *,
    matches: Callable[[R], bool],
    after: str,
    limit: int,
    last: str = "",
) -> tuple[list[R], str]:
    """Return a page of what matches, and the key after which the next begins.

    Nothing behind the key `last` counts, unless it is empty. An empty key means
    that there is no more. The work is bounded: a page may
    hold less than `limit`, even nothing, and still have a next one.
    """
    found: list[R] = []
    for _page in range(limits.SCAN_ROWS_MAX // PAGE_ROWS):
        rows = reader.select(query, value, after=after, limit=PAGE_ROWS)
        for row in rows:
            if last and row.key > last:
                return found, ""
            after = row.key
            if matches(row):
                found.append(row)
            if len(found) == limit:
                return found, after
        if len(rows) < PAGE_ROWS:
            return found, ""
    return found, after


def operations(
    reader: Reader, wanted: Wanted, *, after: str = "", limit: int
) -> tuple[list[Operation], str]:
    """Return a page of operations, and where the next one begins."""
    scopes = Scopes(reader, {})
    query, value = narrowest(wanted)
    return scan(
        reader,
        query,
        value,
        matches=lambda operation: is_wanted(operation, wanted, scopes),
        after=after,
        limit=limit,
    )


def rollouts(
    reader: Reader, *, ended: bool, after: str, limit: int
) -> tuple[list[Request], str]:
    """Return a page of rollouts, and where the next one begins.

    The page ends early where its rollouts have many operations, which are counted.
    """
    left = limits.SCAN_ROWS_MAX

    def matches(request: Request) -> bool:
        return ended or bool(
            request.unplanned
            or reader.select(kinds.OPEN_OPERATIONS_OF_REQUEST, request.key, limit=1)
        )

    found, following = scan(
        reader, kinds.ROLLOUTS, "", matches=matches, after=after, limit=limit
    )
    for place, request in enumerate(found):
        left -= max(request.hosts, 1)
        if left <= 0 and place + 1 < len(found):
            return found[: place + 1], request.key
    return found, following


def is_wanted(operation: Operation, wanted: Wanted, scopes: Scopes) -> bool:
    """Tell whether an operation is one of those that are asked for.

    Whether it has ended is the query's business: a watcher is told of the end.
    """
    return (
        (not wanted.vm or _concerns(operation, wanted))
        and (not wanted.host or wanted.host == operation.host)
        and (not wanted.scope or wanted.scope in operation.scopes)
        and wanted.rollout in {"", operation.request}
        and (wanted.state is None or wanted.state is operation.state)
        and (not wanted.tenant or wanted.tenant in scopes.tenants_of(operation))
    )


def _concerns(operation: Operation, wanted: Wanted) -> bool:
    """Tell whether the VM is part of the operation, or was if the past is asked for."""
    return wanted.vm in operation.vms or (
        _asks_for_ended(wanted) and wanted.vm in operation.left_vms
    )


def events(
    reader: Reader, wanted: Wanted, *, after: str = "", limit: int
) -> tuple[list[Event], str]:
    """Return the events of a page of operations, and where the next page begins.

    All events of an operation are in one page, so it may exceed `limit`.
    """
    page, after_page = operations(reader, wanted, after=after, limit=limit)
    found: list[Event] = []
    for operation in page:
        found += events_of(reader, operation, wanted)
        if len(found) >= limit and operation.key != page[-1].key:
            return found, operation.key
    return found, after_page


def events_of(reader: Reader, operation: Operation, wanted: Wanted) -> Iterator[Event]:
    """Yield the events of an operation that are asked for."""
    for event in every(reader, kinds.EVENTS_OF_OPERATION, operation.operation_id):
        if (
            event.status is not EventStatus.NEW
            and (wanted.ended or event.is_live)
            and (wanted.status is None or wanted.status is event.status)
            and (not wanted.scope or wanted.scope == event.scope)
            and (not wanted.tenant or wanted.tenant == event.tenant)
            and (not wanted.vm or event.names(wanted.vm))
        ):
            yield event


def _asks_for_ended(wanted: Wanted) -> bool:
    return wanted.ended or wanted.state in ENDED_STATES


def narrowest(wanted: Wanted) -> tuple[Query[Operation], str]:
    """Return the question that finds the least of what must be looked at."""
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
