"""Chances of a simulation follow from its seed; the worst moment of a budget is found."""

from hypothesis import given
from hypothesis import strategies as st

from forewarn.campaigns.model import Expectation
from forewarn.campaigns.simulated import (
    TIMES_SLOW_MAX,
    USUAL_APPROVAL,
    Assumptions,
    Chances,
    Peak,
    peak,
)
from forewarn.instants import MINUTE, Micros

EXPECT = Expectation(typical=30 * MINUTE, slow=45 * MINUTE)
NAMES = [f"h{number}" for number in range(4_000)]


def chances(*, approve: float = 0.7, failures: float = 0.1, seed: int = 1) -> Chances:
    return Chances(Assumptions(approve=approve, failures=failures, seed=seed))


def test_shares_are_those_that_are_assumed() -> None:
    assumed = chances()
    approving = sum(map(assumed.approves, NAMES)) / len(NAMES)
    failing = sum(map(assumed.fails, NAMES)) / len(NAMES)
    assert 0.67 < approving < 0.73
    assert 0.08 < failing < 0.12


def test_none_and_all_are_exact() -> None:
    assert not any(map(chances(approve=0).approves, NAMES))
    assert all(map(chances(approve=1).approves, NAMES))
    assert not any(map(chances(failures=0).fails, NAMES))
    assert all(map(chances(failures=1).fails, NAMES))


def test_another_seed_is_another_fate() -> None:
    first = [name for name in NAMES if chances(seed=1).fails(name)]
    assert first == [name for name in NAMES if chances(seed=1).fails(name)]
    assert first != [name for name in NAMES if chances(seed=2).fails(name)]


def test_half_of_the_hosts_take_the_typical_time_and_nine_of_ten_the_slow_one() -> None:
    works = sorted(chances().work(name, EXPECT) for name in NAMES)
    assert abs(works[len(works) // 2] - EXPECT.typical) < MINUTE
    assert abs(works[len(works) * 9 // 10] - EXPECT.slow) < 2 * MINUTE
    assert works[-1] <= TIMES_SLOW_MAX * EXPECT.slow


def test_hosts_without_a_spread_all_take_the_typical_time() -> None:
    same = Expectation(typical=MINUTE, slow=MINUTE)
    assert {chances().work(name, same) for name in NAMES[:50]} == {MINUTE}


USES = st.lists(
    st.tuples(
        st.integers(0, 20), st.integers(1, 9), st.sampled_from("ab"), st.integers(1, 3)
    ),
    min_size=1,
)


@given(USES, st.integers(1, 5), st.integers(1, 5))
def test_peak_is_the_worst_moment_by_its_limit(
    drawn: list[tuple[int, int, str, int]], most_a: int, most_b: int
) -> None:
    limits = {"a": most_a, "b": most_b}
    uses = [(at, at + length, name, used) for at, length, name, used in drawn]

    def used_at(at: Micros, name: str) -> int:
        return sum(
            used
            for begins, ends, subject, used in uses
            if subject == name and begins <= at < ends
        )

    worst_moment = peak(uses, limits)
    assert worst_moment is not None
    worst = max(used_at(at, name) / limits[name] for at in range(30) for name in limits)
    assert worst_moment.used / limits[worst_moment.subject] == worst
    assert worst_moment.used == used_at(worst_moment.at, worst_moment.subject)


def test_peak_counts_what_is_always_used_and_tells_no_limit() -> None:
    uses = [(10, 20, "", 1), (20, 30, "", 1)]
    assert peak(uses, {"": 5}, base=2) == Peak(subject="", used=3, most=5, at=10)
    assert peak(uses, {}) == Peak(subject="", used=1, most=None, at=10)
    assert peak([], {}) is None


def test_hosts_use_their_notice_as_those_of_past_work_did() -> None:
    past = [MINUTE, 2 * MINUTE, 10 * MINUTE]
    drawn = [chances().passes(f"h{number}", past) for number in range(300)]
    assert set(drawn) == set(past)
    # Each of them is as likely as the others.
    assert all(70 < drawn.count(notice) < 130 for notice in past)
    assert [chances().passes(f"h{number}", past) for number in range(300)] == drawn


def test_a_usual_share_approves_if_none_is_given() -> None:
    usual = Chances(Assumptions())
    approving = sum(usual.approves(f"s{number}") for number in range(1_000))
    assert abs(approving - 1_000 * USUAL_APPROVAL) < 50
