"""The included clients pass the included scenarios; a sleeping client fails.

The fastest scenario; `make real` runs all, at the speed that a newcomer
gets, which is what a client that polls once a second can meet.
"""

from pathlib import Path

import pytest

from forewarn.sim.scenario import builtin
from tests.support import shipped
from tests.support.profiles import some

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.mark.parametrize(
    "scenario",
    some(
        (scenario.name for scenario in builtin.scenarios()), usual=["spot-preemption"]
    ),
)
def test_shipped_client_passes_and_sleeping_client_fails(
    scenario: str, tmp_path: Path
) -> None:
    shipped.judge(scenario, tmp_path)
