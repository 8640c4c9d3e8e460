"""Why an order about one host of a campaign is refused now: decisions and reports ask.

Pure.
"""

from collections.abc import Callable, Iterable

from forewarn.campaigns.record import CampaignRecord
from forewarn.problems import listed
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import (
    STARTED_STATES,
    UNSTARTED_STATES,
    Operation,
    Verb,
)


def why_no_retry(
    campaign: CampaignRecord, host: str, *, is_deferred: bool
) -> RefusedError | None:
    """Return why a host cannot be retried; None: it can.

    `is_deferred`: its VMs could not be moved away, and it waits for another attempt.
    """
    if is_deferred or host in campaign.failed_hosts:
        return None
    return RefusedError(
        f"host {host} is not a failed host of campaign {campaign.name}",
        hint=f"Run `forewarn campaign show {campaign.name}` to see its failed hosts.",
    )


def why_started(operation: Operation) -> RefusedError | None:
    """Return why the host of an open operation cannot be skipped; None: it can."""
    if operation.state not in STARTED_STATES:
        return None
    name = operation.operation_id
    return RefusedError(
        f"host {operation.host} has started ({name}) and cannot be skipped",
        hint=f"Run `forewarn explain {name}` to see its status.",
    )


def why_not_waiting(
    campaign: CampaignRecord, host: str, *, is_done: bool
) -> RefusedError:
    """Return why a host cannot be skipped that has neither failed nor an open operation."""
    if is_done:
        return RefusedError(f"host {host} is done in campaign {campaign.name}")
    return RefusedError(
        f"host {host} does not wait in campaign {campaign.name}",
        hint=f"Run `forewarn campaign show {campaign.name} --all` to see its hosts.",
    )


def too_late(operations: Iterable[Operation], called: Callable[[str], str]) -> str:
    """Return why operations cannot be cancelled: those in the same state together.

    `called` returns the name of an operation by its ID.
    """
    names: dict[str, list[str]] = {}
    for operation in operations:
        has_started = operation.state in STARTED_STATES
        state = "" if has_started else operation.state.value
        names.setdefault(state, []).append(called(operation.operation_id))
    sentences: list[str] = []
    for state, group in names.items():
        is_one = len(group) == 1
        if state:
            why = f"{'is' if is_one else 'are'} already {state}"
        else:
            why = f"{'has' if is_one else 'have'} started and cannot be cancelled"
        sentences.append(f"{listed(group)} {why}")
    return "; ".join(sentences)


def can_be_chosen(operation: Operation) -> bool:
    """Return whether a tenant or an operator can defer or expedite an open operation."""
    return operation.verb is Verb.MAINTAIN and operation.state in UNSTARTED_STATES


def nothing_to_choose(target: str) -> RefusedError:
    """Return why the maintenance of a target cannot be deferred or expedited."""
    return RefusedError(
        f"no maintenance of {target} is planned or announced",
        hint="Run `forewarn operations` to see what has started.",
    )
