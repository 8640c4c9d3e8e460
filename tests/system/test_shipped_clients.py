"""The clients that come with forewarn pass scenarios as they come; a sleeping one fails.

Four of them, the quickest of each kind; `make real` plays all.
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
