"""The expected times of a campaign's hosts, from the hosts that were done last."""

import pytest

from forewarn.campaigns.pace import (
    Line,
    Pace,
    Sample,
    end_after,
    pace_of,
    spent,
    turn_after,
    whole_minute,
)
from forewarn.fleet.windows import Opening
from forewarn.instants import MINUTE

TURN = Pace(hosts=3, turn=30 * MINUTE, work=10 * MINUTE)


def line(waiting: int, in_flight: int, slots: int) -> Line:
    return Line(waiting=waiting, in_flight=in_flight, slots=slots)


def test_pace_is_the_median_and_unknown_without_a_host() -> None:
    assert pace_of([]) is None
    pace = pace_of([Sample(0, 5, 10), Sample(0, 5, 12), Sample(0, 90, 100)])
    assert pace == Pace(hosts=3, turn=12, work=7)


def test_host_with_a_free_place_is_announced_at_once() -> None:
    assert turn_after(line(5, 1, 3), TURN, 0) == 0
    assert turn_after(line(5, 1, 3), TURN, 1) == 0
    assert turn_after(line(5, 1, 3), TURN, 2) > 0


def test_later_hosts_are_announced_later() -> None:
    times = [turn_after(line(9, 2, 2), TURN, ahead) for ahead in range(9)]
    assert times == sorted(times)
    # Two at once: each pair of hosts adds a turn.
    assert times[4] - times[2] == TURN.turn


@pytest.mark.parametrize(
    ("hosts", "ends"),
    [
        (line(0, 0, 2), 0),
        (line(0, 2, 2), TURN.turn // 2),
        (line(1, 0, 2), TURN.turn),
    ],
)
def test_end_of_few_hosts(hosts: Line, ends: int) -> None:
    assert end_after(hosts, TURN) == ends


def test_working_time_passes_only_in_openings() -> None:
    free = [Opening(0, 10), Opening(100, 120)]
    assert spent(free, 5) == 5
    assert spent(free, 15) == 105
    assert spent(free, 31) is None


def test_estimates_move_by_whole_minutes() -> None:
    assert whole_minute(MINUTE) == MINUTE
    assert whole_minute(MINUTE + 1) == 2 * MINUTE
