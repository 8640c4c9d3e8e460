"""Times outside of blackouts are those that a search hour by hour finds."""

from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from forewarn.fleet.blackouts import Blackout, clash
from forewarn.fleet.calendars import Calendar, free_times
from forewarn.fleet.windows import Opening, Window, openings
from forewarn.instants import DAY, HOUR, format_instant, parse_instant

EVERY_DAY = tuple(range(7))
BASE = parse_instant("2026-12-20T00:00:00Z")


def window(start: int, length: int, *days: int) -> Window:
    return Window(days=days or EVERY_DAY, start=start * 60, length=length * HOUR)


HOURS = st.integers(0, 14 * 24)

BLACKOUTS = st.one_of(
    st.builds(
        lambda name, start, length: Blackout(
            name=name,
            begins=format_instant(BASE + start * HOUR).removesuffix("Z"),
            ends=format_instant(BASE + (start + length) * HOUR).removesuffix("Z"),
        ),
        st.sampled_from("abc"),
        HOURS,
        st.integers(1, 60),
    ),
    st.builds(
        lambda name, start, length, day: Blackout(
            name=name, window=window(start, length, day)
        ),
        st.sampled_from("abc"),
        st.integers(0, 23),
        st.integers(1, 30),
        st.integers(0, 6),
    ),
)


@given(
    st.lists(st.builds(window, st.integers(0, 23), st.integers(1, 30)), max_size=2),
    st.lists(BLACKOUTS, max_size=3),
    HOURS,
    st.integers(0, 5),
    st.integers(1, 3),
)
def test_calendar_finds_the_first_hour_of_a_search_hour_by_hour(
    windows: list[Window],
    blackouts: list[Blackout],
    hour: int,
    notice: int,
    work: int,
) -> None:
    begin = BASE + hour * HOUR
    calendar = Calendar(windows, BASE)

    def allowed(announced: int) -> bool:
        """Return whether a host can be announced, and can start at some time."""
        if clash(blackouts, announced, announced) is not None:
            return False
        start = calendar.next_start(announced + notice * HOUR, work * HOUR)
        return (
            start is not None
            and start == announced + notice * HOUR
            and clash(blackouts, start, start + work * HOUR) is None
        )

    first = Calendar(windows, BASE, blackouts).next_notice(
        begin, notice * HOUR, work * HOUR
    )
    hours = range(begin, begin + 40 * DAY, HOUR)
    right = next(filter(allowed, hours), None)
    if first is None:
        assert right is None
        return
    assert clash(blackouts, first, first) is None
    start = Calendar(windows, BASE, blackouts).next_start(
        first + notice * HOUR, work * HOUR
    )
    assert start is not None
    assert clash(blackouts, start, start + work * HOUR) is None
    # A host that is announced when its notice begins can wait for an opening; never later
    # than the first time at which the work follows the notice.
    assert right is None or first <= right


@given(
    st.lists(st.builds(window, st.integers(0, 23), st.integers(1, 30)), max_size=2),
    st.lists(BLACKOUTS, max_size=3),
    HOURS,
    st.integers(0, 20 * 24),
)
def test_free_times_are_the_hours_in_a_window_and_in_no_blackout(
    windows: list[Window], blackouts: list[Blackout], hour: int, length: int
) -> None:
    begin = BASE + hour * HOUR
    end = begin + length * HOUR
    free = list(free_times(windows, blackouts, begin, end))
    hours = range(begin, end, HOUR)
    windowed = takewhile(lambda opening: opening.opens < end, openings(windows, begin))
    opened = [*windowed] if windows else [Opening(begin, end)]
    assert {h for h in hours if any(t.opens <= h < t.closes for t in free)} == {
        h
        for h in hours
        if any(opening.opens <= h < opening.closes for opening in opened)
        and clash(blackouts, h, h) is None
    }
    assert free == sorted(free)
    assert all(begin <= opening.opens < opening.closes <= end for opening in free)
