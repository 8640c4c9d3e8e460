"""The requests about a host of a campaign that are accepted now, and why others are not.

The rules are those of the decisions, so a page computes none. For operators only.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from forewarn.control.rules import (
    campaign_hosts,
    steerable,
    steerable_hosts,
    waits,
)
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import UNSTARTED_STATES, Operation, OperationState
from forewarn.reporting.expected import Expected
from forewarn.store import kinds

Json: TypeAlias = dict[str, Any]


def host_verbs(
    expected: Expected, host: str, operations: Sequence[Operation]
) -> list[Json]:
    """Return the requests that a host can get, each with its refusal.

    `operations` are those of the campaign on the host, in the order of time.
    """
    last = operations[-1] if operations else None
    return [
        {
            "verb": verb,
            "error": None if refusal is None else str(refusal),
            "hint": "" if refusal is None else refusal.hint,
        }
        for verb, refusal in _refusals(expected, host, last)
    ]


def _refusals(
    expected: Expected, host: str, last: Operation | None
) -> Iterator[tuple[str, RefusedError | None]]:
    campaign = expected.campaign
    ended = steerable.why_ended(campaign)
    is_deferred = _is_deferred(expected, host)
    no_retry = steerable_hosts.why_no_retry(campaign, host, is_deferred=is_deferred)
    yield "campaign-retry", ended or no_retry
    yield "campaign-skip", ended or _why_no_skip(expected, host, last)
    yield "expedite", _why_no_expedite(expected, host)
    if last is not None and last.state is not OperationState.PLANNED:
        is_early = last.state in UNSTARTED_STATES
        text = steerable_hosts.too_late([last], str)
        yield "cancel", None if is_early else RefusedError(text)


def _is_deferred(expected: Expected, host: str) -> bool:
    """Return whether a host waits for another attempt to move its VMs away."""
    waiting = expected.reader.select(kinds.OPERATIONS_THAT_WAIT, waits.for_pause(host))
    return any(operation.request == expected.campaign.request for operation in waiting)


def _why_no_skip(
    expected: Expected, host: str, last: Operation | None
) -> RefusedError | None:
    campaign = expected.campaign
    if host in campaign.failed_hosts or (last is None and host in expected.unplanned):
        return None
    if last is not None and not last.ended_at:
        return steerable_hosts.why_started(last)
    is_done = campaign_hosts.is_done_in(expected.reader, campaign.request, host)
    return steerable_hosts.why_not_waiting(campaign, host, is_done=is_done)


def _why_no_expedite(expected: Expected, host: str) -> RefusedError | None:
    """Return why the maintenance of no VM on a host can be expedited; None: it can."""
    reader = expected.reader
    if not reader.select(kinds.VMS_ON_HOST, host, limit=1):
        return RefusedError(f"host {host} has no VM")
    if host in expected.unplanned:
        return None
    there = reader.select(kinds.OPEN_OPERATIONS_OF_HOST, host)
    if any(map(steerable_hosts.can_be_chosen, there)):
        return None
    return steerable_hosts.nothing_to_choose(f"host {host}")
