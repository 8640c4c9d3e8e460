"""When approvals may be given, by the wall clock of a place."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.agent.core import windows
from forewarn.agent.core.policy import Policy, Window
from forewarn.instants import DAY, HOUR, MINUTE, SECOND, Micros
from tests.unit.agent.core.support import START

EVERY = frozenset(range(7))
NIGHT = Window(days=EVERY, begins=22 * 60, ends=6 * 60)
FRIDAY_NIGHT = Window(days=frozenset({4}), begins=22 * 60, ends=6 * 60)
BERLIN = "Europe/Berlin"


def at(text: str, zone: str = "UTC", fold: int = 0) -> Micros:
    """Return an instant by the wall clock: `2026-03-02 12:00`."""
    local = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return round(local.timestamp()) * SECOND


def is_open(window: Window, now: Micros) -> bool:
    return windows.allows(Policy(windows=(window,)), now)


def test_without_windows_approval_is_always_allowed() -> None:
    assert windows.allows(Policy(), START)
    assert windows.next_allowed(Policy(), START) is None


@pytest.mark.parametrize(
    ("now", "wanted"),
    [
        ("2026-03-06 21:59:59", False),
        ("2026-03-06 22:00", True),
        ("2026-03-07 05:59:59", True),
        ("2026-03-07 06:00", False),
        ("2026-03-06 05:00", False),
        ("2026-03-07 22:00", False),
    ],
)
def test_a_window_over_midnight_ends_on_the_next_day(now: str, *, wanted: bool) -> None:
    assert is_open(FRIDAY_NIGHT, at(now)) is wanted


def test_sunday_night_window_extends_into_the_next_week() -> None:
    sunday_night = Window(days=frozenset({6}), begins=22 * 60, ends=6 * 60)
    assert is_open(sunday_night, at("2026-03-02 05:59"))
    assert not is_open(sunday_night, at("2026-03-02 06:00"))


def test_one_of_several_windows_is_enough() -> None:
    lunch = Window(days=EVERY, begins=12 * 60, ends=13 * 60)
    settings = Policy(windows=(NIGHT, lunch))
    assert windows.allows(settings, START)
    assert not windows.allows(settings, START + HOUR)
    assert windows.next_allowed(settings, START + HOUR) == START + 10 * HOUR
    assert windows.allows(settings, START + 10 * HOUR)


def test_a_blackout_of_a_whole_day_is_over_at_midnight() -> None:
    monday = Window(days=frozenset({0}), begins=0, ends=24 * 60)
    settings = Policy(blackouts=(monday,))
    assert windows.next_allowed(settings, START) == at("2026-03-03 00:00")


def test_a_whole_day_ends_at_midnight() -> None:
    monday = Window(days=frozenset({0}), begins=0, ends=24 * 60)
    assert is_open(monday, at("2026-03-02 00:00"))
    assert is_open(monday, at("2026-03-02 23:59:59"))
    assert not is_open(monday, at("2026-03-03 00:00"))
    same = Window(days=frozenset({0}), begins=60, ends=60)
    assert is_open(same, at("2026-03-03 00:59:59"))
    assert not is_open(same, at("2026-03-03 01:00"))


def test_window_uses_the_clock_of_its_time_zone() -> None:
    office = Window(days=EVERY, begins=9 * 60, ends=17 * 60, zone="Asia/Kolkata")
    assert is_open(office, at("2026-03-02 03:30"))
    assert not is_open(office, at("2026-03-02 03:29:59"))
    # It is Tuesday there already.
    tuesday = Window(days=frozenset({1}), begins=0, ends=60, zone="Asia/Tokyo")
    assert is_open(tuesday, at("2026-03-02 15:00"))


def test_summer_time_shortens_a_night_window() -> None:
    night = Window(days=EVERY, begins=22 * 60, ends=6 * 60, zone=BERLIN)
    settings = Policy(windows=(night,))
    before = at("2026-03-28 12:00", BERLIN)
    assert windows.next_allowed(settings, before) == at("2026-03-28 22:00", BERLIN)
    assert is_open(night, at("2026-03-29 05:59", BERLIN))
    assert not is_open(night, at("2026-03-29 06:00", BERLIN))
    blackout = Policy(blackouts=(night,))
    begins = at("2026-03-28 22:00", BERLIN)
    assert windows.next_allowed(blackout, begins) == begins + 7 * HOUR


def test_window_includes_a_skipped_or_repeated_hour() -> None:
    early = Window(days=EVERY, begins=150, ends=210, zone=BERLIN)
    # From 2:00 the clock goes to 3:00 on that Sunday, which is within.
    three = at("2026-03-29 03:00", BERLIN)
    assert not is_open(early, three - 1)
    assert is_open(early, three)
    assert not is_open(early, three + 30 * MINUTE)
    # 2:30 comes twice in autumn.
    for fold in (0, 1):
        half = at("2026-10-25 02:30", BERLIN, fold)
        assert is_open(early, half)
        assert not is_open(early, half - 1)
        blackout = Policy(blackouts=(early,), windows=())
        assert windows.next_allowed(blackout, half) is not None


def test_blackout_overrides_a_window() -> None:
    lunch = Window(days=EVERY, begins=12 * 60, ends=13 * 60)
    office = Window(days=EVERY, begins=9 * 60, ends=17 * 60)
    settings = Policy(windows=(office,), blackouts=(lunch,))
    assert not windows.allows(settings, START)
    assert windows.next_allowed(settings, START) == START + HOUR
    assert windows.allows(settings, START + HOUR)
    always = Policy(blackouts=(Window(days=EVERY, begins=0, ends=24 * 60),))
    assert windows.next_allowed(always, START) is None


def test_weekly_window_recurs() -> None:
    settings = Policy(windows=(FRIDAY_NIGHT,))
    begins = at("2026-03-06 22:00")
    assert windows.next_allowed(settings, START) == begins
    assert windows.next_allowed(settings, begins) == begins + 7 * DAY


@pytest.mark.parametrize("name", ["Europe/Nowhere", "", "../etc/passwd", "x\x00y"])
def test_unknown_time_zone_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        windows.zone_of(name)


a_window = st.builds(
    Window,
    days=st.frozensets(st.integers(0, 6), min_size=1),
    begins=st.integers(0, 24 * 60 - 1),
    ends=st.integers(0, 24 * 60),
    zone=st.sampled_from(["UTC", "Asia/Kolkata", BERLIN, "America/St_Johns"]),
)


@given(
    st.lists(a_window, max_size=3),
    st.lists(a_window, max_size=2),
    st.integers(START, START + 400 * DAY),
)
def test_next_allowed_time_is_allowed(
    wanted: list[Window], unwanted: list[Window], now: Micros
) -> None:
    settings = Policy(windows=tuple(wanted), blackouts=tuple(unwanted))
    again = windows.next_allowed(settings, now)
    if again is None:
        return
    assert again > now
    assert windows.allows(settings, again)
    if not windows.allows(settings, now) and now + 20 * DAY < at("2026-03-29 00:00"):
        # Nothing was missed on the way, but for the nights when clocks change.
        step = max((again - now) // 50, 1)
        between = range(now, again, step)
        assert not any(windows.allows(settings, instant) for instant in between)


def test_window_that_begins_in_a_skipped_hour_opens_after_it() -> None:
    window = Window(days=EVERY, begins=150, ends=200, zone=BERLIN)
    before = at("2026-03-28 23:00", BERLIN)
    opens = windows.next_allowed(Policy(windows=(window,)), before)
    assert opens == at("2026-03-29 03:00", BERLIN)


def test_window_in_a_repeated_hour_opens_twice() -> None:
    settings = Policy(windows=(Window(days=EVERY, begins=150, ends=170, zone=BERLIN),))
    first, second = (at("2026-10-25 02:30", BERLIN, fold) for fold in (0, 1))
    assert windows.next_allowed(settings, first - MINUTE) == first
    assert windows.next_allowed(settings, first + 20 * MINUTE) == second
    assert second == first + HOUR
