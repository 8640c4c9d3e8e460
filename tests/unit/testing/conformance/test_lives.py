"""Tests of changes over time that look like violations, and of approvals."""

from dataclasses import replace
from typing import Any

import pytest

from forewarn.instants import SECOND
from forewarn.testing.client import Answer
from forewarn.testing.conformance.check import Failed, NotTried, Passed, Verdict
from forewarn.testing.conformance.checks import RULES
from tests.support.shown_documents import START, Story, event, key

RULE_BY_TITLE = {rule.title: rule for rule in RULES}

TIMELY = "an event does not start before its NotBefore"
STARTED = "an approved event is shown as Started"
FREEZE: dict[str, Any] = {"kind": "Freeze"}


def judged(title: str, story: Story) -> Verdict:
    return RULE_BY_TITLE[title].judge(story.seen)


def broken(story: Story) -> list[str]:
    return [rule.title for rule in RULES if isinstance(rule.judge(story.seen), Failed)]


def early(**options: Any) -> Story:
    """Return an event that starts 15 minutes before its time."""
    return Story(**options).show(event())


def test_start_that_others_may_have_approved_is_not_evidence() -> None:
    shared: dict[str, Any] = {"Resources": ["vm_0", "vm_1"]}
    for story in (
        early(others_approve=True).show(event(status="Started")),
        early(name="vm_7").show(event(status="Started")),
        Story().show(event(**shared)).show(event(status="Started", **shared)),
        early().approve(1).show(event(status="Started")),
    ):
        assert isinstance(judged(TIMELY, story), NotTried)
        assert broken(story) == []


@pytest.mark.parametrize("is_approved", [True, False])
def test_extension_reports_whether_an_event_was_approved(
    is_approved: bool,
) -> None:
    shared: dict[str, Any] = {"Resources": ["vm_0", "vm_1"]}
    story = Story(others_approve=True)
    story.own_events = [{"EventId": key(1), "Approved": is_approved}]
    story.show(event(**shared)).show(event(status="Started", **shared))
    verdict = judged(TIMELY, story)
    if is_approved:
        assert isinstance(verdict, NotTried)
    else:
        assert isinstance(verdict, Failed)
        assert "the endpoint reports it as not approved" in verdict.witness.complaint


def test_clock_difference_is_tolerated() -> None:
    """The tolerance is ten seconds with a Date header, else a minute."""
    for is_dated, seconds, is_late in (
        (True, 9, True),
        (True, 11, False),
        (False, 59, True),
        (False, 61, False),
    ):
        story = Story(is_dated=is_dated).show(event())
        story.show(event(status="Started"), after=899 - seconds)
        wanted = Passed if is_late else Failed
        assert isinstance(judged(TIMELY, story), wanted), (is_dated, seconds)


def test_event_started_before_the_approval_was_not_started_by_it() -> None:
    story = Story().show(event(status="Started")).approve(1).wait()
    verdict = judged(STARTED, story)
    assert isinstance(verdict, NotTried)
    assert "other VMs may have to approve" in verdict.needs


def test_missed_started_document_is_not_a_cancellation() -> None:
    """A VM is often down while its event is Started, so the numbers are 2 and 4."""
    story = Story().show().show(event()).approve(1).show(number=4)
    assert isinstance(judged(STARTED, story), NotTried)
    assert broken(story) == []


def test_cancellation_at_approval_is_not_a_failure() -> None:
    """Cancelling a rollout can remove all its events; if others start, it proves nothing."""
    story = Story().show().show(event()).approve(1).show()
    assert broken(story) == []
    story.show(event(2, due=2000)).approve(2).show()
    assert isinstance(judged(STARTED, story), NotTried)
    story.show(event(3, due=2000, **FREEZE)).approve(3)
    story.show(event(3, "Started", **FREEZE)).show()
    assert isinstance(judged(STARTED, story), Passed)
    assert broken(story) == []


def test_cancellation_long_after_the_approval_is_not_a_failure() -> None:
    story = Story().show().show(event()).approve(1).wait(61).show()
    assert isinstance(judged(STARTED, story), NotTried)


def test_failure_can_replace_another() -> None:
    one, other = event(1, "Started"), event(2, "Started")
    story = Story().show(one).show(other)
    assert broken(story) == []


def test_later_event_is_not_a_removed_one_with_a_new_id() -> None:
    story = Story().show(event(1, "Started", **FREEZE))
    story.show(event(2, "Started", **FREEZE), number=7)
    assert "an event keeps its id when it is Started" not in broken(story)


def test_events_in_progress_can_appear_within_five_minutes() -> None:
    """They have the rest of their notice, or are Started (7.1)."""
    late = Story().show().show(event(1, due=60), event(2, "Started", **FREEZE))
    assert broken(late) == []
    assert isinstance(judged("the notice is long enough", late), NotTried)
    later = Story().show().wait(300).show(event(due=360))
    assert broken(later) == ["the notice is long enough"]


def test_the_notice_is_divided_by_the_speed() -> None:
    def announced(due: float, speed: float = 60) -> Story:
        story = Story(speed=speed).show(event(1, due=30_000))
        return story.show(event(1, due=30_000), event(2, due=due))

    assert isinstance(judged("the notice is long enough", announced(17)), Passed)
    assert isinstance(judged("the notice is long enough", announced(13)), Failed)
    assert isinstance(judged("the notice is long enough", announced(17, 1)), Failed)


def test_incarnation_may_restart_after_a_day_without_requests() -> None:
    story = Story().show(event(), number=9).show(after=86_400, number=1)
    assert "the incarnation never falls" not in broken(story)


def test_incarnation_gap_with_equal_events_is_allowed() -> None:
    story = Story().show(event()).show(event(), number=3)
    assert broken(story) == []


def test_failed_read_of_a_watch_is_reported_and_the_watch_continues() -> None:
    story = Story().show()
    story.bend = lambda _where, _answer: Answer(status=503, headers=(), body=b"")
    story.wait()
    story.bend = lambda _where, answer: answer
    story.show(event()).show(event(status="Started"))
    assert broken(story)[0] == "each GET of the document is answered"
    assert TIMELY in broken(story)


def test_watch_continues_after_a_lost_connection() -> None:
    def cut(_where: str, _answer: Answer) -> Answer:
        raise ConnectionResetError("in the middle")

    story = Story().show()
    story.bend = cut
    story.wait()
    story.bend = lambda _where, answer: answer
    story.show(event())
    verdict = judged("each GET of the document is answered", story)
    assert isinstance(verdict, Failed)
    assert "no answer: in the middle" in verdict.witness.complaint
    assert verdict.witness.exchanges[0].at == START + 2 * SECOND


@pytest.mark.parametrize("kind", ["Preempt", "Terminate"])
def test_deleted_vm_gets_no_answer(kind: str) -> None:
    story = Story().show(event(kind=kind)).show(event(status="Started", kind=kind))
    story.bend = lambda _where, answer: replace(answer, status=404, body=b"")
    story.wait()
    assert kind in story.seen.deleted_by
    assert "each GET of the document is answered" not in broken(story)


def test_error_long_before_a_deletion_is_a_failure() -> None:
    story = Story().show(event(kind="Terminate"))
    story.bend = lambda _where, answer: replace(answer, status=500, body=b"")
    story.wait()
    assert story.seen.deleted_by == ""
    assert "each GET of the document is answered" in broken(story)


def test_trailing_line_break_passes_with_a_remark() -> None:
    story = Story(bend=lambda _, answer: replace(answer, body=answer.body + b"\n"))
    verdict = judged("compact: no blanks outside strings", story.show(event()))
    assert isinstance(verdict, Passed)
    assert "ends with a line break" in verdict.remark


def test_escapes_as_dotnet_writes_them_are_compact() -> None:
    def escaped(_where: str, answer: Answer) -> Answer:
        return replace(answer, body=answer.body.replace(b"user's", b"user\\u0027s"))

    story = Story(bend=escaped).show(event(Description="The user's order, at once"))
    assert broken(story) == []


def test_user_request_waits_for_started_events_of_its_vm() -> None:
    """It does not wait for events of other VMs."""
    order: dict[str, Any] = {"EventSource": "User"}
    under_way = event(2, "Started", "Freeze")
    busy = Story().show(event(**order), under_way).approve(1).wait(150)
    assert isinstance(judged("an approval has an effect", busy), NotTried)
    assert isinstance(judged("an approval has an effect", busy.wait(1500)), NotTried)
    assert broken(busy) == []
    free = busy.show(event(**order)).wait(150)
    verdict = judged("an approval has an effect", free)
    assert isinstance(verdict, Failed)
    assert "is still waiting 2 m 31 s after the approval" in verdict.witness.complaint
    other = event(2, "Started", "Freeze", Resources=["vm_7"])
    story = Story().show(event(**order), other).approve(1).wait(150)
    assert isinstance(judged("an approval has an effect", story), Failed)


def test_similar_event_after_missed_documents_is_a_new_one() -> None:
    """If documents were missed, one event may have ended and another begun."""
    story = Story().show(event(1, Description="x")).wait()
    story.show(event(2, "Started", Description="x"), number=5)
    assert broken(story) == []


def test_simulation_keeps_a_minimum_notice() -> None:
    story = Story(speed=1000.0).show().show(event(kind="Terminate", due=7))
    assert broken(story) == []
    story = Story(speed=1000.0).show().show(event(kind="Terminate", due=12))
    assert broken(story) == ["a deletion is announced at most 15 minutes ahead"]
