"""Checks of what only time shows: ids, numbers and statuses over many documents.

They ask nothing themselves; they judge what a `WatchingClient` was shown while the
other checks ran, and for as long as somebody watched afterwards.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from forewarn.testing.client import Client
from forewarn.testing.expect import Check, NotCheckableError, expect
from forewarn.testing.watching import Shown, WatchingClient

SAME_CAUSE = ("EventType", "Resources", "EventSource", "Description")
"""Two events that agree in these, one gone as the other comes Started, are one."""


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
                expect(
                    not _is_same(old[lost], new[event_id]),
                    f"{lost} became {event_id} when it was Started: one event, two ids",
                )
        gone |= set(old) - set(new)


def _is_same(old: dict[str, Any], new: dict[str, Any]) -> bool:
    return (
        old.get("EventStatus") == "Scheduled"
        and new.get("EventStatus") == "Started"
        and all(old.get(member) == new.get(member) for member in SAME_CAUSE)
    )


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
    Check(clause="4.2", title="what is approved is seen Started", run=_approved_starts),
    Check(clause="4.4", title="an event stays what it is", run=_same_event),
)
