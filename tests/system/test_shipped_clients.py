"""The included clients pass the included scenarios; a sleeping client fails.

Four scenarios, the fastest of each kind; `test_shipped_scenarios.py` has all.
"""

from pathlib import Path

import pytest

from tests.support import shipped

pytestmark = [pytest.mark.system, pytest.mark.slow]

QUICKEST = ("hardware-failure", "spot-preemption", "terminate-several", "user-reboot")


@pytest.mark.parametrize("scenario", QUICKEST)
def test_a_shipped_client_passes_and_a_sleeping_one_fails(
    scenario: str, tmp_path: Path
) -> None:
    shipped.judge(scenario, tmp_path)
