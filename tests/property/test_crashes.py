"""Every short story, killed at the checkpoints that it passes, ends the same.

The service dies at each place where a crash would leave something undone, once
for each time the story comes there; it starts again on its file, and the story
continues. Promises are kept (S8, S11), no committed change of an event is without
its messages to receivers, and the end is the end of the story without a crash.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.control.rules.policy import Policy
from tests.property.stories import STORIES
from tests.property.story_fleet import FLEET
from tests.property.story_policies import POLICIES
from tests.property.story_telling import Telling, ending
from tests.support.deaths import Deaths
from tests.support.lives import Life
from tests.support.profiles import amounts
from tests.support.told import SUBSCRIBERS, check_told

pytestmark = pytest.mark.amounts

PLACES = ("committed", "published", "called", "asked")


@pytest.mark.slow
@pytest.mark.clause("2.10", "3.2", "4.2")
@pytest.mark.parametrize("name", STORIES)
def test_story_ends_the_same_after_a_crash_at_any_point(
    name: str, tmp_path: Path
) -> None:
    policy = replace(POLICIES.get(name, Policy()), subscribers=SUBSCRIBERS)
    life = Life(FLEET, policy=policy, file=tmp_path / "whole.db")
    stride, shift = amounts().crash_stride, list(STORIES).index(name)

    def is_death(place: str, number: int) -> bool:
        """Die at all checkpoints, or at one of `crash_stride` in a usual run."""
        return place in PLACES and (number + shift) % stride == 0

    def lived() -> dict[str, Any]:
        Telling(life, STORIES[name]).run()
        check_told(life)
        return ending(life)

    deaths = Deaths(life, tmp_path, is_death)
    end = deaths.run(lived)
    passed = {place: deaths.passed(place) for place in PLACES}
    life.close()

    assert passed["committed"] > 0
    assert end["told"] or not life.mirror.events
    assert set(deaths.came) == {
        (place, number)
        for place in PLACES
        for number in range(1, passed[place] + 1)
        if is_death(place, number)
    }
    for death, found in deaths.came.items():
        for what, expected in end.items():
            assert found[what] == expected, (death, what)
