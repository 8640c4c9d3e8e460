"""Every scenario that comes with forewarn, to every client that comes with it.

At the speed that a newcomer gets, which is what a client that polls once a second can
meet. Each scenario is played to a client that sleeps too, which must fail it.
"""

from pathlib import Path

import pytest

from forewarn.sim.scenario import builtin
from tests.support import shipped

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.long]


@pytest.mark.parametrize("scenario", [each.name for each in builtin.scenarios()])
def test_a_shipped_client_passes_and_a_sleeping_one_fails(
    scenario: str, tmp_path: Path
) -> None:
    shipped.judge(scenario, tmp_path)
