"""The included clients pass the included scenarios; a sleeping client fails.

The two fastest scenarios; `make real` runs all, at the speed that a newcomer
gets, which is what a client that polls once a second can meet.
"""

from pathlib import Path

import pytest

from forewarn.sim.scenario import builtin
from tests.support import shipped

pytestmark = [pytest.mark.system, pytest.mark.slow]

QUICKEST = ("spot-preemption", "terminate-several")


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(each.name, marks=() if each.name in QUICKEST else pytest.mark.long)
        for each in builtin.scenarios()
    ],
)
def test_shipped_client_passes_and_sleeping_client_fails(
    scenario: str, tmp_path: Path
) -> None:
    shipped.judge(scenario, tmp_path)
