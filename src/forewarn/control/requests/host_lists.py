"""The list of hosts of a rollout, which becomes Planned operations a page at a time.

The order checks all hosts and stores the whole list, with the ids that the operations
will have; it makes those of the first page. Each further page is a transaction of its
own, and no host is announced before the last of them. So no transaction grows with the
list. A crash between two pages loses nothing: the next start of the service finds the
rest in the request.

Who must know all open operations of a host calls `complete` first. So a host whose
operation is not made yet meets the same as one that is Planned.
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
from forewarn.store.audit import AuditKind, Facts
from forewarn.store.port import every

PAGE = 25
"""Hosts of one transaction. To make and store the operation of one takes about 0.1 ms,
so that approvals and orders of others wait for some 3 ms."""


def plan(
    work: Work, request: Request, hosts: Sequence[str], pattern: Operation
) -> None:
    """Store the list of hosts, and make the first page of it Planned operations.

    Nobody is told of any. `pattern` is what the operations have in common.
    """
    admission.check_actions(work, [pattern.action])
    ids = work.ids.shorts("op", len(hosts), place=place_in(request.request_id))
    # One entry for all of them: a thousand hosts must not write a thousand.
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
    """Make the next page of a list Planned operations.

    What is left of a rollout that was cancelled is cancelled after that.
    """
    request = work.request(request_id)
    if request.unplanned:
        _make(work, request, _like_the_first(work, request), count=PAGE)


def complete(work: Work, hosts: Iterable[str]) -> None:
    """Have the operations of these hosts be there, if a list has any of the hosts.

    It makes all up to the last of them: a list stays in order.
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
    """Return what the operations of a list have in common, as its first one says.

    The first one was not announced, since a list has hosts left. It may have ended.
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
