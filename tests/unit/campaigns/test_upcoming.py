"""Estimates for the owners of VMs: by when the work on a waiting host begins."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from forewarn.campaigns.upcoming import (
    AHEAD_MAX,
    Ahead,
    Pace,
    begins_by,
    end_of_day,
)
from forewarn.fleet.windows import Opening
from forewarn.instants import DAY, HOUR, Micros

NOW: Micros = 1_000 * DAY
ALWAYS = (Opening(NOW, NOW + AHEAD_MAX),)
NO_PACE = Pace(done=9, elapsed=HOUR)
NEXT = Ahead(hosts=0, slots=1, ramps=1, soaks=0, work=HOUR)


def by(
    ahead: Ahead, pace: Pace = NO_PACE, free: Sequence[Opening] = ALWAYS
) -> Micros | None:
    begin = begins_by(ahead, pace, free, now=NOW)
    return None if begin is None else begin - NOW


def test_rounds_and_soaks_come_before_a_host() -> None:
    # One round for the host itself, and one for the beginning of the stage.
    assert by(NEXT) == 2 * HOUR
    assert by(replace(NEXT, hosts=10)) == 22 * HOUR
    # With four at once, the stage begins with 1, 2 and 4 hosts.
    assert by(replace(NEXT, hosts=10, slots=4)) == (1 + 2 * 3 + 3) * HOUR
    assert by(replace(NEXT, soaks=DAY)) == DAY + 2 * HOUR


def test_work_only_counts_within_windows() -> None:
    nights = [Opening(NOW + n * DAY, NOW + n * DAY + 5 * HOUR) for n in range(90)]
    assert by(replace(NEXT, hosts=10), free=nights) == 4 * DAY + 2 * HOUR
    short = [opening._replace(closes=opening.opens + HOUR - 1) for opening in nights]
    assert by(NEXT, free=short) is None


def test_slow_progress_so_far_makes_it_later() -> None:
    slow = Pace(done=10, elapsed=20 * DAY)
    assert by(replace(NEXT, hosts=10), slow) == 22 * DAY
    quick = Pace(done=10, elapsed=HOUR)
    assert by(replace(NEXT, hosts=10), quick) == 22 * HOUR


def test_without_durations_only_the_pace_counts() -> None:
    unknown = replace(NEXT, work=0)
    assert by(unknown) is None
    assert by(unknown, Pace(done=10, elapsed=10 * HOUR)) == HOUR


@pytest.mark.parametrize(
    "ahead", [replace(NEXT, hosts=5_000), replace(NEXT, soaks=AHEAD_MAX)]
)
def test_a_distant_time_is_unknown(ahead: Ahead) -> None:
    assert by(ahead) is None


def test_estimates_are_rounded_up_to_a_day() -> None:
    assert end_of_day(NOW) == NOW + DAY
    assert end_of_day(NOW + DAY - 1) == NOW + DAY
