"""Random lives with campaigns, judged at every commit by an independent watcher.

The invariants are in `tests/support/campaign_watcher.py`. Everything else that can
happen to a fleet happens too: its changes, failures, driver faults, clock steps and
crashes.
"""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.campaign_machine import CampaignLives, CampaignLivesInFile
from tests.support.machine import SLOW
from tests.support.profiles import drawing_limit

pytestmark = [pytest.mark.amounts, pytest.mark.slow]

EXAMPLES = settings().max_examples // 8
"""Lives: fewer than without campaigns, since each of them is longer."""


@pytest.mark.usefixtures("patient")
@drawing_limit(120 * EXAMPLES)
def test_random_campaigns_in_memory_keep_every_rule() -> None:
    run_state_machine_as_test(
        CampaignLives,
        settings=settings(
            max_examples=EXAMPLES, stateful_step_count=30, suppress_health_check=SLOW
        ),
    )


@pytest.mark.usefixtures("patient")
@drawing_limit(120 * EXAMPLES)
def test_random_campaigns_in_a_file_keep_every_rule() -> None:
    run_state_machine_as_test(
        CampaignLivesInFile,
        settings=settings(
            max_examples=EXAMPLES // 2,
            stateful_step_count=25,
            suppress_health_check=SLOW,
        ),
    )
