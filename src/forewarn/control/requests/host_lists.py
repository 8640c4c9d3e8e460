"""Turn the list of hosts of a rollout into Planned operations, page by page.

The request checks all hosts and stores the whole list, with the IDs of the future
operations. It creates the operations of the first page. Each further page is a separate
transaction, and no host is announced before the last page. No transaction therefore grows
with the list. A crash between two pages loses nothing: the next start of the service
finds the rest in the request.

Code that must know all open operations of a host calls `complete` first. A host whose
operation is not created yet is therefore treated like a Planned one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from forewarn.control.requests import admission
from forewarn.control.rules import waits
from forewarn.control.transactions.work import Work
from forewarn.ids import place_in
from forewarn.protocol.events import EventSource
from forewarn.protocol.frozen import changed
from forewarn.protocol.operations import Operation, Request
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import AuditKind, Facts

PAGE = 25
"""Maximum hosts per transaction. Creating and storing one operation takes about 0.1 ms, so
other approvals and requests wait for about 3 ms."""


def plan(
    work: Work, request: Request, hosts: Sequence[str], pattern: Operation
) -> None:
    """Store the list of hosts, and create the Planned operations of its first page.

    None is announced. `pattern` has the common fields of the operations.
    """
    admission.check_actions(work, [pattern.action])
    ids = work.ids.shorts("op", len(hosts), place=place_in(request.request_id))
    # One history entry for all: a thousand hosts must not write a thousand entries.
    work.note(
        AuditKind.HOSTS_PLANNED,
        (
            f"request:{request.request_id}",
            *(f"operation:{operation_id}" for operation_id in ids),
        ),
        Facts(count=len(hosts), at_once=request.at_once),
    )
    listed = work.tx.replace(
        request, replace(request, unplanned=tuple(zip(ids, hosts, strict=True)))
    )
    _make(work, listed, pattern, count=PAGE)


def plan_page(work: Work, request_id: str) -> None:
    """Create the Planned operations of the next page of a list.

    If the rollout was cancelled, they are cancelled afterwards.
    """
    request = work.request(request_id)
    if request.unplanned:
        _make(work, request, _like_the_first(work, request), count=PAGE)


def complete(work: Work, hosts: Iterable[str]) -> None:
    """Create the operations of these hosts, if a list contains any of them.

    All operations up to the last of these hosts are created, so a list stays in order.
    """
    names = frozenset(hosts)
    for request in list(every(work.tx, kinds.REQUESTS_UNPLANNED)):
        count = max(
            (
                place
                for place, (_, host) in enumerate(request.unplanned, start=1)
                if host in names
            ),
            default=0,
        )
        if count:
            _make(work, request, _like_the_first(work, request), count=count)


def _like_the_first(work: Work, request: Request) -> Operation:
    """Return the common fields of the operations of a list, from its first one.

    The first one was not announced, because the list is not complete. It can have ended.
    """
    (first,) = work.tx.select(kinds.OPERATIONS_OF_REQUEST, request.request_id, limit=1)
    like = admission.draft_like(
        first,
        (),
        event_type=admission.MAINTENANCE[first.action].event_type,
        source=EventSource.PLATFORM,
        not_before=first.not_before,
    )
    return replace(like.operation, created=first.created)


def _make(work: Work, request: Request, pattern: Operation, *, count: int) -> None:
    page, rest = request.unplanned[:count], request.unplanned[count:]
    work.tx.replace(request, replace(request, unplanned=rest))
    position = request.hosts - len(request.unplanned)
    waits_for = (waits.turn(request.request_id),)
    for operation_id, host in page:
        position += 1
        work.add_operation(
            changed(
                pattern,
                operation_id=operation_id,
                request=request.request_id,
                target=host,
                host=host,
                not_before=work.not_before(operation_id, pattern.not_before),
                position=position,
                waits_for=waits_for,
            )
        )
    if rest:
        work.take_page(request.request_id)
    else:
        work.take_turn(request.request_id)
