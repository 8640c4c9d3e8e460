"""Checks of what only time shows: ids, numbers and statuses over many documents.

They ask nothing themselves; they judge what a `WatchingClient` was shown while the
other checks ran, and for as long as somebody watched afterwards.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from forewarn.instants import (
    MINUTE,
    Micros,
    describe_duration,
    parse_http_date,
    parse_instant,
)
from forewarn.testing.client import Client
from forewarn.testing.expect import Check, NotCheckableError, expect, texts
from forewarn.testing.watching import Shown, WatchingClient

SAME_CAUSE = ("EventType", "Resources", "EventSource", "Description")
"""Two events that agree in these, one gone as the other comes Started, are one."""

FAILURES = ("Reboot", "Redeploy")
"""What a failure is shown as: Started from its beginning, it may take the place of
another in one step (5.5)."""

CLOCKS_APART: Micros = MINUTE
"""By so much two machines' clocks may differ: what starts earlier starts too early."""


def _shown(client: Client) -> list[Shown]:
    if not isinstance(client, WatchingClient):
        raise NotCheckableError("nobody watched")
    return client.shown


def _changes(client: Client) -> list[tuple[Shown, Shown]]:
    found = list(pairwise(_shown(client)))
    if not found:
        raise NotCheckableError("the document did not change while it was watched")
    return found


def _by_id(shown: Shown) -> dict[str, dict[str, Any]]:
    return {str(event.get("EventId")).upper(): event for event in shown.events}


def _kept_ids(client: Client) -> None:
    gone: set[str] = set()
    for before, after in _changes(client):
        old, new = _by_id(before), _by_id(after)
        back = gone & set(new)
        expect(not back, f"{sorted(back)} had gone, and is there again")
        for event_id in set(new) - set(old):
            for lost in set(old) - set(new):
                one, other = old[lost], new[event_id]
                expect(
                    not _is_begun(one, other),
                    f"{lost} became {event_id} when it was Started: one event, two ids",
                )
                expect(
                    not (_is_one_step(before, after) and _is_doubled(one, other)),
                    f"{lost} was Started, and became {event_id}, which is Started "
                    "too: one event, two ids",
                )
        gone |= set(old) - set(new)


def _is_begun(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Tell whether the new event is the old one, Started."""
    statuses = (old.get("EventStatus"), new.get("EventStatus"))
    return statuses == ("Scheduled", "Started") and _is_same_cause(old, new)


def _is_doubled(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Tell whether both are Started, and are one event, since neither is a failure."""
    statuses = (old.get("EventStatus"), new.get("EventStatus"))
    may_fail = new.get("EventSource") == "Platform" and new.get("EventType") in FAILURES
    return (
        statuses == ("Started", "Started") and _is_same_cause(old, new) and not may_fail
    )


def _is_same_cause(old: dict[str, Any], new: dict[str, Any]) -> bool:
    return all(old.get(member) == new.get(member) for member in SAME_CAUSE)


def _is_one_step(before: Shown, after: Shown) -> bool:
    """Tell whether nothing came between the two that was not seen (2.10)."""
    one, other = before.incarnation, after.incarnation
    return not (isinstance(one, int) and isinstance(other, int) and other > one + 1)


def _numbers(client: Client) -> None:
    contents: dict[object, tuple[Any, ...]] = {}
    for before, after in _changes(client):
        one, other = before.incarnation, after.incarnation
        if isinstance(one, int) and isinstance(other, int) and other < one:
            # A scope that was disabled begins again at 1 (7.3).
            expect(other == 1, f"the incarnation fell from {one} to {other}")
            contents.clear()
        for each in (before, after):
            known = contents.setdefault(each.incarnation, each.events)
            expect(
                known == each.events,
                f"incarnation {each.incarnation} had two contents: {list(known)} and "
                f"{list(each.events)}",
            )


def _twice_seen(client: Client) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for before, after in _changes(client):
        old, new = _by_id(before), _by_id(after)
        for event_id in old.keys() & new.keys():
            yield old[event_id], new[event_id]


def _forward(client: Client) -> None:
    for old, new in _twice_seen(client):
        expect(
            (old["EventStatus"], new["EventStatus"]) != ("Started", "Scheduled"),
            f"{old['EventId']} was Started, and is Scheduled",
        )


def _same_event(client: Client) -> None:
    for old, new in _twice_seen(client):
        for member in ("EventType", "EventSource", "ResourceType"):
            expect(
                old.get(member) == new.get(member),
                f"{member} of {old['EventId']} was {old.get(member)!r}, and is "
                f"{new.get(member)!r}",
            )


def _timely_starts(client: Client) -> None:
    judged = 0
    for before, after in _changes(client):
        started = _by_id(after)
        for event_id, event in _by_id(before).items():
            due = _due(event)
            if due is None or not _is_left_alone(client, event_id, event):
                continue
            now = started.get(event_id)
            if now is None:
                # Another id has been found fault with already (2.3).
                others = started.values()
                now = next((each for each in others if _is_begun(event, each)), None)
            if now is None or now.get("EventStatus") != "Started":
                continue
            judged += 1
            early = due - after.at
            expect(
                early <= CLOCKS_APART,
                f"{event_id} was Started {describe_duration(max(early, 0))} before "
                "its NotBefore, and was not approved from here",
            )
    if not judged:
        raise NotCheckableError(
            "no event of this VM alone started, unapproved, while it was watched"
        )


def _is_left_alone(client: Client, event_id: str, event: dict[str, Any]) -> bool:
    """Tell whether nobody is known who may have approved an event."""
    if not isinstance(client, WatchingClient):
        return False
    names = texts(event.get("Resources")) or ()
    is_own = len(names) == 1 and (not client.name or names[0] == client.name)
    return is_own and not any(event_id in body for body in client.posted)


def _due(event: dict[str, Any]) -> Micros | None:
    """Return NotBefore of a Scheduled event, also where it is not written as in 2.7."""
    text = event.get("NotBefore")
    if event.get("EventStatus") != "Scheduled" or not isinstance(text, str):
        return None
    for parse in (parse_http_date, parse_instant):
        try:
            return parse(text)
        except (ValueError, OverflowError):
            continue
    return None


def _approved_starts(client: Client) -> None:
    shown = [_by_id(each) for each in _shown(client)]
    approved = client.approved if isinstance(client, WatchingClient) else []
    if not approved:
        raise NotCheckableError("nothing was approved")
    for event_id in approved:
        seen = [each[event_id]["EventStatus"] for each in shown if event_id in each]
        if "Started" in seen:
            return
        expect(
            not seen or event_id in shown[-1],
            f"{event_id} was approved, and went without being shown Started",
        )
    raise NotCheckableError(
        "what was approved has not started while it was watched: others may have to "
        "approve it too"
    )


CHECKS = (
    Check(clause="2.3", title="an event keeps its id, none returns", run=_kept_ids),
    Check(clause="2.10", title="one number, one content, over time", run=_numbers),
    Check(clause="4.1", title="nothing goes backwards", run=_forward),
    Check(clause="4.2", title="nothing starts before its time", run=_timely_starts),
    Check(clause="4.2", title="what is approved is seen Started", run=_approved_starts),
    Check(clause="4.4", title="an event stays what it is", run=_same_event),
)
