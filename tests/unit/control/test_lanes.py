"""Lanes: times of several hosts merged into one, and counted by steps."""

from hypothesis import given
from hypothesis import strategies as st

from forewarn.reporting.campaign_states import HostState
from forewarn.reporting.lanes import Stretch, busy, merged, within

DONE, WORK, NOTICE = HostState.DONE, HostState.IMPACTING, HostState.ANNOUNCED
NOW = 1_000


def lane(*stretches: Stretch, most: int = 100) -> list[Stretch]:
    return merged(stretches, stretches_max=most, now=NOW)


def test_equal_states_are_merged_and_gaps_stay() -> None:
    assert lane(
        Stretch(DONE, 10, 20), Stretch(DONE, 15, 30), Stretch(DONE, 40, 50)
    ) == [
        Stretch(DONE, 10, 30),
        Stretch(DONE, 40, 50),
    ]


def test_work_hides_a_notice_of_another_host() -> None:
    assert lane(Stretch(NOTICE, 10, 50), Stretch(WORK, 20, 30)) == [
        Stretch(NOTICE, 10, 20),
        Stretch(WORK, 20, 30),
        Stretch(NOTICE, 30, 50),
    ]


def test_what_goes_on_has_no_end_and_what_is_expected_follows_it() -> None:
    planned = Stretch(HostState.PLANNED, 900, 1_200)
    assert lane(Stretch(WORK, 500, 0), planned) == [
        Stretch(WORK, 500, 0),
        Stretch(HostState.PLANNED, NOW, 1_200),
    ]


def test_long_lane_keeps_its_end() -> None:
    many = [Stretch(DONE, at, at + 1) for at in range(0, 100, 2)]
    assert lane(*many, most=3) == many[-3:]


def test_a_time_selects_the_stretches_that_overlap_it() -> None:
    many = [Stretch(DONE, 10, 20), Stretch(DONE, 20, 30), Stretch(WORK, 30, 0)]
    assert within(many, 20, 30) == [many[1]]
    assert within(many, 25, 0) == many[1:]


def test_steps_count_what_overlaps_them() -> None:
    found = busy(
        [Stretch(DONE, 0, 25), Stretch(WORK, 60, 0), Stretch(DONE, 200, 300)],
        0,
        100,
        steps=4,
    )
    assert found == [1, 1, 1, 1]


STATES = st.sampled_from(list(HostState))


@given(
    st.lists(
        st.builds(Stretch, STATES, st.integers(1, 50), st.integers(0, 60)), max_size=12
    )
)
def test_lane_has_at_each_instant_a_state_of_a_host_there(
    stretches: list[Stretch],
) -> None:
    found = merged(stretches, stretches_max=100, now=55)
    for at in range(60):
        there = {e.state for e in stretches if e.begins <= at < (e.ends or 55)}
        shown = [e.state for e in found if e.begins <= at < (e.ends or 55)]
        assert len(shown) == (1 if there else 0)
        assert set(shown) <= there
