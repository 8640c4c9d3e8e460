"""Openings of windows over the changes of the clocks, and what fits into them."""

import itertools
import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.fleet.calendars import Calendar
from forewarn.fleet.common_openings import HORIZON, CommonOpenings
from forewarn.fleet.windows import Opening, Window, openings
from forewarn.instants import (
    DAY,
    HOUR,
    MINUTE,
    format_instant,
    parse_instant,
    zone_of,
)

EVERY_DAY = tuple(range(7))

FIRST_HOUR = parse_instant("2020-01-01T00:00:00Z") // HOUR

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
]


def shown(window: Window, after: str, count: int) -> list[tuple[str, str]]:
    first_openings = itertools.islice(openings([window], parse_instant(after)), count)
    return [
        (format_instant(opening.opens), format_instant(opening.closes))
        for opening in first_openings
    ]


def night(start: int, length: int = 2 * HOUR) -> Window:
    return Window(days=EVERY_DAY, start=start, length=length, timezone="Europe/Berlin")


def test_change_of_the_clock_does_not_shorten_a_window() -> None:
    assert shown(night(90), "2027-03-27T00:00:00Z", 3) == [
        ("2027-03-27T00:30:00Z", "2027-03-27T02:30:00Z"),
        ("2027-03-28T00:30:00Z", "2027-03-28T02:30:00Z"),
        ("2027-03-28T23:30:00Z", "2027-03-29T01:30:00Z"),
    ]


def test_change_of_the_clock_does_not_lengthen_a_window() -> None:
    assert shown(night(90), "2027-10-30T12:00:00Z", 2) == [
        ("2027-10-30T23:30:00Z", "2027-10-31T01:30:00Z"),
        ("2027-11-01T00:30:00Z", "2027-11-01T02:30:00Z"),
    ]


def test_window_that_starts_in_a_skipped_hour_opens_after_it() -> None:
    assert shown(night(150), "2027-03-28T00:00:00Z", 1) == [
        ("2027-03-28T01:00:00Z", "2027-03-28T03:00:00Z")
    ]


def test_window_that_starts_in_a_repeated_hour_opens_once() -> None:
    assert shown(night(150), "2027-10-30T12:00:00Z", 2) == [
        ("2027-10-31T00:30:00Z", "2027-10-31T02:30:00Z"),
        ("2027-11-01T01:30:00Z", "2027-11-01T03:30:00Z"),
    ]


def test_open_window_is_the_first_opening() -> None:
    window = Window(days=(5,), start=23 * 60, length=5 * HOUR)
    # Saturday's window is open on Sunday.
    assert shown(window, "2027-03-28T02:00:00Z", 2) == [
        ("2027-03-27T23:00:00Z", "2027-03-28T04:00:00Z"),
        ("2027-04-03T23:00:00Z", "2027-04-04T04:00:00Z"),
    ]


def test_overlapping_windows_are_one_opening() -> None:
    windows = [
        Window(days=EVERY_DAY, start=60, length=2 * HOUR),
        Window(days=EVERY_DAY, start=150, length=2 * HOUR),
    ]
    first = next(openings(windows, 20_000 * DAY))
    assert first == Opening(20_000 * DAY + HOUR, 20_000 * DAY + 270 * MINUTE)


def test_windows_that_never_close_have_openings() -> None:
    window = Window(days=EVERY_DAY, start=0, length=DAY)
    first, second = itertools.islice(openings([window], 20_000 * DAY), 2)
    assert first.closes == second.opens
    calendar = Calendar([window], 20_000 * DAY)
    assert calendar.next_notice(20_000 * DAY, HOUR, HOUR) == 20_000 * DAY


@given(
    st.sampled_from(ZONES),
    st.integers(0, 24 * 60 - 1),
    st.integers(FIRST_HOUR, FIRST_HOUR + 20 * 366 * 24),
)
def test_window_opens_at_its_wall_clock_time(zone: str, start: int, hour: int) -> None:
    window = Window(days=EVERY_DAY, start=start, length=HOUR, timezone=zone)
    for opening in itertools.islice(openings([window], hour * HOUR), 3):
        assert opening.closes == opening.opens + HOUR
        local = (
            datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=opening.opens)
        ).astimezone(ZoneInfo(zone))
        before = local.astimezone(UTC) - timedelta(minutes=1)
        shown_before = before.astimezone(ZoneInfo(zone))
        if local.hour * 60 + local.minute == start:
            assert not local.fold, "it opens at the second occurrence"
        else:
            skipped = local.replace(tzinfo=None) - shown_before.replace(tzinfo=None)
            assert skipped > timedelta(minutes=1), "the clock skips nothing here"


def test_host_that_does_not_fit_waits_for_the_next_opening() -> None:
    base = 20_000 * DAY
    calendar = Calendar([Window(days=EVERY_DAY, start=60, length=2 * HOUR)], base)
    # The notice can begin before the opening, so that the work begins with it.
    assert calendar.next_notice(base, HOUR // 2, HOUR) == base + HOUR // 2
    last = base + 2 * HOUR - HOUR // 2
    assert calendar.next_notice(last, HOUR // 2, HOUR) == last
    assert calendar.next_notice(last + 1, HOUR // 2, HOUR) == base + DAY + HOUR // 2
    assert calendar.next_notice(base, 0, 3 * HOUR) is None


def test_unknown_time_zone_is_refused() -> None:
    for name in ("Europe/Berln", "etc/../passwd"):
        with pytest.raises(ValueError, match=re.escape(name)):
            zone_of(name)


@given(
    st.lists(
        st.builds(
            Window,
            days=st.sampled_from([EVERY_DAY, (0, 1), (5,)]),
            start=st.integers(0, 23).map(lambda hour: hour * 60),
            length=st.integers(1, 30).map(lambda hours: hours * HOUR),
            timezone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
        ).map(lambda window: (window,)),
        max_size=3,
    ),
    st.integers(FIRST_HOUR, FIRST_HOUR + 20 * 366 * 24),
)
def test_first_common_opening_is_that_of_a_search_hour_by_hour(
    groups: list[tuple[Window, ...]], hour: int
) -> None:
    at = hour * HOUR

    def is_open(instant: int) -> bool:
        return all(
            next(openings(windows, instant)).opens <= instant for windows in groups
        )

    hours = range(at, at + HORIZON + HOUR, HOUR)
    common = CommonOpenings(openings(windows, at) for windows in groups)
    assert common.first(at).opens == next(filter(is_open, hours), None)


LAST_NOON = parse_instant("8999-12-30T12:00:00Z")


def test_openings_end_with_the_calendar() -> None:
    window = Window(days=EVERY_DAY, start=0, length=HOUR)
    assert len(list(openings([window], LAST_NOON - 2 * DAY))) == 3
    assert list(openings([window], LAST_NOON + 9 * DAY)) == []


def test_host_without_windows_is_announced_at_once() -> None:
    assert Calendar([], 0).next_notice(5, HOUR, DAY) == 5


def test_host_that_fits_no_window_is_never_announced() -> None:
    window = Window(days=EVERY_DAY, start=0, length=HOUR)
    assert Calendar([window], 0).next_notice(0, HOUR, 2 * HOUR) is None


@pytest.mark.parametrize("days", [-2, 9])
def test_host_is_not_announced_after_the_last_opening(days: int) -> None:
    window = Window(days=EVERY_DAY, start=0, length=HOUR)
    at = LAST_NOON + days * DAY
    assert Calendar([window], at).next_notice(at, HOUR, 2 * HOUR) is None
