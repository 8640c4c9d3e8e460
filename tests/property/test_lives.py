"""Whole lives of small fleets, at random, judged at every commit and every turn.

The invariants are in `tests/support/invariants.py`. A failure prints the life that
led to it, and a line that lives it again.
"""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.machine import SLOW, Lives, LivesInFile
from tests.support.profiles import drawing_limit

pytestmark = pytest.mark.amounts

EXAMPLES = settings().max_examples
"""The number of examples of the profile: `quick` has 50, `far` 100, `deep` 2000."""


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
@drawing_limit(3 * EXAMPLES)
def test_random_lives_in_memory_keep_every_invariant() -> None:
    run_state_machine_as_test(
        Lives,
        settings=settings(
            max_examples=EXAMPLES, stateful_step_count=40, suppress_health_check=SLOW
        ),
    )


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
@drawing_limit(3 * EXAMPLES)
def test_random_lives_in_a_file_keep_every_invariant() -> None:
    run_state_machine_as_test(
        LivesInFile,
        settings=settings(
            max_examples=EXAMPLES // 8,
            stateful_step_count=25,
            suppress_health_check=SLOW,
        ),
    )
