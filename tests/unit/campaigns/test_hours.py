"""When the hosts of a campaign can start, by its windows."""

from forewarn.campaigns.hours import LATE_MAX, Hours
from forewarn.fleet.windows import Window
from forewarn.instants import DAY, HOUR, MINUTE, SECOND, parse_instant
from forewarn.protocol.turn_blockers import OutsideWindow

OPENS = parse_instant("2026-12-20T22:00:00Z")

NIGHT = Window(days=tuple(range(7)), start=22 * 60, length=HOUR)


def hours(work: int) -> Hours:
    return Hours(campaign="bios", work=work, windows=(NIGHT,))


def test_a_host_starts_while_its_work_ends_in_the_window() -> None:
    starts = hours(44 * MINUTE)
    assert starts.why_held(OPENS) is None
    assert starts.why_held(OPENS + 16 * MINUTE) is None
    for late in (20 * MINUTE, 59 * MINUTE, 61 * MINUTE):
        assert starts.why_held(OPENS + late) == OutsideWindow(
            campaign="bios", opens=OPENS + DAY
        )


def test_a_window_of_the_length_of_the_work_is_long_enough() -> None:
    starts = hours(HOUR)
    # A start is a little later than the timer that it waited for.
    assert starts.why_held(OPENS + 5 * SECOND) is None
    assert starts.why_held(OPENS + LATE_MAX) is None
    assert starts.why_held(OPENS + LATE_MAX + SECOND) is not None


def test_a_window_that_is_shorter_than_the_work_never_opens() -> None:
    assert hours(2 * HOUR).why_held(OPENS) == OutsideWindow(campaign="bios", opens=0)
