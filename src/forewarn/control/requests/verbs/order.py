"""What the verbs have in common: an operator's wishes, and what every order refuses.

It knows no verb: which event and which notice belong to one is said in `hosts`
and `vms`.
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
    """What an operator may say otherwise about any order."""

    duration_seconds: int | None = None
    not_before: Micros | None = None
    """By hand: kept as it is, not divided by speed."""
    description: str | None = None
    emergency: bool = False
    """An emergency repair: table 5.9 has a text of its own for it."""
    at_once: int | None = None
    """How many hosts of the order are announced or worked on at once; None: as the
    policy says."""


def wishes_of(given: Given) -> OrderOptions:
    """Return what an order says otherwise."""
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
    """Return what an operator has said, or what is usual."""
    return usual if said is None else said


def adapted(change: Change, wishes: OrderOptions) -> Change:
    """Return what an order does, with what the operator says of it."""
    return replace(
        change,
        description=either(wishes.description, change.description),
        duration_seconds=either(wishes.duration_seconds, change.duration_seconds),
    )


def not_before_of(
    work: Work, wishes: OrderOptions, notice: Micros, event_type: EventType
) -> Micros:
    """Return when the notice of an order ends whose least notice is `notice` (5.1).

    NotBefore is the whole second after that.

    Raises RefusedError where the operator wishes for less.
    """
    earliest = work.now + notice
    if wishes.not_before is None:
        return earliest
    # A wish for the very second of the least notice is fine, though the clock may
    # have passed its beginning: it becomes the first second with enough notice.
    if wishes.not_before < earliest - SECOND:
        raise RefusedError(
            f"{event_type.value} needs a notice of at least "
            f"{describe_duration(notice)} (5.1)",
            hint="give a later time, or none",
        )
    return max(earliest, round_up_to_second(wishes.not_before))


def check_targets(names: Sequence[str], what: str) -> None:
    """Refuse an order for nothing, for too much, or for one thing twice."""
    if not names:
        raise RefusedError(f"name at least one {what}")
    if len(names) > TARGETS_MAX:
        raise RefusedError(f"one order takes at most {TARGETS_MAX} {what}s")
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise RefusedError(f"{what} {twice[0]} is named twice")
