"""Decide from the endpoint's answers whether an event still exists.

When an event has ended, its handlers recover. A recovery during the impact does harm,
so answers without the event must repeat for some time. That time depends on the kind of
answer and on how far the event had come.

Only time in which the endpoint answers counts. Errors, timeouts and unreadable answers
are no evidence: they are not inputs, and their time does not count.

`TABLE` has every transition. Pure.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace

from forewarn.agent.core import names
from forewarn.agent.core.model import Consent, Polled, Presence, Task
from forewarn.agent.core.policy import GoneAfter
from forewarn.agent.core.table import follow
from forewarn.instants import Micros, cut_to_second, describe_duration, format_instant
from forewarn.protocol.notices import STARTED, Notice


class Answer(enum.Enum):
    """The evidence of one answer about one event."""

    LISTED = "listed"
    """A document lists the event, and does not show that it no longer names this VM.
    Unreadable members do not matter."""
    MISSING = "not listed"
    """A document with a higher incarnation than the last one that listed the event does
    not list it. Only such a document can follow that one (clause 2.10)."""
    RESET = "not listed after a reset"
    """A document does not list the event, and its incarnation is not higher: the
    metadata server was restarted, or another one answers."""
    EMPTY = "empty"
    """Status 200 with an empty body: no events, and no incarnation to compare."""
    UNREADABLE = "not readable"
    """A document does not list the event, and has an unreadable entry that may be this
    event."""
    RENAMED = "another ID"
    """A document lists the same maintenance under a new EventId."""
    LONG_ENOUGH = "long enough"
    """Answers have said the same for long enough."""


TABLE: Mapping[tuple[Presence, Answer], Presence] = {
    (Presence.LISTED, Answer.LISTED): Presence.LISTED,
    (Presence.LISTED, Answer.MISSING): Presence.MISSING,
    (Presence.LISTED, Answer.RESET): Presence.RESET,
    (Presence.LISTED, Answer.EMPTY): Presence.EMPTY,
    (Presence.LISTED, Answer.UNREADABLE): Presence.LISTED,
    (Presence.LISTED, Answer.RENAMED): Presence.LISTED,
    (Presence.MISSING, Answer.LISTED): Presence.LISTED,
    (Presence.MISSING, Answer.MISSING): Presence.MISSING,
    (Presence.MISSING, Answer.RESET): Presence.RESET,
    # A document is better evidence than an empty body.
    (Presence.MISSING, Answer.EMPTY): Presence.MISSING,
    (Presence.MISSING, Answer.UNREADABLE): Presence.MISSING,
    (Presence.MISSING, Answer.RENAMED): Presence.LISTED,
    (Presence.MISSING, Answer.LONG_ENOUGH): Presence.GONE,
    (Presence.EMPTY, Answer.LISTED): Presence.LISTED,
    (Presence.EMPTY, Answer.MISSING): Presence.MISSING,
    (Presence.EMPTY, Answer.RESET): Presence.RESET,
    (Presence.EMPTY, Answer.EMPTY): Presence.EMPTY,
    (Presence.EMPTY, Answer.UNREADABLE): Presence.EMPTY,
    (Presence.EMPTY, Answer.RENAMED): Presence.LISTED,
    (Presence.EMPTY, Answer.LONG_ENOUGH): Presence.GONE,
    # After a reset, a higher incarnation is not evidence until an event is listed
    # again.
    (Presence.RESET, Answer.LISTED): Presence.LISTED,
    (Presence.RESET, Answer.MISSING): Presence.RESET,
    (Presence.RESET, Answer.RESET): Presence.RESET,
    (Presence.RESET, Answer.EMPTY): Presence.RESET,
    (Presence.RESET, Answer.UNREADABLE): Presence.RESET,
    (Presence.RESET, Answer.RENAMED): Presence.LISTED,
    (Presence.RESET, Answer.LONG_ENOUGH): Presence.GONE,
    # One document may be an old copy.
    (Presence.GONE, Answer.LISTED): Presence.RETURNING,
    (Presence.GONE, Answer.MISSING): Presence.GONE,
    (Presence.GONE, Answer.RESET): Presence.GONE,
    (Presence.GONE, Answer.EMPTY): Presence.GONE,
    (Presence.GONE, Answer.UNREADABLE): Presence.GONE,
    (Presence.RETURNING, Answer.LISTED): Presence.LISTED,
    (Presence.RETURNING, Answer.MISSING): Presence.GONE,
    (Presence.RETURNING, Answer.RESET): Presence.GONE,
    (Presence.RETURNING, Answer.EMPTY): Presence.GONE,
    (Presence.RETURNING, Answer.UNREADABLE): Presence.RETURNING,
}

ABSENT = frozenset({Presence.MISSING, Presence.EMPTY, Presence.RESET})
"""Answers lack the event, but not for long enough yet."""


def step(presence: Presence, answer: Answer) -> Presence:
    """Return the presence after an answer; raises IllegalStepError."""
    return follow(TABLE, presence, answer, "an event that is {} cannot be {}")


def classify(task: Task, notice: Notice | None, polled: Polled) -> Answer:
    """Return the evidence of an answer about a task's event; `notice` is its entry."""
    if polled.is_empty:
        return Answer.EMPTY
    if notice is not None:
        return Answer.LISTED
    if polled.is_partial:
        return Answer.UNREADABLE
    if task.incarnation is None or (polled.incarnation or 0) > task.incarnation:
        return Answer.MISSING
    return Answer.RESET


def judged(
    task: Task, answer: Answer, gone_after: GoneAfter, *, heard: Micros, now: Micros
) -> Task:
    """Return the task after an answer; only its presence and its times change.

    `heard` is the total time for which the endpoint has answered (`Polled.heard`).
    """
    presence = step(task.presence, answer)
    is_doubted = presence in ABSENT
    if presence is not task.presence:
        return replace(
            task,
            presence=presence,
            absent_at=now if is_doubted else 0,
            absent_from=heard if is_doubted else 0,
        )
    if (
        not is_doubted
        or answer is Answer.UNREADABLE
        or heard - task.absent_from < patience(task, gone_after, now)
    ):
        return task
    gone = step(presence, Answer.LONG_ENOUGH)
    return replace(task, presence=gone, absent_at=0, absent_from=0)


def patience(task: Task, gone_after: GoneAfter, now: Micros) -> Micros:
    """Return how long answers must lack the event until it counts as ended."""
    return max(
        gone_after.scheduled,
        gone_after.started if may_have_started(task, now) else 0,
        gone_after.empty if task.presence is Presence.EMPTY else 0,
        gone_after.reset if task.presence is Presence.RESET else 0,
    )


def may_have_started(task: Task, now: Micros) -> bool:
    """Return whether the impact may be in progress, even if the event is Scheduled."""
    not_before = task.notice.not_before
    return (
        task.notice.has_started
        or task.consent in {Consent.WANTED, Consent.GIVEN}
        or (not_before is not None and not_before <= now)
    )


class Renamed:
    """Finds events that a document lists under a new EventId.

    The protocol forbids new IDs (clause 2.3), but some servers assign them. Without
    this class, an event that starts under a new ID would be unknown, and the agent
    would recover from the old one during the impact.
    """

    def __init__(self, unknown: Iterable[Notice]) -> None:
        """Search among the events that have no task."""
        self._found: dict[object, deque[Notice]] = {}
        for notice in unknown:
            self._found.setdefault(_maintenance(notice), deque()).append(notice)

    def take(self, task: Task) -> Notice | None:
        """Return the notice under which the event of a task continues, or None.

        Type, source and resources must be the same. Either the notice has started, or
        both are Scheduled with the same NotBefore.
        """
        before = task.notice
        if not before.resources:
            return None
        for as_before in (before, replace(before, status=STARTED)):
            same = self._found.get(_maintenance(as_before))
            if same:
                return same.popleft()
        return None


def _maintenance(notice: Notice) -> object:
    """Return a key that is equal for two notices of the same maintenance."""
    return (
        notice.event_type,
        notice.source,
        names.keys_of(notice.resources),
        notice.has_started,
        None if notice.has_started else notice.not_before,
    )


def explain(task: Task, gone_after: GoneAfter, now: Micros) -> str:
    """Return a sentence on why the event may have ended or returned.

    The result is empty if there is no doubt.
    """
    if task.presence is Presence.RETURNING:
        return "the last document lists it again; the next one decides"
    if task.presence not in ABSENT:
        return ""
    long = patience(task, gone_after, now)
    # A document may list the event with other VMs only (clause 4.6).
    has_others = task.mine and task.presence is not Presence.EMPTY
    since, until = (
        format_instant(cut_to_second(at))
        for at in (task.absent_at, task.absent_at + long)
    )
    return (
        f"{_ABOUT[task.presence]}{' for this VM' * has_others} since {since}; it counts as ended after "
        f"{describe_duration(long)} of such answers, at {until} at the earliest"
    )


_ABOUT: Mapping[Presence, str] = {
    Presence.MISSING: "no document lists it",
    Presence.EMPTY: "the endpoint answers with an empty body",
    Presence.RESET: "the incarnation was reset and no document lists it",
}
