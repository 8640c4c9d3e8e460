"""The time limits of a run."""

import threading

from forewarn.agent.handlers.run_context import RunContext
from forewarn.clock import VirtualClock
from forewarn.instants import MINUTE, SECOND
from tests.support.agent_journals import START


def with_context() -> tuple[RunContext, VirtualClock]:
    clock = VirtualClock(START)
    return RunContext(
        stop_at=START + MINUTE, kill_at=START + MINUTE + 5 * SECOND, clock=clock
    ), clock


def test_remaining_time_counts_down() -> None:
    context, clock = with_context()
    assert (context.remaining(), context.grace_remaining()) == (60, 65)
    clock.advance_to(START + MINUTE + SECOND)
    assert (context.remaining(), context.grace_remaining()) == (0, 4)
    clock.advance_to(START + 2 * MINUTE)
    assert (context.remaining(), context.grace_remaining()) == (0, 0)
    assert not context._is_stopped
    assert not context.sleep(1)


def test_stop_takes_effect_at_once_and_never_extends_the_deadline() -> None:
    context, _ = with_context()
    context.stop(START + 3 * SECOND)
    assert context._is_stopped
    assert (context.remaining(), context.grace_remaining()) == (0, 3)
    context.stop(START + MINUTE)
    assert context.grace_remaining() == 3
    assert not context.sleep(60)


def test_deadline_may_be_shortened_and_never_extended() -> None:
    context, clock = with_context()
    context.shorten(START + 10 * SECOND, START + 12 * SECOND)
    assert (context.remaining(), context.grace_remaining()) == (10, 12)
    context.shorten(START + MINUTE, START + MINUTE)
    assert (context.remaining(), context.grace_remaining()) == (10, 12)
    clock.advance_to(START + 11 * SECOND)
    assert (context.remaining(), context.grace_remaining()) == (0, 1)
    # Its time was up: its event has not gone.
    assert not context._is_stopped
    context.shorten(START, START)


def test_waiter_is_notified_when_the_shortened_time_is_up() -> None:
    context, _ = with_context()
    rung = threading.Event()
    with context.on_stop(rung.set):
        context.shorten(START, START + SECOND)
        assert rung.wait(10)
    assert not context._is_stopped
    assert not context.sleep(60)
    context.stop(START)
    assert context._is_stopped


def test_waiter_is_notified_even_if_the_run_was_stopped_before() -> None:
    context, _ = with_context()
    rung: list[str] = []
    with context.on_stop(lambda: rung.append("gone")):
        pass
    with context.on_stop(lambda: rung.append("first")):
        context.stop(START)
    with context.on_stop(lambda: rung.append("second")):
        pass
    assert rung == ["first", "second"]
