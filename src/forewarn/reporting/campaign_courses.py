"""The attempts of a campaign on hosts, with the places of the hosts.

A whole campaign is read as single fields, each kind of record once. The hosts of one
place are found by indexes, so that their cost does not depend on the campaign. For
operators only.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.rules import unplanned as future
from forewarn.fleet.model import Host
from forewarn.instants import Micros
from forewarn.protocol.operations import Operation, OperationState
from forewarn.protocol.visits import STUCK_VISITS, Visit, VisitState
from forewarn.reporting.campaign_states import HostState, state_of
from forewarn.store import kinds
from forewarn.store.port import Reader, columns, columns_of, every


class Attempt(NamedTuple):
    """One attempt on a host: an operation with its visit."""

    host: str
    operation: str
    """Its ID; IDs sort by time."""
    position: int
    """Place in the order of the campaign, from 1."""
    state: OperationState
    visit: VisitState | None
    started: Micros
    over: Micros
    """When the host was given back, or its visit came to a standstill; 0: not yet."""


class Place(NamedTuple):
    """The cluster and the rack of a host; empty: it has none, or was removed."""

    cluster: str
    rack: str


NOWHERE = Place("", "")

_FIELDS = (
    *("host", "operation_id", "position", "state"),
    *("visit", "started_at", "ended_at"),
)


def of_campaign(
    reader: Reader, known: Reader, campaign: CampaignRecord
) -> list[Attempt]:
    """Return all attempts of a campaign, in the order of their operations.

    `known` reads the same, and remembers the list of the hosts that are not planned yet.
    """
    one = (campaign.request, campaign.request)
    ends: dict[str, tuple[VisitState, Micros]] = {
        operation: (state, end_of(state, ended, since))
        for page in columns(
            reader,
            kinds.VISITS_OF_REQUEST,
            ("operation", "state", "ended_at", "since"),
            between=one,
        )
        for operation, state, ended, since in zip(*page, strict=True)
    }
    attempts: list[Attempt] = []
    for page in columns(reader, kinds.OPERATIONS_OF_REQUEST, _FIELDS, between=one):
        for host, operation, position, state, visited, started, ended in zip(
            *page, strict=True
        ):
            visit, over = ends.get(operation, (None, 0)) if visited else (None, ended)
            attempts.append(
                Attempt(host, operation, position, state, visit, started, over)
            )
    return attempts + unplanned(known, campaign)


def unplanned(reader: Reader, campaign: CampaignRecord) -> list[Attempt]:
    """Return the hosts of a campaign whose operations are not created yet."""
    left = [*future.hosts_of(reader, campaign.request)]
    first = campaign.hosts - len(left) + 1
    return [
        Attempt(host, operation, place, OperationState.PLANNED, None, 0, 0)
        for place, (operation, host) in enumerate(left, start=first)
    ]


def on_host(reader: Reader, campaign: CampaignRecord, host: str) -> list[Operation]:
    """Return the operations of a campaign on a host, in the order of time."""
    return [
        operation
        for operation in every(reader, kinds.ATTEMPTS_ON_HOST, host)
        if operation.request == campaign.request
    ]


def on_hosts(
    reader: Reader, campaign: CampaignRecord, hosts: Collection[str]
) -> Iterator[Attempt]:
    """Yield the attempts of a campaign on some hosts."""
    early = {attempt.host: attempt for attempt in unplanned(reader, campaign)}
    for host in hosts:
        operations = on_host(reader, campaign, host)
        yield from (
            attempt_of(operation, visit_of(reader, operation))
            for operation in operations
        )
        if not operations and host in early:
            yield early[host]


def visit_of(reader: Reader, operation: Operation) -> Visit | None:
    """Return the visit that an operation is part of."""
    return reader.get(Visit, operation.visit) if operation.visit else None


def attempt_of(operation: Operation, visit: Visit | None) -> Attempt:
    """Return the attempt of an operation."""
    over = operation.ended_at if visit is None else attempt_end(visit)
    return Attempt(
        operation.host,
        operation.operation_id,
        operation.position,
        operation.state,
        None if visit is None else visit.state,
        operation.started_at,
        over,
    )


def places_of_hosts(reader: Reader, hosts: Collection[str]) -> dict[str, Place]:
    """Return where some hosts stand; hosts that were removed are left out."""
    places: dict[str, Place] = {}
    for names, clusters, racks in columns_of(
        reader, Host, ("name", "cluster", "rack"), hosts
    ):
        places.update(zip(names, map(Place, clusters, racks), strict=True))
    return places


def state_in(
    campaign: CampaignRecord, last: Attempt, failed: Collection[str]
) -> HostState:
    """Return the state of a host by its last attempt and the campaign's failed hosts."""
    if last.host in failed and last.state is not OperationState.PLANNED:
        return HostState.FAILED
    if campaign.has_ended and last.state is OperationState.PLANNED:
        return HostState.SKIPPED
    return state_of(last.state, last.visit)


def earlier_state(attempt: Attempt) -> HostState:
    """Return how an attempt ended after which another one was made."""
    is_done = attempt.state is OperationState.DONE and attempt.visit not in STUCK_VISITS
    return HostState.DONE if is_done else HostState.FAILED


def by_host(attempts: Sequence[Attempt]) -> dict[str, list[Attempt]]:
    """Return the attempts on each host, in the order of time."""
    attempts_by_host: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        attempts_by_host.setdefault(attempt.host, []).append(attempt)
    return attempts_by_host


def attempt_end(visit: Visit) -> Micros:
    """Return when an attempt with a visit ended or came to a standstill; 0: not yet."""
    return end_of(visit.state, visit.ended_at, visit.since)


def end_of(state: VisitState, ended: Micros, since: Micros) -> Micros:
    """Return when a visit ended, or came to a standstill that only an operator ends."""
    return since if state in STUCK_VISITS else ended
