"""Blackouts: their times over the changes of the clocks, and the calendar with them."""

from datetime import date

import pytest

from forewarn.fleet.blackout_fields import BLACKOUT, blackout_of, line_of_blackout
from forewarn.fleet.blackouts import Clash, clash, coming, times_of
from forewarn.fleet.calendars import MISSES_MAX, Calendar, free_times
from forewarn.fleet.common_openings import HORIZON
from forewarn.fleet.windows import Opening, Window
from forewarn.instants import DAY, HOUR, MINUTE, format_instant, parse_instant

EVERY_DAY = tuple(range(7))
BASE = parse_instant("2026-12-20T00:00:00Z")
YEAR_END = "year-end 2026-12-24T18:00 2027-01-02T06:00 Europe/Berlin"


def at(text: str) -> int:
    return parse_instant(text)


def window(start: int, length: int, *days: int) -> Window:
    return Window(days=days or EVERY_DAY, start=start * 60, length=length * HOUR)


@pytest.mark.parametrize(
    "line",
    [YEAR_END, "trading mon,fri 09:00 8h America/New_York", "nights 22:00 7h UTC"],
)
def test_a_line_is_read_back(line: str) -> None:
    assert line_of_blackout(blackout_of(line)) == line


def test_a_day_without_a_time_begins_at_midnight() -> None:
    blackout = blackout_of("freeze 2026-12-24 2026-12-27")
    (time,) = times_of(blackout, BASE)
    assert format_instant(time.opens) == "2026-12-24T00:00:00Z"
    assert format_instant(time.closes) == "2026-12-27T00:00:00Z"


def test_a_date_of_a_toml_file_is_its_midnight() -> None:
    begins = BLACKOUT["from"]
    assert begins.form.read(begins, date(2026, 12, 24)) == "2026-12-24T00:00"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("year-end", "is not a line such as"),
        ("-x 22:00 7h", "is not a line such as"),
        ("x 2026-12-24", "is not a line such as"),
        ("x 2026-12-24 2026-12-25 UTC more", "is not a line such as"),
        ("x 2026-12-24 tomorrow", "until: must be a date and time"),
        ("x 2026-13-24 2026-12-25", "from: .* is not a date and time"),
        ("x 9000-01-01 9000-01-02", "from: must be before the year 9000"),
        ("x 2026-12-24 2026-12-24", "until must be after from, 2026-12-24T00:00"),
        ("x 2026-12-24 2026-12-25 Europe/Berln", "there is no time zone"),
        ("x 22:00 200h", "length: must be at most"),
    ],
)
def test_a_wrong_line_is_explained(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        blackout_of(line)


def test_a_blackout_keeps_its_wall_clock_times() -> None:
    # The clocks of Berlin go forward on 2027-03-28 at 01:00 UTC.
    blackout = blackout_of("easter 2027-03-26T18:00 2027-03-29T06:00 Europe/Berlin")
    (time,) = times_of(blackout, BASE)
    assert format_instant(time.opens) == "2027-03-26T17:00:00Z"
    assert format_instant(time.closes) == "2027-03-29T04:00:00Z"


def test_a_blackout_in_skipped_times_is_empty() -> None:
    blackout = blackout_of("gap 2027-03-28T02:10 2027-03-28T02:50 Europe/Berlin")
    assert list(times_of(blackout, BASE)) == []
    assert clash([blackout], BASE, BASE + 200 * DAY) is None


def test_work_can_end_when_a_blackout_begins_and_begin_when_it_ends() -> None:
    blackouts = [blackout_of(YEAR_END)]
    begins, ends = at("2026-12-24T17:00:00Z"), at("2027-01-02T05:00:00Z")
    assert clash(blackouts, begins - HOUR, begins) is None
    assert clash(blackouts, begins - HOUR, begins + 1) == Clash(
        name="year-end", begins=begins, ends=ends
    )
    assert clash(blackouts, begins, begins) is not None
    assert clash(blackouts, ends, ends + HOUR) is None


def test_the_blackout_that_begins_first_is_named() -> None:
    lines = ["late 2026-12-22 2026-12-25", "early 2026-12-21 2026-12-23"]
    blackout = clash([blackout_of(line) for line in lines], BASE, BASE + 3 * DAY)
    assert blackout is not None
    assert blackout.name == "early"


def test_coming_times_are_those_until_an_instant_and_the_next_one_of_each() -> None:
    lines = [YEAR_END, "noon 12:00 1h UTC", "past 2020-01-01 2020-01-02"]
    blackouts = [blackout_of(line) for line in lines]
    names = [occurrence.name for occurrence in coming(blackouts, BASE, BASE + 2 * DAY)]
    assert names == ["noon", "noon", "year-end"]


def test_host_is_not_announced_in_a_blackout_nor_worked_on() -> None:
    # Nights from 22:00 to 02:00, and a blackout over the first of them.
    calendar = Calendar(
        [window(22, 4)], BASE, [blackout_of("b 2026-12-20T20:00 2026-12-21T06:00")]
    )
    notice_at = calendar.next_notice(BASE + 12 * HOUR, HOUR, HOUR)
    assert notice_at == BASE + DAY + 21 * HOUR
    # The notice would begin in the blackout, so it begins at its end.
    assert (
        calendar.next_notice(BASE + 21 * HOUR, 18 * HOUR, HOUR) == BASE + DAY + 6 * HOUR
    )


def test_work_ends_before_the_blackout_or_begins_after_it() -> None:
    calendar = Calendar([], BASE, [blackout_of("b 2026-12-20T10:00 2026-12-20T12:00")])
    assert calendar.next_notice(BASE + 8 * HOUR, HOUR, HOUR) == BASE + 8 * HOUR
    late = BASE + 8 * HOUR + MINUTE
    # One hour before the end of the blackout is in the blackout.
    assert calendar.next_notice(late, HOUR, HOUR) == BASE + 12 * HOUR
    # A notice that is longer than the blackout can begin before it.
    assert calendar.next_notice(late, 3 * HOUR, HOUR) == BASE + 9 * HOUR


def test_blackout_without_end_leaves_no_time() -> None:
    always = blackout_of("always 00:00 24h")
    assert Calendar([], BASE, [always]).next_notice(BASE, HOUR, HOUR) is None
    assert Calendar([], BASE, [always]).next_start(BASE, HOUR) is None


def test_blackout_over_each_window_leaves_no_time() -> None:
    blackouts = [blackout_of("nights 21:00 6h")]
    calendar = Calendar([window(22, 4)], BASE, blackouts)
    assert calendar.next_start(BASE, HOUR) is None
    assert calendar.next_notice(BASE, HOUR, HOUR) is None


def test_a_notice_that_always_begins_in_a_blackout_is_never_given() -> None:
    # Work fits from 13:00 on, and a notice of 1 h would begin in the blackout before.
    calendar = Calendar([window(13, 1)], BASE, [blackout_of("b 10:00 3h")])
    assert calendar.next_notice(BASE, HOUR, HOUR) is None
    assert MISSES_MAX * DAY > HORIZON


def test_blackout_over_several_windows_leaves_the_time_after_it() -> None:
    free = free_times(
        [window(22, 4)],
        [blackout_of("b 2026-12-20 2026-12-22T23:00")],
        BASE,
        BASE + 3 * DAY,
    )
    assert list(free) == [Opening(BASE + 2 * DAY + 23 * HOUR, BASE + 3 * DAY)]
