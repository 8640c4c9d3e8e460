"""Verdicts on the clients of a replay."""

from collections.abc import Sequence
from typing import Any

import pytest

from forewarn.instants import SECOND
from forewarn.protocol import versions
from forewarn.sim.engine import START
from forewarn.sim.recorded_events import RecordedEvents
from forewarn.sim.replay_judging import Facts, findings
from forewarn.sim.scenario.model import Expected, Outcome
from tests.support import recordings
from tests.support.recordings import FREEZE, REBOOT, document, event


def shown(*documents: list[dict[str, Any]], approve: str = "") -> RecordedEvents:
    """Return the events of documents, a second each; a VM approves in the first."""
    version = versions.parse("2020-07-01")
    assert version is not None
    events = RecordedEvents(version)
    for number, some in enumerate(documents):
        at = START + number * SECOND
        events.take(document(number + 1, *some).body, at=at)
        if approve and not number:
            events.approve(
                approve, [shown_event.event_id for shown_event in events.live], at=at
            )
    return events


def judged(
    events: RecordedEvents,
    expected: Expected = Expected.APPROVED,
    *,
    asked: Sequence[str] = ("web_0",),
    own: str = "web_0",
    is_over: bool = True,
) -> list[tuple[Outcome, str]]:
    facts = Facts(
        recording=recordings.recording((0, document(1)), vm=own),
        events=events.all,
        vms=["web_0", "web_1"],
        asked=asked,
        is_over=is_over,
    )
    return [
        (finding.outcome, finding.sentence) for finding in findings(facts, expected)
    ]


NOTHING = shown([])
ASKED = (Outcome.PASSED, "")
FREEZES = event()
STARTED = event(status="Started")


@pytest.mark.parametrize("expected", [Expected.SCENARIO, Expected.ASKED])
def test_replay_without_client_requests_is_an_error(expected: Expected) -> None:
    assert judged(NOTHING, expected) == [ASKED]
    [(outcome, sentence)] = judged(NOTHING, expected, asked=["web_1"])
    assert outcome is Outcome.ERROR
    assert sentence == "no client asked for the events of web_0"
    assert judged(NOTHING, expected, asked=[], is_over=False) == []
    assert judged(NOTHING, Expected.NONE, asked=[]) == []


@pytest.mark.parametrize(
    ("documents", "approver", "outcome", "sentence"),
    [
        (
            [[FREEZES], []],
            "web_0",
            Outcome.PASSED,
            "web_0 approved Freeze D4713D60 of ",
        ),
        (
            [[FREEZES], []],
            "web_1",
            Outcome.PASSED,
            "web_1 approved Freeze D4713D60 of ",
        ),
        ([[FREEZES], [STARTED]], "", Outcome.FAILED, "in the 1 s before it was "),
        ([[FREEZES], []], "", Outcome.FAILED, "before it was removed"),
        ([[FREEZES]], "", Outcome.SKIPPED, "still Scheduled at the end"),
        ([[STARTED]], "", Outcome.ERROR, "shows no event that web_0 could approve"),
        ([[]], "", Outcome.ERROR, "shows no event that web_0 could approve"),
        (
            [[event(REBOOT, vms=["web_7"])]],
            "",
            Outcome.ERROR,
            "shows no event that web_0 could approve",
        ),
    ],
)
def test_each_event_that_names_a_client_must_be_approved(
    documents: list[list[dict[str, Any]]],
    approver: str,
    outcome: Outcome,
    sentence: str,
) -> None:
    first, found, *_ = judged(shown(*documents, approve=approver))
    assert first == ASKED
    assert found[0] is outcome
    assert sentence in found[1]


def test_recording_without_events_to_judge_fails() -> None:
    _, left, found = judged(shown([FREEZES]))
    assert left[0] is Outcome.SKIPPED
    assert found[0] is Outcome.ERROR
    assert found[1].startswith("no event could be judged: Freeze D4713D60 of ")
    assert found[1].endswith(" was still Scheduled at the end, and not approved")
    # One event that can be judged is enough, and so is an approval.
    later = event(REBOOT)
    two = shown([FREEZES], [STARTED, later])
    assert [finding[0] for finding in judged(two)[1:]] == [
        Outcome.FAILED,
        Outcome.SKIPPED,
    ]
    assert judged(shown([FREEZES], approve="web_0"))[1][0] is Outcome.PASSED


def test_open_event_is_not_judged_before_the_end() -> None:
    assert judged(shown([FREEZES]), is_over=False) == [ASKED]
    assert judged(NOTHING, is_over=False) == [ASKED]
    assert len(judged(shown([FREEZES], [STARTED]), is_over=False)) == 2


def test_without_a_client_name_every_event_is_judged() -> None:
    events = shown([event(REBOOT, vms=["prod-7"])], [])
    assert judged(events, own="")[1][0] is Outcome.FAILED


def test_other_vms_are_judged_if_they_poll() -> None:
    events = shown([event(FREEZE, vms=["web_0", "web_1"])], [])
    assert len(judged(events)) == 2
    assert len(judged(events, asked=["web_0", "web_1"])) == 3
