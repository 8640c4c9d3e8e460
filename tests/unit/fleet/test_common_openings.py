"""Common openings of windows: what a slow search finds, with a bounded amount of work."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.fleet.common_openings import HORIZON, LOOKS_MAX, CommonOpenings
from forewarn.fleet.windows import Window, openings
from forewarn.instants import DAY, HOUR, MINUTE, SECOND, Micros, parse_instant

EVERY_DAY = tuple(range(7))
BEGIN = parse_instant("2027-03-20T00:00:00Z")
LAST_NOON = parse_instant("8999-12-30T12:00:00Z")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def window(start: int, length: Micros, zone: str = "UTC", *days: int) -> Window:
    return Window(days=days or EVERY_DAY, start=start, length=length, timezone=zone)


def common(groups: Iterable[Sequence[Window]], after: Micros) -> CommonOpenings:
    return CommonOpenings(openings(windows, after) for windows in groups)


def staggered(groups: int) -> list[tuple[Window, ...]]:
    """Return groups of 20 windows a day that are all closed before the next group opens."""
    return [
        tuple(window(number * 72 + group, MINUTE) for number in range(20))
        for group in range(groups)
    ]


def always_one_closed(groups: int) -> list[tuple[Window, ...]]:
    """Return groups of which one is closed at each time, and all others are open."""
    minutes = 24 * 60 // 2 // groups
    return [
        tuple(
            window(
                (2 * (number * groups + group) + 2) % 1440, 2 * (groups - 1) * MINUTE
            )
            for number in range(minutes)
        )
        for group in range(groups)
    ]


def slow_openings(window: Window, at: Micros) -> list[tuple[Micros, Micros]]:
    """Return the openings of a window around an instant, minute by minute of its days."""
    zone = ZoneInfo(window.timezone)
    moment = EPOCH + timedelta(microseconds=at)
    all_openings: list[tuple[Micros, Micros]] = []
    for number in range(-10, 18):
        day = (moment + timedelta(days=number)).replace(hour=0, minute=0, second=0)
        if day.weekday() not in window.days:
            continue
        wanted = day.replace(tzinfo=None) + timedelta(minutes=window.start)
        # From before the day in the east of UTC on, until the wall clock has passed it.
        shown = day - timedelta(hours=15)
        while shown.astimezone(zone).replace(tzinfo=None) < wanted:
            shown += timedelta(minutes=15)
        opens = (shown - EPOCH) // timedelta(microseconds=1)
        all_openings.append((opens, opens + window.length))
    return all_openings


def slow_search(groups: list[tuple[Window, ...]], at: Micros) -> Micros | None:
    """Try each instant at which a window opens."""
    openings = [
        [opening for window in windows for opening in slow_openings(window, at)]
        for windows in groups
    ]
    candidates = {at, *(opens for group in openings for opens, _ in group)}
    return next(
        (
            instant
            for instant in sorted(candidates)
            if at <= instant <= at + HORIZON
            and all(
                any(opens <= instant < closes for opens, closes in group)
                for group in openings
            )
        ),
        None,
    )


WINDOWS = st.builds(
    window,
    st.integers(0, 24 * 4 - 1).map(lambda quarter: quarter * 15),
    st.integers(1, 40).map(lambda quarters: quarters * 15 * MINUTE + SECOND),
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York"]),
    st.integers(0, 6),
    st.integers(0, 6),
)
GROUPS = st.lists(st.lists(WINDOWS, min_size=1, max_size=3).map(tuple), max_size=4)


@given(GROUPS, st.integers(0, 365 * 24 * 4).map(lambda n: BEGIN + n * 15 * MINUTE))
def test_search_finds_the_instant_of_a_slow_search(
    groups: list[tuple[Window, ...]], at: Micros
) -> None:
    common_openings = common(groups, at)
    search = common_openings.first(at)
    assert search.opens == slow_search(groups, at)
    if search.opens is None:
        apart = common_openings.apart(search, at)
        assert slow_search([groups[index] for index in apart], at) is None
        for group in apart:
            others = [groups[other] for other in apart if other != group]
            assert slow_search(others, at) is not None


@given(GROUPS, st.integers(0, 7 * 24).map(lambda hours: BEGIN + hours * HOUR))
def test_one_search_answers_for_later_instants(
    groups: list[tuple[Window, ...]], later: Micros
) -> None:
    common_openings = common(groups, BEGIN)
    common_openings.first(BEGIN)
    assert (
        common_openings.first(later).opens == common(groups, later).first(later).opens
    )


def test_a_group_that_turns_out_to_be_needless_is_not_tried() -> None:
    monday = parse_instant("2027-03-22T00:00:00Z")
    # Days and hours of six-hour windows. The search stops at the fourth group, but the
    # second and third are never open together.
    times = [
        [(1, 0), (2, 12), (3, 6)],
        [(0, 6), (2, 0), (3, 6)],
        [(1, 0), (1, 18), (2, 12)],
        [(1, 6), (2, 12), (3, 6)],
    ]
    groups = [
        tuple(window(hour * 60, 6 * HOUR, "UTC", day) for day, hour in time)
        for time in times
    ]
    common_openings = common(groups, monday)
    search = common_openings.first(monday)
    assert sorted(search.apart) == [0, 1, 2, 3]
    assert sorted(common_openings.apart(search, monday)) == [1, 2]


def test_openings_that_miss_each_other_are_passed_once() -> None:
    looks: list[int] = []
    for groups in (2, 10, 60):
        common_openings = common(staggered(groups), BEGIN)
        search = common_openings.first(BEGIN)
        assert (search.opens, search.until) == (None, BEGIN + HORIZON)
        assert len(common_openings.apart(search, BEGIN)) == 2
        looks.append(common_openings.looks)
    # Two groups show that there is none. Of the others, only the next opening counts.
    assert looks[0] < 2 * 2 * 20 * 15
    assert looks[2] < looks[0] + 60 * 2 * 4


def test_asking_again_costs_nothing() -> None:
    common_openings = common(staggered(10), BEGIN)
    search = common_openings.first(BEGIN)
    looks = common_openings.looks
    assert (common_openings.first(BEGIN), common_openings.looks) == (search, looks)


@pytest.mark.parametrize("groups", [36, 72, 360])
def test_search_in_which_all_groups_count_ends_early(groups: int) -> None:
    common_openings = common(always_one_closed(groups), BEGIN)
    search = common_openings.first(BEGIN)
    assert search.opens is None
    assert BEGIN < search.until < BEGIN + HORIZON
    apart = common_openings.apart(search, BEGIN)
    assert 2 <= len(apart) <= groups
    # The last round can look at each group, and compute two weeks of one.
    assert common_openings.looks < 2 * LOOKS_MAX + groups + 20 * 15


def test_search_that_ended_early_goes_on_from_its_end() -> None:
    wednesday = window(12 * 60, HOUR, "UTC", 2)
    groups = [(*windows, wednesday) for windows in always_one_closed(36)]
    at = BEGIN
    searches = 0
    while (search := common(groups, at).first(at)).opens is None:
        at = search.until
        searches += 1
    assert searches > 1
    assert search.opens == parse_instant("2027-03-24T12:00:00Z")


def test_next_opening_of_each_group_is_told() -> None:
    common_openings = common([(window(60, HOUR),), (window(0, 2 * HOUR),)], BEGIN)
    assert [common_openings.opens(group, BEGIN) for group in (0, 1)] == [
        BEGIN + HOUR,
        BEGIN,
    ]


def test_windows_after_the_last_day_never_open() -> None:
    after = LAST_NOON + 9 * DAY
    common_openings = common([(window(0, HOUR),)], after)
    assert common_openings.opens(0, after) is None
    assert common_openings.first(after).opens is None


def test_no_windows_are_always_open() -> None:
    assert common([], BEGIN).first(BEGIN).opens == BEGIN
