"""Hosts of a campaign as rows of a timeline: what each did, does and waits for.

The cost depends on the hosts of a page, and not on those of the campaign. For operators
only.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from forewarn.control.rules import obstacles
from forewarn.control.rules.remedies import actionable_first
from forewarn.fleet.model import Host, places_of
from forewarn.instants import Micros, format_instant, instant_or_none
from forewarn.protocol.blockers import AnyBlocker, bounded
from forewarn.protocol.events import Event
from forewarn.protocol.operations import (
    MOVING_ACTIONS,
    Operation,
    OperationState,
)
from forewarn.protocol.visits import STEP_OF_STATE, Visit
from forewarn.reporting import campaign_courses
from forewarn.reporting.blocker_reports import blocker_reports
from forewarn.reporting.campaign_courses import Attempt, attempt_of, visit_of
from forewarn.reporting.campaign_reports import stage_of
from forewarn.reporting.campaign_states import IN_FLIGHT_STATES, HostState
from forewarn.reporting.campaigns import failure_of
from forewarn.reporting.expected import Expected
from forewarn.reporting.host_phases import Phase, phases
from forewarn.reporting.reports import vm_count
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.wording import operators

Json: TypeAlias = dict[str, Any]

EXAMINED_MAX = 2_000
"""Maximum hosts that are read for one page to find those in the selected states: this
takes a tenth of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSelection:
    """The hosts that a page shows, and the time of their segments."""

    places: tuple[str, ...] = ()
    """Places and labels that a host must have: `fleet.model.place`."""
    states: frozenset[HostState] = frozenset()
    """Empty: hosts in all states."""
    first: Micros = 0
    last: Micros = 0
    """The time whose segments are shown; 0: no limit."""
    after: str = ""
    """Name of the last host of the previous page; empty: the first page."""
    limit: int = 0
    """Maximum hosts of the page."""


def campaign_rows(expected: Expected, selection: RowSelection) -> Json:
    """Return a page of the hosts of a campaign by name, and where the next page begins.

    A page can have few hosts, even none, and still have a next page.
    """
    campaign = expected.campaign
    failed = set(campaign.failed_hosts)
    page: list[Json] = []
    after = ""
    for examined, host in enumerate(_hosts(expected, selection)):
        if len(page) == selection.limit or examined == EXAMINED_MAX:
            break
        after = host.name
        row = row_of(expected, host, failed, selection)
        if row is not None:
            page.append(row)
    else:
        after = ""
    return {
        "campaign": campaign.campaign_id,
        "at": format_instant(expected.now),
        "hosts": page,
        "next": after or None,
    }


def _hosts(expected: Expected, selection: RowSelection) -> Iterator[Host]:
    """Yield the hosts that can be on the page, by name."""
    reader = expected.reader
    few = _names_in(expected, selection.states)
    if few is not None:
        names = (name for name in sorted(few) if name > selection.after)
        hosts = (reader.get(Host, name) for name in names)
        yield from (
            host
            for host in hosts
            if host is not None and set(selection.places) <= set(places_of(host))
        )
        return
    first = min(selection.places, key=_size_of, default="")
    query = kinds.HOSTS_AT_PLACE if first else kinds.ALL_HOSTS
    for host in every(reader, query, first, after=selection.after):
        if set(selection.places) <= set(places_of(host)):
            yield host


_BY_SIZE = ("rack", "cluster", "pool", "zone")
"""Kinds of places, those with the fewest hosts first."""


def _size_of(place: str) -> int:
    kind = place.partition("=")[0]
    return _BY_SIZE.index(kind) if kind in _BY_SIZE else len(_BY_SIZE)


def _names_in(
    expected: Expected, states: Collection[HostState]
) -> Collection[str] | None:
    """Return the names of all hosts that can be in some states; None: too many.

    Failed hosts and those in flight are few, and indexes have them.
    """
    if not states or not {*IN_FLIGHT_STATES, HostState.FAILED}.issuperset(states):
        return None
    failed = expected.campaign.failed_hosts
    if set(states) == {HostState.FAILED}:
        return failed
    return {*failed, *hosts_in_flight(expected)}


def hosts_in_flight(expected: Expected) -> set[str]:
    """Return the hosts of a campaign that are announced or in work, and some others.

    The others are those with open visits that stand still.
    """
    reader, request = expected.reader, expected.request.request_id
    names = {e.host for e in every(reader, kinds.OPEN_VISITS_OF_REQUEST, request)}
    names |= {e.host for e in every(reader, kinds.ANNOUNCED_OF_REQUEST, request)}
    names |= {e.host for e in every(reader, kinds.STARTED_OF_REQUEST, request)}
    return names


def has_begun(expected: Expected, operation: Operation) -> bool:
    """Return whether a host of the campaign, with this operation, has been announced or
    had an attempt before."""
    if operation.state is not OperationState.PLANNED:
        return True
    reader, campaign = expected.reader, expected.campaign
    return len(campaign_courses.on_host(reader, campaign, operation.host)) > 1


def one_row(expected: Expected, host: Host) -> Json:
    """Return the row of a host that has an operation of the campaign, with all its times."""
    row = row_of(expected, host, set(expected.campaign.failed_hosts), RowSelection())
    assert row is not None, f"{host.name} has no operation of the campaign"
    return row


def row_of(
    expected: Expected, host: Host, failed: Collection[str], selection: RowSelection
) -> Json | None:
    """Return the row of a host; None: the campaign does not have it in these states."""
    reader, campaign = expected.reader, expected.campaign
    operations = campaign_courses.on_host(reader, campaign, host.name)
    if not operations:
        return _unplanned(expected, host, selection)
    last = operations[-1]
    visit = visit_of(reader, last)
    attempt = attempt_of(last, visit)
    state = campaign_courses.state_in(campaign, attempt, failed)
    if selection.states and state not in selection.states:
        return None
    shown = list(_phases(reader, operations, selection))
    events = _live_events(reader, last)
    return {
        **_identity(expected, host, attempt, state),
        "vms": vm_count(reader, last),
        "attempts": len(operations),
        "step": _step(last, visit, state, shown),
        "progress": _progress(last, state),
        "segments": [segment_report(phase) for phase in shown],
        "forecast": _forecast(expected, attempt, last, state),
        "not_before": format_instant(last.not_before) if events else None,
        "approvals": {
            "have": sum(1 for event in events if event.is_approved),
            "of": len(events),
        },
        "blockers": _blockers(expected, last, state),
        "note": _note(reader, last, state),
    }


def _identity(
    expected: Expected, host: Host, attempt: Attempt, state: HostState
) -> Json:
    return {
        "host": host.name,
        "cluster": host.cluster,
        "rack": host.rack,
        "stage": stage_of(expected.campaign, attempt.position),
        "position": attempt.position,
        "state": state.value,
        "operation": attempt.operation,
    }


def _unplanned(expected: Expected, host: Host, selection: RowSelection) -> Json | None:
    """Return the row of a host whose operation is not created yet; None: there is none."""
    attempt = expected.unplanned.get(host.name)
    if attempt is None or (
        selection.states and HostState.PLANNED not in selection.states
    ):
        return None
    return {
        **_identity(expected, host, attempt, HostState.PLANNED),
        "vms": sum(1 for _ in every(expected.reader, kinds.VMS_ON_HOST, host.name)),
        "attempts": 0,
        "step": None,
        "progress": None,
        "segments": [],
        "forecast": None,
        "not_before": None,
        "approvals": {"have": 0, "of": 0},
        "blockers": [],
        "note": "",
    }


def _phases(
    reader: Reader, operations: Iterable[Operation], selection: RowSelection
) -> Iterator[Phase]:
    for operation in operations:
        if operation.state is OperationState.PLANNED:
            continue
        for phase in phases(reader, operation, visit_of(reader, operation)):
            is_late = selection.last and phase.begins >= selection.last
            if not is_late and (not phase.ends or phase.ends > selection.first):
                yield phase


def segment_report(phase: Phase) -> Json:
    """Return a phase as JSON."""
    return {
        "state": phase.state.value,
        "step": phase.step or None,
        "from": format_instant(phase.begins),
        "until": instant_or_none(phase.ends),
    }


def _live_events(reader: Reader, operation: Operation) -> list[Event]:
    if operation.state is OperationState.PLANNED or operation.ended_at:
        return []
    events = every(reader, kinds.EVENTS_OF_OPERATION, operation.operation_id)
    return [event for event in events if event.is_live]


def _step(
    operation: Operation,
    visit: Visit | None,
    state: HostState,
    shown: Sequence[Phase],
) -> Json | None:
    """Return the step that a host in flight or a failed one is in."""
    if state not in {*IN_FLIGHT_STATES, HostState.FAILED}:
        return None
    if visit is None:
        since = next((phase.begins for phase in shown[-1:] if not phase.ends), 0)
        return {
            "state": operation.state.value,
            "kind": None,
            "since": instant_or_none(since),
            "until": None,
        }
    stuck = visit.failed_in or visit.state
    kind = STEP_OF_STATE.get(stuck)
    since, until = visit.since, 0
    if visit.failed_in is not None:
        # It has ended: the phase before the failure is the one that failed.
        before = [phase for phase in shown if phase.ends == visit.since]
        since, until = (before[-1].begins if before else 0), visit.since
    return {
        "state": stuck.value,
        "kind": None if kind is None else kind.value,
        "since": instant_or_none(since),
        "until": instant_or_none(until),
    }


def _progress(operation: Operation, state: HostState) -> Json | None:
    """Return how many VMs a host in work has moved away; None: it moves none."""
    if state is not HostState.IMPACTING or operation.action not in MOVING_ACTIONS:
        return None
    done = sum(1 for move in operation.moves if move.done)
    return {"done": done, "of": len(operation.moves)}


def _forecast(
    expected: Expected, attempt: Attempt, operation: Operation, state: HostState
) -> Json | None:
    """Return in which time the rest of the work is expected; None: unknown or done."""
    pace, now = expected.pace_of_hosts, expected.now
    if pace is None:
        return None
    begins: Micros | None = None
    length = pace.work
    if state is HostState.PLANNED:
        begins, length = expected.host_begins(attempt.position), pace.turn
    elif state in {HostState.ANNOUNCED, HostState.READY}:
        begins = max(now, operation.not_before)
    elif state in IN_FLIGHT_STATES and attempt.started:
        begins = attempt.started
    if begins is None or begins + length <= now:
        return None
    return {
        "from": format_instant(max(begins, now)),
        "until": format_instant(begins + length),
    }


def _blockers(expected: Expected, operation: Operation, state: HostState) -> list[Json]:
    """Return why a host waits, as values; each names the host that it waits for.

    A kind of reason has a few of them and a count. The reasons of a host that is ready or
    waits for its turn are those of the last check: to look for places again takes long.
    """
    if operation.ended_at:
        return []
    reader, now = expected.reader, expected.now
    blockers: Iterable[AnyBlocker] = operation.held_by
    if state is HostState.ANNOUNCED:
        blockers = obstacles.missing_consent(reader, operation, now=now)
    elif state not in {HostState.PLANNED, HostState.READY}:
        blockers = obstacles.why_waiting(reader, operation, now=now)
    reasons = bounded(actionable_first(blockers))
    return blockers_with_hosts(expected, operation, reasons)


def blockers_with_hosts(
    expected: Expected, operation: Operation, found: Iterable[AnyBlocker]
) -> list[Json]:
    """Return reasons as values, each with the host of the operation that it names."""
    reader = expected.reader
    reports = blocker_reports(reader, operation, found, now=expected.now)
    for report in reports:
        if report["host"] is None and report["operation"]:
            other = reader.get(Operation, report["operation"])
            report["host"] = None if other is None else other.host
    return reports


def _note(reader: Reader, operation: Operation, state: HostState) -> str:
    """Return why a host failed or was left out; empty: neither."""
    if state is HostState.FAILED:
        return failure_of(reader, operation.operation_id)
    return operators.note(operation.note) if state is HostState.SKIPPED else ""
