"""Durations of past work replace those of a campaign's file, if there is enough of it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.campaigns.durations import (
    SAMPLES_MAX,
    SAMPLES_MIN,
    Sample,
    measured,
    percentile,
)
from forewarn.instants import MINUTE


def sample(minutes: int, *, at: int = 0, model: str = "", vms: bool = True) -> Sample:
    return Sample(
        at=at,
        model=model,
        work=minutes * MINUTE,
        notice=minutes * MINUTE // 2,
        has_vms=vms,
    )


def test_too_few_hosts_measure_nothing() -> None:
    assert measured([sample(5)] * (SAMPLES_MIN - 1), []) is None
    assert measured([], ["r7525"]) is None


def test_half_of_the_hosts_are_typical_and_a_tenth_is_slower_than_slow() -> None:
    durations = measured([sample(minutes) for minutes in range(1, 11)], [])
    assert durations is not None
    assert (durations.work.typical, durations.work.slow) == (5 * MINUTE, 9 * MINUTE)
    assert durations.work.is_given
    assert durations.notice_slow == 9 * MINUTE // 2
    assert durations.notices == tuple(number * MINUTE // 2 for number in range(1, 11))
    assert durations.models == ()


def test_hosts_of_the_same_model_count_if_there_are_enough() -> None:
    slow = [sample(60, model="old")] * SAMPLES_MIN
    fast = [sample(5, model="new")] * SAMPLES_MIN
    durations = measured([*slow, *fast], ["new", "new"])
    assert durations is not None
    assert (durations.models, durations.work.slow) == (("new",), 5 * MINUTE)
    fewer = measured([*slow, *fast[1:]], ["new"])
    assert fewer is not None
    assert (fewer.models, fewer.work.slow) == ((), 60 * MINUTE)


def test_only_work_with_the_same_step_counts() -> None:
    drains = [sample(1)] * SAMPLES_MIN
    flashes = [replace(sample(44), step="flash")] * SAMPLES_MIN
    assert measured(drains, [], step="flash") is None
    durations = measured([*drains, *flashes], [], step="flash")
    assert durations is not None
    assert (durations.step, durations.hosts, durations.slow) == (
        "flash",
        SAMPLES_MIN,
        44 * MINUTE,
    )
    without = measured([*drains, *flashes], [])
    assert without is not None
    assert (without.step, without.slow) == ("", MINUTE)


def test_empty_hosts_do_not_count_if_vms_are_moved_away() -> None:
    empty = [sample(1, vms=False)] * SAMPLES_MIN
    assert measured(empty, [], moves_vms=True) is None
    durations = measured([*empty, *[sample(44)] * SAMPLES_MIN], [], moves_vms=True)
    assert durations is not None
    assert (durations.hosts, durations.slow) == (SAMPLES_MIN, 44 * MINUTE)


def test_slow_time_of_the_file_is_a_lower_bound() -> None:
    samples = [sample(20)] * SAMPLES_MIN
    used = []
    for minutes in (0, 10, 44):
        durations = measured(samples, [], slow_min=minutes * MINUTE)
        assert durations is not None
        assert durations.slow == durations.work.typical == 20 * MINUTE
        used.append(durations.work.slow // MINUTE)
    assert used == [20, 20, 44]


def test_only_the_newest_hosts_count() -> None:
    old = [sample(60, at=1)] * SAMPLES_MAX
    new = [sample(5, at=2)] * SAMPLES_MAX
    durations = measured([*old, *new], [])
    assert durations is not None
    assert (durations.hosts, durations.work.slow) == (SAMPLES_MAX, 5 * MINUTE)


def test_empty_hosts_say_nothing_about_notices() -> None:
    durations = measured([sample(5, vms=False)] * SAMPLES_MIN, [])
    assert durations is not None
    assert durations.notice_typical is None


@given(st.lists(st.integers(0, 10**9), min_size=1), st.integers(1, 100))
def test_a_percentile_is_a_value_that_enough_do_not_exceed(
    values: list[int], percent: int
) -> None:
    durations = percentile(values, percent)
    assert durations in values
    assert sum(value <= durations for value in values) * 100 >= len(values) * percent
    assert sum(value < durations for value in values) * 100 < len(values) * percent


@pytest.mark.parametrize(("percent", "value"), [(50, 2), (90, 4), (100, 4), (1, 1)])
def test_percentiles_of_four_values(percent: int, value: int) -> None:
    assert percentile([3, 1, 4, 2], percent) == value
