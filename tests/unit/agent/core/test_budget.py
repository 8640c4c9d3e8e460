"""How long each handler may take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.agent.core import budget
from forewarn.agent.core.model import Run, Task
from forewarn.agent.core.policy import Handler, Policy
from forewarn.instants import MILLISECOND, MINUTE, SECOND, Micros
from forewarn.protocol.notices import STARTED
from tests.unit.agent.core.support import (
    DRAIN,
    FLUSH,
    START,
    Life,
    notice,
    policy,
    prepare,
    started,
)


def task_of(**values: Any) -> Task:
    begins = START if values.get("status") == STARTED else 0
    return Task(
        event_id="E1", notice=notice(**values), mine=True, seen=START, started=begins
    )


def left(run: Run, now: Micros = START) -> tuple[float, float]:
    """Return seconds until it is asked to stop, and until it is killed."""
    return (run.stop_at - now) / SECOND, (run.kill_at - now) / SECOND


# Where there is time enough, a handler has what it asked for.


def test_handler_gets_its_timeout_if_more_time_is_left() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice())
    assert left(life.runs[0]) == (300, 305)


def test_short_timeout_stops_the_run_at_its_end() -> None:
    life = Life(policy(Handler(name="drain", timeout=5 * SECOND)))
    life.poll(notice())
    assert left(life.runs[0]) == (5, 10)


def test_without_not_before_only_the_handler_timeout_counts() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice(not_before=None))
    assert left(life.runs[0]) == (300, 305)


# If there is less time, the handlers share it.


def test_groups_share_remaining_time_and_inherit_saved_time() -> None:
    ten = Handler(name="ten", timeout=10 * MINUTE)
    five = Handler(name="five", timeout=5 * MINUTE)
    life = Life(policy(ten, five))
    life.poll(notice(not_before=START + 92 * SECOND))
    # 90 s remain before the margin. Each handler gets half, less than its timeout.
    assert left(life.runs[0]) == (40, 45)
    life.now += 10 * SECOND
    life.end("ten")
    assert left(life.runs[1], START + 10 * SECOND) == (75, 80)


def test_handler_with_short_timeout_gets_it_next_to_long_ones() -> None:
    flush = Handler(name="flush", timeout=4 * SECOND)
    rest = [Handler(name=f"h{number}") for number in range(2)]
    life = Life(policy(flush, *rest))
    life.poll(notice(not_before=START + 32 * SECOND))
    assert left(life.runs[0]) == (4, 9)
    life.now += 9 * SECOND
    life.end("flush")
    # The two others share the remaining 21 s.
    assert left(life.runs[1], life.now)[1] == 10.5


def test_group_requests_its_longest_timeout() -> None:
    both = prepare(("drain", "flush"), ("third",))
    third = Handler(name="third", timeout=5 * MINUTE)
    short = Handler(name="flush", timeout=10 * SECOND)
    life = Life(policy(DRAIN, short, third, rules=(both,)))
    life.poll(notice(not_before=START + 102 * SECOND))
    assert [left(run) for run in life.runs] == [(45, 50), (10, 15)]


@pytest.mark.parametrize(
    ("wishes", "left_of_them", "first"),
    [
        # The time that modest groups leave is for those that want more.
        ((300, 4), 30, 26),
        ((100, 9, 6), 30, 15),
        ((9, 6, 100), 30, 9),
        ((300, 300, 4), 30, 13),
        ((20, 10), 30, 20),
    ],
)
def test_remaining_time_is_shared_among_groups(
    wishes: tuple[int, ...], left_of_them: int, first: int
) -> None:
    handlers = [Handler(name=f"h{wish}", timeout=wish * SECOND) for wish in wishes]
    times = budget.times(
        handlers[0],
        [[handler] for handler in handlers],
        until=START + left_of_them * SECOND,
        is_hurried=False,
        policy=Policy(stop_grace=0),
        now=START,
    )
    assert times == (START + first * SECOND, START + first * SECOND)


def test_handler_that_only_recovers_gets_no_share() -> None:
    back = Handler(name="back", prepares=False)
    life = Life(policy(back, DRAIN, FLUSH))
    life.poll(notice(not_before=START + 62 * SECOND))
    assert [run.handler for run in life.runs] == ["drain"]
    assert left(life.runs[0])[1] == 30


def test_share_is_never_below_the_minimum() -> None:
    handlers = [Handler(name=f"h{number}") for number in range(9)]
    life = Life(policy(*handlers))
    near = START + 10 * SECOND
    life.poll(notice(not_before=near))
    life.now = near - 2 * SECOND - 300 * MILLISECOND
    life.end("h0")
    run = life.runs[-1]
    assert run.handler == "h1"
    assert run.kill_at - life.now >= budget.LEAST


# The margin.


def test_no_run_starts_without_time_left() -> None:
    life = Life(policy(DRAIN, FLUSH))
    life.poll(notice(not_before=START + 10 * SECOND))
    life.now = START + 8 * SECOND - budget.LEAST + 1
    life.end("drain")
    assert life.begun() == [("E1", "prepare", "drain")]
    assert life.task().withheld == "there was no time left for flush"
    assert life.sent == []


def test_run_starts_with_exactly_the_minimum_time() -> None:
    life = Life(policy(DRAIN, FLUSH))
    life.poll(notice(not_before=START + 10 * SECOND))
    life.now = START + 8 * SECOND - budget.LEAST
    life.end("drain")
    assert life.runs[-1].handler == "flush"


def test_long_margin_is_kept_near_not_before() -> None:
    life = Life(policy(DRAIN, margin=MINUTE))
    life.poll(notice(not_before=START + 100 * SECOND))
    assert left(life.runs[0])[1] == 40


@pytest.mark.parametrize("ahead", [-60, 0, 1, 2, 3, 4])
def test_urgent_time_applies_when_not_before_is_imminent(ahead: int) -> None:
    life = Life(policy(DRAIN))
    life.poll(notice(not_before=START + ahead * SECOND))
    stop, kill = left(life.runs[0])
    assert kill == 10
    assert stop == 8


def test_late_restart_leaves_the_urgent_time() -> None:
    """The agent was down when its rule wanted it to begin."""
    settings = policy(DRAIN, rules=(prepare(("drain",), start_before=5 * MINUTE),))
    life = Life(settings)
    life.poll(notice())
    life.now = START + 15 * MINUTE - SECOND
    life.restart()
    life.poll(notice())
    assert left(life.runs[0], life.now) == (8, 10)


# The short path.


@pytest.mark.clause("8.5")
def test_preempt_leaves_24_seconds_after_failed_polls() -> None:
    life = Life(policy(DRAIN), now=START + 3 * SECOND)
    life.poll(notice(event_type="Preempt", not_before=START + 30 * SECOND))
    stop, kill = left(life.runs[0], life.now)
    assert stop >= 24
    assert kill == 25


def test_urgent_event_runs_highest_priority_first_with_all_time() -> None:
    handlers = (
        Handler(name="tell", priority=0),
        Handler(name="save", priority=9),
        Handler(name="drain", priority=5),
        Handler(name="leave", priority=5),
    )
    life = Life(policy(*handlers))
    life.poll(notice(event_type="Preempt", not_before=START + 30 * SECOND))
    assert [run.handler for run in life.runs] == ["save"]
    assert left(life.runs[0])[1] == 28
    life.now += 8 * SECOND
    life.end("save")
    assert [run.handler for run in life.runs] == ["save", "drain", "leave"]
    assert left(life.runs[1], life.now)[1] == 20
    life.end("drain")
    life.end("leave")
    assert life.runs[-1].handler == "tell"


def test_last_handler_is_skipped_when_time_is_up() -> None:
    handlers = (Handler(name="save", priority=9), Handler(name="tell", required=False))
    life = Life(policy(*handlers))
    life.poll(notice(event_type="Preempt", not_before=START + 30 * SECOND))
    life.now += 28 * SECOND
    life.end("save")
    assert life.begun() == [("E1", "prepare", "save")]
    assert life.stage().value == "prepared"
    assert life.sent == ["E1"]


@pytest.mark.clause("8.5")
def test_preempt_without_time_leaves_the_urgent_time() -> None:
    """A slow handler must not have the whole of what may be thirty seconds."""
    handlers = (Handler(name="save", priority=9), Handler(name="drain"))
    life = Life(policy(*handlers, urgent_time=20 * SECOND))
    life.poll(notice(event_type="Preempt", not_before=None))
    assert left(life.runs[0])[1] == 20
    life.now += 8 * SECOND
    life.end("save")
    assert life.runs[1].handler == "drain"
    assert left(life.runs[1], life.now)[1] == 12


def test_started_event_leaves_the_urgent_time() -> None:
    life = Life(policy(DRAIN, urgent_time=20 * SECOND))
    life.poll(started(notice()))
    assert left(life.runs[0])[1] == 20


def test_early_start_shortens_the_remaining_handlers() -> None:
    life = Life(policy(DRAIN, FLUSH))
    life.poll(notice())
    life.now += MINUTE
    life.poll(started(notice()))
    life.end("drain")
    assert life.runs[1].handler == "flush"
    assert left(life.runs[1], life.now)[1] == 10


# When to begin.


def test_rule_may_start_preparation_late() -> None:
    settings = policy(DRAIN, rules=(prepare(("drain",), start_before=5 * MINUTE),))
    life = Life(settings)
    life.poll(notice())
    assert life.wake == START + 10 * MINUTE
    assert life.waits == {"E1": "its preparation begins later"}
    life.sleep(10 * MINUTE - 1)
    assert life.runs == []
    life.sleep(1)
    assert left(life.runs[0], life.now)[1] == 298


def test_next_of_several_delayed_preparations_sets_the_wake_time() -> None:
    settings = policy(DRAIN, rules=(prepare(("drain",), start_before=MINUTE),))
    life = Life(settings)
    hour = notice("E2", not_before=START + 60 * MINUTE)
    life.poll(hour, notice(), replace(hour, event_id="E3"))
    assert life.wake == START + 14 * MINUTE


@pytest.mark.parametrize(
    "values",
    [
        {"event_type": "Preempt"},
        {"status": STARTED},
        {"not_before": None},
    ],
)
def test_urgent_event_is_prepared_without_delay(values: dict[str, Any]) -> None:
    rule = prepare(("drain",), start_before=MINUTE)
    assert budget.begin_at(task_of(**values), rule) is None


def test_request_to_approve_starts_the_preparation() -> None:
    settings = policy(DRAIN, rules=(prepare(("drain",), start_before=MINUTE),))
    life = Life(settings)
    life.poll(notice())
    life.order()
    assert life.begun() == [("E1", "prepare", "drain")]
    assert life.sent == ["E1"]


@given(
    timeouts=st.lists(st.integers(1, 1_000), min_size=1, max_size=6),
    until=st.none() | st.integers(0, 4_000),
    is_hurried=st.booleans(),
    grace=st.integers(0, 60),
)
def test_deadlines_are_in_order(
    timeouts: list[int], until: int | None, grace: int, *, is_hurried: bool
) -> None:
    handlers = [
        Handler(name=f"h{index}", timeout=timeout * SECOND)
        for index, timeout in enumerate(timeouts)
    ]
    end = None if until is None else START + until * 100 * MILLISECOND
    times = budget.times(
        handlers[0],
        [[handler] for handler in handlers],
        until=end,
        is_hurried=is_hurried,
        policy=Policy(stop_grace=grace * SECOND),
        now=START,
    )
    if times is None:
        assert end is not None
        assert end - START < budget.LEAST
        return
    stop, kill = times
    assert START < stop <= kill
    assert stop <= START + handlers[0].timeout
    assert kill - stop <= max(grace * SECOND, kill - START - handlers[0].timeout)
    assert end is None or kill <= end
