"""Events that started before their NotBefore, and whether they were approved.

A document does not show approvals. One VM knows only its own POSTs. If the endpoint is
forewarn and its operator allows it, the extension `/metadata/forewarn/events` shows
them too. In all other cases the user must say whether others approve.
"""

from dataclasses import dataclass

from forewarn.instants import MINUTE, SECOND, Micros
from forewarn.protocol.versions import NEWEST
from forewarn.testing.conformance.documents import (
    Members,
    event_id,
    not_before,
    read_document,
    texts,
)
from forewarn.testing.conformance.transcript import Step, Transcript

SAME_CAUSE = ("EventType", "Resources", "EventSource", "Description")
"""Members that identify an event. If one event disappears and another one with the same
values appears as Started, both are the same event."""

CLOCKS_APART: Micros = MINUTE
"""Maximum difference between the client's clock and the platform's."""

DATES_APART: Micros = 10 * SECOND
"""Maximum difference between the endpoint's clock and the one that starts events."""


def clocks_apart(*, is_dated: bool) -> Micros:
    """Return how far two clocks may differ.

    `is_dated`: the time comes from the endpoint's Date header, not from the client.
    """
    return DATES_APART if is_dated else CLOCKS_APART


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """An event that was shown as Scheduled and then as Started."""

    event: Members
    """The event while it was Scheduled."""
    due: Micros
    """Its NotBefore."""
    early: Micros
    """Time from the read that showed the event as Started until NotBefore; may be
    negative."""
    step: Step

    @property
    def is_early(self) -> bool:
        """Tell whether the event started earlier than a difference of clocks can
        explain."""
        is_dated = self.step.after.document.is_dated
        return self.early > clocks_apart(is_dated=is_dated)


def of_step(step: Step) -> list[Start]:
    """Return the events that a step started, even if their IDs changed."""
    after = step.after.document
    found: list[Start] = []
    for key, event in step.before.document.by_id.items():
        due = not_before(event)
        others = after.events if step.is_single else ()
        now = after.by_id.get(key) or next(
            (each for each in others if is_begun(event, each)), None
        )
        if due is None or now is None or now.get("EventStatus") != "Started":
            continue
        found.append(Start(event=event, due=due, early=due - after.at, step=step))
    return found


def early(seen: Transcript, step: Step) -> list[Start]:
    """Return the events that started too early without an approval by this client."""
    shown = step.after.document.exchange
    return [
        start
        for start in of_step(step)
        if start.is_early and not seen.is_approved(event_id(start.event), before=shown)
    ]


def names_only_this_vm(seen: Transcript, event: Members) -> bool:
    """Tell whether an event names one VM, and it is this one if its name is known."""
    names = texts(event.get("Resources")) or []
    return len(names) == 1 and (not seen.name or names[0] == seen.name)


def is_begun(old: Members, new: Members) -> bool:
    """Tell whether the new event is the old one, now Started and with another ID."""
    statuses = (old.get("EventStatus"), new.get("EventStatus"))
    return statuses == ("Scheduled", "Started") and is_same_cause(old, new)


def is_same_cause(old: Members, new: Members) -> bool:
    """Tell whether two events agree in all members that identify an event."""
    return all(old.get(member) == new.get(member) for member in SAME_CAUSE)


def is_known_approved(seen: Transcript, key: str) -> bool | None:
    """Return whether an event was approved according to forewarn's extension.

    None: the extension did not show this event.
    """
    for exchange in seen.own_events:
        for event in read_document(exchange, NEWEST).events:
            approved: object = event.get("Approved")
            if event_id(event) == key and isinstance(approved, bool):
                return approved
    return None
