"""Common parts of the verbs: options of a request, and checks for all requests.

This module knows no verb: `hosts` and `vms` have the events and notices of each.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from forewarn.control.requests.admission import Change
from forewarn.control.transactions.work import Work
from forewarn.instants import SECOND, Micros, describe_duration, round_up_to_second
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.events import EventType
from forewarn.verbs.model import TARGETS_MAX, Given

T = TypeVar("T")

REPAIRING = "Host server is undergoing an emergency repair."


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderOptions:
    """Options of a request."""

    duration_seconds: int | None = None
    not_before: Micros | None = None
    """Time from the caller. It is not divided by `speed`."""
    description: str | None = None
    emergency: bool = False
    """Whether the maintenance is an emergency repair, which has a separate description
    (table 5.9)."""
    at_once: int | None = None
    """Maximum hosts that are announced or running at once; None: as in the policy."""


def wishes_of(given: Given) -> OrderOptions:
    """Return the options of a request."""
    return OrderOptions(
        duration_seconds=given.number("duration"),
        not_before=given.number("not_before"),
        description=given.text("description")
        if "description" in given.values
        else None,
        emergency=bool(given.number("emergency")),
        at_once=given.number("at_once"),
    )


def either(said: T | None, usual: T) -> T:
    """Return the given value, or the usual one if it is None."""
    return usual if said is None else said


def adapted(change: Change, wishes: OrderOptions) -> Change:
    """Return the effect of a request with its options."""
    return replace(
        change,
        description=either(wishes.description, change.description),
        duration_seconds=either(wishes.duration_seconds, change.duration_seconds),
    )


def not_before_of(
    work: Work, wishes: OrderOptions, notice: Micros, event_type: EventType
) -> Micros:
    """Return the end of the notice of a request with the minimum notice `notice` (5.1).

    NotBefore is rounded up to the next whole second. Raises RefusedError if the caller
    asks for less notice.
    """
    earliest = work.now + notice
    if wishes.not_before is None:
        return earliest
    # The second in which the minimum notice ends is valid even if the clock has passed
    # its start: it becomes the first second with enough notice.
    if wishes.not_before < earliest - SECOND:
        raise RefusedError(
            f"{event_type.value} needs a notice of at least "
            f"{describe_duration(notice)} (5.1)",
            hint="Use a later time, or omit it.",
        )
    return max(earliest, round_up_to_second(wishes.not_before))


def check_targets(names: Sequence[str], what: str) -> None:
    """Refuse no targets, too many targets, and duplicates."""
    if not names:
        raise RefusedError(f"name at least one {what}")
    if len(names) > TARGETS_MAX:
        raise RefusedError(f"one request can name at most {TARGETS_MAX} {what}s")
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise RefusedError(f"{what} {twice[0]} is named twice")
