"""`conform` complains of nothing at a healthy server, whatever its pace and its own.

Phases are shorter than its polls, or longer; events come again and again that are like
those that have gone; some are cancelled when they are approved.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forewarn.instants import MILLISECOND, SECOND, Micros
from tests.support.planted import Pace
from tests.support.planted_expected import Plan
from tests.support.planted_runs import broken, examined

pytestmark = pytest.mark.amounts

EXAMPLES = settings().max_examples


def lengths(most: int) -> st.SearchStrategy[Micros]:
    return st.integers(100, most).map(lambda count: count * MILLISECOND)


PACES = st.builds(
    Pace,
    notice=st.sampled_from((None, 3 * SECOND)),
    started=lengths(20_000),
    gap=lengths(12_000),
    announced=lengths(90_000),
    at_once=st.booleans(),
)

PLANS = st.builds(
    lambda pace, approves, polls, every: Plan(
        pace, approves, polls, every, speed=300.0 if pace.notice else 1.0
    ),
    PACES,
    st.booleans(),
    st.sampled_from((0, 30, 120)),
    st.sampled_from((SECOND // 4, SECOND, 5 * SECOND, 30 * SECOND)),
)


@pytest.mark.slow
@settings(
    max_examples=max(EXAMPLES // 4, 10), suppress_health_check=[HealthCheck.too_slow]
)
@given(PLANS)
def test_healthy_server_has_no_findings(plan: Plan) -> None:
    assert broken(examined(None, plan)) == {}
