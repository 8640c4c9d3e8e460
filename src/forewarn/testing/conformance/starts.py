"""Which events started before their time, and whether anybody had approved them.

No document says who approved an event. What one VM knows are its own POSTs, and, where
the endpoint is forewarn and its operator allows it, what the extension
`/metadata/forewarn/events` says. Anything else is for the user to say.
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
"""Two events that agree in these, one removed as the other comes Started, are one."""

CLOCKS_APART: Micros = MINUTE
"""By so much our clock and the platform's may differ."""

DATES_APART: Micros = 10 * SECOND
"""By so much the endpoint's own clock may differ from the one that starts events."""


def clocks_apart(*, is_dated: bool) -> Micros:
    """Return how far two clocks may differ; dated: both are the endpoint's."""
    return DATES_APART if is_dated else CLOCKS_APART


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """An event that was seen Scheduled, and then Started."""

    event: Members
    """As it was Scheduled."""
    due: Micros
    """Its NotBefore."""
    early: Micros
    """How long before that it was seen Started; negative: after it."""
    step: Step

    @property
    def is_early(self) -> bool:
        """Tell whether it started too early to be explained by two clocks."""
        is_dated = self.step.after.document.is_dated
        return self.early > clocks_apart(is_dated=is_dated)


def of_step(step: Step) -> list[Start]:
    """Return the events that a step started, by whatever id they go afterwards."""
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
    """Return those that started too early, and were not approved from here."""
    shown = step.after.document.exchange
    return [
        start
        for start in of_step(step)
        if start.is_early and not seen.is_approved(event_id(start.event), before=shown)
    ]


def names_only_this_vm(seen: Transcript, event: Members) -> bool:
    """Tell whether an event names one VM, which is this one as far as it is known."""
    names = texts(event.get("Resources")) or []
    return len(names) == 1 and (not seen.name or names[0] == seen.name)


def is_begun(old: Members, new: Members) -> bool:
    """Tell whether the new event is the old one, Started under another id."""
    statuses = (old.get("EventStatus"), new.get("EventStatus"))
    return statuses == ("Scheduled", "Started") and is_same_cause(old, new)


def is_same_cause(old: Members, new: Members) -> bool:
    """Tell whether two events agree in everything that says what they are."""
    return all(old.get(member) == new.get(member) for member in SAME_CAUSE)


def is_known_approved(seen: Transcript, key: str) -> bool | None:
    """Return what forewarn's extension says of an event's approval; None: nothing."""
    for exchange in seen.own_events:
        for event in read_document(exchange, NEWEST).events:
            approved: object = event.get("Approved")
            if event_id(event) == key and isinstance(approved, bool):
                return approved
    return None
