"""Rules about changes over time: IDs, incarnations, statuses and times.

These rules send no requests. They judge the documents of the newest version in their
order, from the first question to the end of a watch.
"""

from collections.abc import Iterator

from forewarn.instants import (
    DAY,
    MINUTE,
    SECOND,
    Micros,
    describe_duration,
    format_http_date,
)
from forewarn.protocol.events import EventType
from forewarn.testing.conformance.approval_rules import START_WITHIN
from forewarn.testing.conformance.check import Rule, Witness, against
from forewarn.testing.conformance.documents import (
    Document,
    Members,
    brief,
    describe,
    event_id,
    is_busy,
    is_order,
    not_before,
    shown,
    time_of,
)
from forewarn.testing.conformance.transcript import (
    CLOCKS_APART,
    Start,
    Step,
    Transcript,
    clocks_apart,
    is_begun,
    is_known_approved,
    is_same_cause,
    names_only_this_vm,
    starts_of,
)

A_CHANGE = "a document that changes while it is watched"
A_START = "an event that is Started while it is watched"
A_NEW_EVENT = "an event that appears while it is watched"

FAILURES = (EventType.REBOOT.value, EventType.REDEPLOY.value)
"""Types of events that show a failure. Such an event is Started from the beginning, so
it may replace another event in one step (5.5)."""

NOTICES: dict[str, Micros] = {
    EventType.FREEZE.value: 15 * MINUTE,
    EventType.REBOOT.value: 15 * MINUTE,
    EventType.REDEPLOY.value: 10 * MINUTE,
    EventType.TERMINATE.value: 5 * MINUTE,
}
"""Minimum notice of each type (5.1). The notice of Preempt is not guaranteed."""

DELETION_NOTICE_MAX: Micros = 15 * MINUTE
"""Maximum notice that a user can set for deletions (5.1)."""

NOTICE_FLOOR: Micros = 5 * SECOND
"""Minimum notice of a simulation at any speed, so that a client has time to act."""

NOTICE_ROUNDING: Micros = 2 * SECOND
"""Tolerance for notices, because dates are whole seconds."""

SILENCE: Micros = DAY
"""Time without requests after which the incarnation may restart (7.3)."""


def _of_step(step: Step, saw: str, complaint: str = "") -> Witness:
    return Witness(saw=saw, exchanges=step.exchanges, complaint=complaint)


# Ids.


def _kept_ids(transcript: Transcript) -> Iterator[Witness]:
    for step in transcript.steps():
        old, new = step.before.document.by_id, step.after.document.by_id
        for one, other in step.pairs():
            if _statuses(one, other) == ("Scheduled", "Started"):
                yield _of_step(step, f"{event_id(one)}, Scheduled and then Started")
        for came in new.keys() - old.keys():
            for lost in old.keys() - new.keys():
                if wrong := _other_id(step, old[lost], new[came]):
                    yield against(wrong, *step.exchanges)


def _statuses(old: Members, new: Members) -> tuple[object, object]:
    return old.get("EventStatus"), new.get("EventStatus")


def _other_id(step: Step, old: Members, new: Members) -> str:
    """Return a complaint if two events must be the same; empty if they may differ."""
    may_fail = new.get("EventSource") == "Platform" and new.get("EventType") in FAILURES
    lost, came = event_id(old), event_id(new)
    if not step.is_single:
        # Another event with the same cause may have existed between the two documents.
        return ""
    if is_begun(old, new) and not (may_fail and not new.get("Description")):
        return f"{lost} became {came} when it was Started: one event, two ids"
    is_doubled = _statuses(old, new) == ("Started", "Started") and not may_fail
    if is_doubled and is_same_cause(old, new):
        return (
            f"{lost} was Started and became {came}, which is Started too: one event, "
            "two ids"
        )
    return ""


def _no_id_returns(transcript: Transcript) -> Iterator[Witness]:
    gone: set[str] = set()
    for step in transcript.steps():
        old, new = step.before.document.by_id, step.after.document.by_id
        for back in sorted(gone & new.keys()):
            yield against(f"{back} was removed and is shown again", *step.exchanges)
        if gone:
            yield _of_step(step, f"{len(gone)} removed ids are not shown again")
        removed = old.keys() - new.keys()
        gone |= removed
        if step.after.reads > 1 and removed:
            yield Witness(
                saw=f"{min(removed)} is not shown again",
                exchanges=(step.after.document.exchange, step.after.last),
            )


# The incarnation.


def _rises(transcript: Transcript) -> Iterator[Witness]:
    for step in transcript.steps():
        before, after = step.before.document, step.after.document
        one, other = step.incarnations
        if one is None or other is None:
            continue
        if before.events != after.events:
            if other > one:
                yield _of_step(step, f"from {one} to {other} with a change")
        elif other == one + 1:
            yield against(
                f"the incarnation rose from {one} to {other}, but Events did not "
                f"change: {shown(after.exchange.payload)}",
                *step.exchanges,
            )


def _never_falls(transcript: Transcript) -> Iterator[Witness]:
    for step in transcript.steps():
        one, other = step.incarnations
        silent = step.after.document.exchange.at - step.before.last.at
        if one is None or other is None or other == one or silent >= SILENCE:
            continue
        saw = f"from {one} to {other}"
        yield _of_step(step, saw, f"the incarnation fell {saw}" if other < one else "")


# Statuses.


def _forward(transcript: Transcript) -> Iterator[Witness]:
    for step in transcript.steps():
        for old, new in step.pairs():
            statuses = _statuses(old, new)
            if statuses == ("Started", "Scheduled"):
                yield against(
                    f"{event_id(old)} was Started and is Scheduled again",
                    *step.exchanges,
                )
            elif statuses == ("Scheduled", "Started"):
                yield _of_step(step, f"{event_id(old)}: Scheduled, then Started")
        after = step.after.document.by_id
        for key, event in step.before.document.by_id.items():
            if key not in after:
                yield _of_step(step, f"{describe(event)}, then removed")


def _new_events(transcript: Transcript) -> Iterator[tuple[Step, Members]]:
    for step in transcript.steps():
        before = step.before.document.by_id
        for key, event in step.after.document.by_id.items():
            if key not in before:
                yield step, event


def _announced(transcript: Transcript) -> Iterator[Witness]:
    for step, event in _new_events(transcript):
        saw = f"{describe(event)} is new"
        is_started = event.get("EventStatus") == "Started"
        is_freeze = event.get("EventType") == EventType.FREEZE.value
        # If the step is not single, this client may have missed a document. A rule of
        # 2.3 judges an old event with a new ID.
        is_sure = step.is_single and step.after.settled
        is_sure = is_sure and not any(
            is_same_cause(old, event) for old in step.before.document.events
        )
        if is_started and is_freeze and is_sure:
            yield _of_step(step, saw, f"{saw}: it was never Scheduled")
        elif event.get("EventStatus") == "Scheduled":
            yield _of_step(step, saw)


def _same_event(transcript: Transcript) -> Iterator[Witness]:
    for step in transcript.steps():
        for old, new in step.pairs():
            wrong = ""
            for member in ("EventType", "EventSource", "ResourceType"):
                one, other = old.get(member), new.get(member)
                if one != other:
                    wrong = (
                        f"{member} of {event_id(old)} was {brief(one)} and is now "
                        f"{brief(other)}"
                    )
            yield _of_step(step, f"{describe(old)}, then {describe(new)}", wrong)


# Times.


def _kept_times(transcript: Transcript) -> Iterator[Witness]:
    for step in transcript.steps():
        for old, new in step.pairs():
            one, other = not_before(old), not_before(new)
            if one is None or other is None:
                continue
            saw = f"NotBefore of {event_id(old)} is {format_http_date(other)}"
            yield _of_step(
                step,
                saw,
                (f"{saw}, and was {format_http_date(one)}" if other < one else ""),
            )


def _timely_starts(transcript: Transcript) -> Iterator[Witness]:
    for step in transcript.steps():
        shown = step.after.document.exchange
        for start in starts_of(step):
            key = event_id(start.event)
            # A rule of 3.3 judges the effect of refused approvals.
            if transcript.is_approved(key, before=shown) or transcript.refusals(
                key, before=shown
            ):
                continue
            if not start.is_early:
                yield _of_step(step, _how_late(start))
                continue
            known = is_known_approved(transcript, key)
            is_own = names_only_this_vm(transcript, start.event)
            if known is False:
                wrong = "the endpoint reports it as not approved"
                yield against(f"{_how_late(start)}, and {wrong}", *step.exchanges)
            elif known is None and is_own and not transcript.others_approve:
                wrong = (
                    "this client did not approve it (if an agent, another VM or an "
                    "operator did, use --others-approve)"
                )
                yield against(f"{_how_late(start)}, and {wrong}", *step.exchanges)


def _how_late(start: Start) -> str:
    side = "before" if start.early > 0 else "after"
    length = describe_duration(abs(start.early))
    return f"{event_id(start.event)} was Started {length} {side} its NotBefore"


def _notices(transcript: Transcript) -> Iterator[Witness]:
    for step, event in _new_events(transcript):
        due = not_before(event)
        least = NOTICES.get(str(event.get("EventType")))
        if due is None or least is None or not step.after.settled:
            continue
        after = step.after.document
        polled = after.exchange.at - step.before.last.at
        notice, wanted = due - after.at, round(least / transcript.speed)
        is_short = notice < wanted - polled - _slack(after)
        saw = (
            f"{describe(event)} is new, {describe_duration(notice)} before its "
            "NotBefore"
        )
        wrong = f"{saw}: expected {describe_duration(wanted)}"
        yield _of_step(step, saw, wrong if is_short else "")


def _deletions(transcript: Transcript) -> Iterator[Witness]:
    most = max(round(DELETION_NOTICE_MAX / transcript.speed), NOTICE_FLOOR)
    # Any document can show that a notice is too long. Only a new event can show that it
    # is not.
    for newest in transcript.newest:
        for event in newest.document.events:
            notice = _deletion_notice(newest.document, event)
            if notice is not None and notice > most + _slack(newest.document):
                saw = _how_far(event, notice)
                yield against(
                    f"{saw}: expected {describe_duration(most)} at most",
                    newest.document.exchange,
                )
    for step, event in _new_events(transcript):
        notice = _deletion_notice(step.after.document, event)
        if notice is not None:
            yield _of_step(step, _how_far(event, notice))


def _deletion_notice(document: Document, event: Members) -> Micros | None:
    due = not_before(event)
    is_deletion = event.get("EventType") == EventType.TERMINATE.value
    return due - document.at if is_deletion and due is not None else None


def _how_far(event: Members, notice: Micros) -> str:
    return f"{describe(event)} is {describe_duration(notice)} before its NotBefore"


def _slack(document: Document) -> Micros:
    return NOTICE_ROUNDING + (0 if document.is_dated else CLOCKS_APART)


def _orders_start(transcript: Transcript) -> Iterator[Witness]:
    for step in transcript.steps():
        for start in starts_of(step):
            if is_order(start.event) and not start.is_early:
                yield _of_step(step, _how_late(start))
    for newest in transcript.newest:
        for event in filter(is_order, newest.document.events):
            due = not_before(event)
            if (
                due is None
                or newest.document.at > due
                or is_busy(newest.document, event)
            ):
                continue
            at, is_dated = time_of(newest.last)
            late = at - due
            if late > START_WITHIN + clocks_apart(is_dated=is_dated):
                yield against(
                    f"{describe(event)} is still Scheduled, {describe_duration(late)} "
                    "after its NotBefore",
                    *(newest.document.exchange, newest.last),
                )


RULES = (
    Rule("2.3", "an event keeps its id when it is Started", _kept_ids, needs=A_START),
    Rule(
        "2.3",
        "the id of a removed event is not shown again",
        _no_id_returns,
        needs="an event that is removed while it is watched",
    ),
    Rule(
        "2.7",
        "NotBefore is never moved to an earlier time",
        _kept_times,
        needs="an event that is Scheduled in two different documents",
    ),
    Rule(
        "2.10",
        "the incarnation rises with a change, and only then",
        _rises,
        needs=A_CHANGE,
    ),
    Rule("2.10", "the incarnation never falls", _never_falls, needs=A_CHANGE),
    Rule("4.1", "an event begins Scheduled", _announced, needs=A_NEW_EVENT),
    Rule(
        "4.1",
        "a status never goes back",
        _forward,
        needs="an event that is Started or removed while it is watched",
    ),
    Rule(
        "4.2",
        "an event does not start before its NotBefore",
        _timely_starts,
        needs="an event of this VM only that is Started without an approval while it "
        "is watched",
    ),
    Rule(
        "4.2",
        "a user's request starts at its NotBefore",
        _orders_start,
        needs="a Reboot or Redeploy of one VM that a user requested, watched until it "
        "is Started after its NotBefore",
    ),
    Rule(
        "4.4",
        "an event keeps its type and source",
        _same_event,
        needs="an event that is in two different documents",
    ),
    Rule(
        "5.1",
        "the notice is long enough",
        _notices,
        needs="an event that is announced after another one, or more than five minutes "
        "after the first request",
    ),
    Rule(
        "5.1",
        "a deletion is announced at most 15 minutes ahead",
        _deletions,
        needs="a Terminate event that appears while it is watched",
    ),
)
