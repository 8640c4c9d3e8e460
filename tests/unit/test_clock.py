"""The two clocks."""

import pytest

from forewarn.clock import SystemClock, VirtualClock
from forewarn.instants import MINUTE, parse_instant


def test_virtual_clock_advances_on_request() -> None:
    clock = VirtualClock(1_000_000)
    assert (clock.now(), clock.monotonic()) == (1_000_000, 0.0)
    clock.advance_to(1_000_000 + MINUTE)
    assert (clock.now(), clock.monotonic()) == (61_000_000, 60.0)
    clock.advance_to(clock.now())
    assert clock.now() == 61_000_000


def test_a_virtual_clock_does_not_go_back() -> None:
    clock = VirtualClock(10)
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance_to(9)
    assert clock.now() == 10


def test_system_clock_advances() -> None:
    clock = SystemClock()
    assert clock.now() > parse_instant("2026-01-01T00:00:00Z")
    first = clock.monotonic()
    assert clock.monotonic() >= first
