"""Rules between visits, their requests, operations and hosts."""

from collections import Counter
from collections.abc import Iterator

from forewarn.protocol.operations import CallState
from forewarn.protocol.visits import (
    ENDED_VISITS,
    ENTERED_VISITS,
    STUCK_VISITS,
    VISIT_PREFIX,
    SkipReason,
    Visit,
    VisitState,
)
from forewarn.store.contents import Contents, unknown, violated


def visits(contents: Contents) -> Iterator[str]:
    """A visit is consistent with itself, its request, its operation and its host."""
    for visit in contents.visits.values():
        me = f"visit {visit.visit_id}"
        yield from unknown(f"{me} is of request", {visit.request}, contents.requests)
        for violation in _wrong(visit, contents):
            yield f"{me} is {visit.state.value}, but {violation}"
    hosts = Counter(
        visit.host for visit in contents.visits.values() if visit.holds_slot
    )
    for host, count in hosts.items():
        if count > 1:
            yield f"host {host} has {count} visits at once"
    yield from _cordons(contents)
    for operation in contents.open_operations:
        if operation.visit:
            me = f"operation {operation.operation_id} is part of visit"
            yield from unknown(me, {operation.visit}, contents.visits)


def _wrong(visit: Visit, contents: Contents) -> Iterator[str]:
    operation = contents.operations.get(visit.operation)
    is_over = visit.state in ENDED_VISITS
    is_stuck = visit.state in STUCK_VISITS
    is_called = visit.call_state is not CallState.NONE
    host = contents.hosts.get(visit.host)
    return violated(
        (is_over != bool(visit.ended_at), "its end contradicts that"),
        (
            visit.state is not VisitState.WAITING
            and visit.holds_slot is not _needs_slot(visit, contents),
            "its slot contradicts that",
        ),
        (
            is_stuck != bool(visit.failed_in),
            "the state of its failure contradicts that",
        ),
        (
            # The VMs of a given up visit run again before its end.
            visit.state is not VisitState.RESTORING
            and not (visit.is_deferred and visit.skipped is SkipReason.HALTED)
            and (visit.state is VisitState.SKIPPED) != bool(visit.skipped),
            "the reason to skip it contradicts that",
        ),
        (is_called and visit.current_kind is None, "a step of it runs"),
        (is_called and not visit.due_at, "its step has no timer"),
        (is_called and not visit.generation, "its step has no generation"),
        ((is_over or is_stuck) and visit.due_at, "it waits for a timer"),
        (
            operation is not None and operation.visit != visit.visit_id,
            f"operation {visit.operation} is not part of it",
        ),
        (
            host is not None
            and visit.state in ENTERED_VISITS
            and not any(cordon.by.name == visit.visit_id for cordon in host.cordons),
            f"host {visit.host} is not cordoned for it",
        ),
    )


def _needs_slot(visit: Visit, contents: Contents) -> bool:
    """Return whether an announced visit counts as a host in flight.

    A campaign counts its failed hosts separately.
    """
    request = contents.requests.get(visit.request)
    is_failed_host = request is not None and bool(request.campaign)
    return not visit.ended_at and not (visit.state in STUCK_VISITS and is_failed_host)


def _cordons(contents: Contents) -> Iterator[str]:
    for host in contents.hosts.values():
        for cordon in host.cordons:
            name = cordon.by.name
            visit = contents.visits.get(name)
            if name.startswith(VISIT_PREFIX) and (visit is None or visit.ended_at):
                yield f"host {host.name} is cordoned by {name}, which is not open"
