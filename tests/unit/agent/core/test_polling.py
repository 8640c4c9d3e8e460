"""When the endpoint is asked again: a Preempt's thirty seconds are the measure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.agent.core.polling import (
    KNOWN_FOR,
    NAME_EVERY,
    Course,
    Pace,
    name_pause,
    pause,
    timeout,
)
from forewarn.instants import MINUTE, SECOND

pytestmark = pytest.mark.clause("8.1")

PACE = Pace()
WELL = Course(since_answer=0)

courses = st.builds(
    Course,
    failures=st.integers(0, 1_000),
    since_answer=st.none() | st.integers(0, 1_000 * MINUTE),
    took=st.integers(0, 200 * SECOND),
)


def failing(failures: int, *, since: int | None = SECOND) -> Course:
    return Course(failures=failures, since_answer=since)


def pauses(*, since: int | None) -> list[int]:
    return [
        pause(PACE, failing(failures, since=since), took=0, jitter=0) // SECOND
        for failures in range(1, 8)
    ]


def test_polls_begin_once_a_second() -> None:
    assert pause(PACE, WELL, took=0, jitter=1) == SECOND
    assert pause(PACE, WELL, took=SECOND // 4, jitter=1) == SECOND * 3 // 4
    assert pause(PACE, WELL, took=60 * SECOND, jitter=1) == 0


def test_recently_answering_endpoint_is_polled_again_soon() -> None:
    assert pauses(since=SECOND) == [1, 1, 2, 3, 3, 3, 3]
    assert pauses(since=KNOWN_FOR) == [1, 1, 2, 3, 3, 3, 3]


def test_unknown_endpoint_is_polled_with_growing_pauses() -> None:
    assert pauses(since=None) == [1, 2, 4, 8, 16, 30, 30]
    assert pauses(since=KNOWN_FOR + 1) == [1, 2, 4, 8, 16, 30, 30]


def test_jitter_only_shortens_the_pause() -> None:
    assert pause(PACE, failing(1), took=0, jitter=1) == SECOND * 8 // 10


def test_retry_after_of_the_endpoint_is_capped_at_five_seconds() -> None:
    def asked(seconds: int) -> int:
        wanted = seconds * SECOND
        return pause(PACE, failing(1), took=0, jitter=0, retry_after=wanted) // SECOND

    assert [asked(seconds) for seconds in (0, 1, 4, 5, 6, 3600)] == [1, 1, 4, 5, 5, 5]
    good = pause(PACE, WELL, took=0, jitter=0, retry_after=5 * SECOND)
    assert good == SECOND


def test_the_first_answer_may_take_two_minutes() -> None:
    assert timeout(PACE, Course()) == 130 * SECOND
    assert timeout(PACE, WELL) == 2 * SECOND


def test_timeout_grows_with_failures_up_to_the_setting() -> None:
    grown = [timeout(PACE, failing(failures)) // SECOND for failures in range(6)]
    assert grown == [2, 3, 4, 5, 5, 5]


def test_timeout_grows_for_a_slow_endpoint() -> None:
    assert timeout(PACE, Course(since_answer=0, took=2 * SECOND)) == 4 * SECOND
    assert timeout(PACE, Course(since_answer=0, took=9 * SECOND)) == 5 * SECOND
    assert timeout(Pace(timeout=SECOND), WELL) == SECOND


def test_timeout_of_a_long_poll_has_a_margin() -> None:
    assert timeout(PACE, WELL, wait=60 * SECOND) == 63 * SECOND
    assert timeout(PACE, Course(), wait=60 * SECOND) == 190 * SECOND


@given(st.sampled_from(["refused", "silent"]), st.floats(0, 1))
def test_two_failures_leave_a_preempt_24_seconds(kind: str, jitter: float) -> None:
    """The notice comes just after a poll, and the next two fail."""
    passed = pause(PACE, WELL, took=0, jitter=jitter)
    for failures in range(2):
        took = timeout(PACE, failing(failures)) if kind == "silent" else 0
        passed += took
        passed += pause(PACE, failing(failures + 1), took=took, jitter=jitter)
    assert 30 * SECOND - passed >= (24 if kind == "silent" else 27) * SECOND


@given(
    courses, st.floats(0, 1), st.integers(0, 200 * SECOND), st.integers(0, 99 * MINUTE)
)
def test_pause_and_timeout_stay_within_their_limits(
    course: Course, jitter: float, took: int, retry_after: int
) -> None:
    paused = pause(PACE, course, took=took, jitter=jitter, retry_after=retry_after)
    assert 0 <= paused <= (5 if course.is_known else 30) * SECOND
    assert 0 < timeout(PACE, course) <= 130 * SECOND
    if course.since_answer is not None:
        assert timeout(PACE, course) <= 5 * SECOND


def test_vm_name_is_read_periodically() -> None:
    assert name_pause(failures=0) == NAME_EVERY
    assert [name_pause(failures=failures) // SECOND for failures in range(1, 6)] == [
        *(1, 5, 15, 60, 60)
    ]
