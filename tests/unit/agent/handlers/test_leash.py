"""How long a run may go on."""

import threading

from forewarn.agent.handlers.leash import Leash
from forewarn.clock import VirtualClock
from forewarn.instants import MINUTE, SECOND
from tests.support.agent_journals import START


def leashed() -> tuple[Leash, VirtualClock]:
    clock = VirtualClock(START)
    return Leash(
        stop_at=START + MINUTE, kill_at=START + MINUTE + 5 * SECOND, clock=clock
    ), clock


def test_it_counts_down() -> None:
    leash, clock = leashed()
    assert (leash.seconds(), leash.seconds_to_kill()) == (60, 65)
    clock.advance_to(START + MINUTE + SECOND)
    assert (leash.seconds(), leash.seconds_to_kill()) == (0, 4)
    clock.advance_to(START + 2 * MINUTE)
    assert (leash.seconds(), leash.seconds_to_kill()) == (0, 0)
    assert not leash.is_stopped
    assert not leash.pause(1)


def test_a_stop_ends_it_now_and_never_later_than_it_was() -> None:
    leash, _ = leashed()
    leash.stop(START + 3 * SECOND)
    assert leash.is_stopped
    assert (leash.seconds(), leash.seconds_to_kill()) == (0, 3)
    leash.stop(START + MINUTE)
    assert leash.seconds_to_kill() == 3
    assert not leash.pause(60)


def test_it_may_be_tightened_and_never_loosened() -> None:
    leash, clock = leashed()
    leash.tighten(START + 10 * SECOND, START + 12 * SECOND)
    assert (leash.seconds(), leash.seconds_to_kill()) == (10, 12)
    leash.tighten(START + MINUTE, START + MINUTE)
    assert (leash.seconds(), leash.seconds_to_kill()) == (10, 12)
    clock.advance_to(START + 11 * SECOND)
    assert (leash.seconds(), leash.seconds_to_kill()) == (0, 1)
    # Its time was up: its event has not gone.
    assert not leash.is_stopped
    leash.tighten(START, START)


def test_who_waits_hears_when_the_time_that_was_left_is_up() -> None:
    leash, _ = leashed()
    rung = threading.Event()
    with leash.ringing(rung.set):
        leash.tighten(START, START + SECOND)
        assert rung.wait(10)
    assert not leash.is_stopped
    assert not leash.pause(60)
    leash.stop(START)
    assert leash.is_stopped


def test_who_waits_is_rung_also_if_it_was_stopped_before() -> None:
    leash, _ = leashed()
    rung: list[str] = []
    with leash.ringing(lambda: rung.append("gone")):
        pass
    with leash.ringing(lambda: rung.append("first")):
        leash.stop(START)
    with leash.ringing(lambda: rung.append("second")):
        pass
    assert rung == ["first", "second"]
