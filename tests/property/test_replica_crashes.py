"""Every short story, with the leader paused where it passes, ends the same.

The leader is paused at commits, publications, calls and questions (a usual run tries every
eighth, `--long` all). The other replica takes over and completes the story. Then the paused
leader continues: it begins no call and commits nothing. A killed leader does less than
that. Documents are checked at both replicas. Answers stay (S11), and no call is made twice.
"""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.control.rules.policy import Policy
from forewarn.store.port import NotLeaderError
from tests.property.stories import STORIES
from tests.property.story_fleet import FLEET
from tests.property.story_policies import POLICIES
from tests.property.story_telling import Telling, ending
from tests.support.deaths import Death, Deaths
from tests.support.profiles import amounts
from tests.support.replicated_lives import ReplicatedLife
from tests.support.told import SUBSCRIBERS, check_told

PLACES = ("committed", "published", "called", "asked")


class Pauses(Deaths):
    """Lives whose leader is paused, and continues after the end of the story."""

    def __init__(
        self,
        life: ReplicatedLife,
        directory: Path,
        is_one: Callable[[str, int], bool],
        rest: Callable[[], Any],
    ) -> None:
        """Let another replica live the `rest` of the story; it returns what came of it."""
        super().__init__(life, directory, is_one)
        self._replicas, self._rest = life, rest
        self._is_over = False

    def _copy(self, death: Death) -> Path:
        """Copy nothing: what is durable is in the memory, which a fork copies."""
        return self._directory / f"{death}"

    def _die(self, copy: Path) -> bool:
        life = self._replicas
        self._paused = life.world
        life.restart_service()
        self._result = self._rest()
        self._commits, self._is_over = life.mirror.commits, True
        return False

    def run(self, live: Callable[[], Any]) -> Any:
        """Live to the end; a leader that was paused does nothing then (`_judged`).

        It ends the step in which it was paused. The judges of that step compare with what
        is stored and with the clock, and both are those of the other replica's end by now.
        So they fail, and say nothing about the paused one.
        """

        def lived() -> Any:
            try:
                result = live()
            except (NotLeaderError, AssertionError, ValueError):
                if not self._is_over:
                    raise
                result = None
            return self._judged() if self._is_over else result

        return super().run(lived)

    def _judged(self) -> Any:
        life = self._replicas
        with contextlib.suppress(NotLeaderError):
            self._paused.settle()
        with pytest.raises(NotLeaderError):
            self._paused.store.transact(lambda tx: tx.lock_safety_rows(["web"]))
        assert not life.late, f"called after the end of its term: {life.late}"
        assert life.mirror.commits == self._commits, "committed after its term"
        return self._result


@pytest.mark.slow
@pytest.mark.amounts
@pytest.mark.clause("2.10", "3.2", "4.2")
@pytest.mark.parametrize("name", STORIES)
def test_story_ends_the_same_when_another_replica_takes_over_at_any_point(
    name: str, tmp_path: Path
) -> None:
    policy = replace(POLICIES.get(name, Policy()), subscribers=SUBSCRIBERS)
    life = ReplicatedLife(FLEET, policy=policy)
    telling = Telling(life, STORIES[name])
    stride, shift = amounts().pause_stride, list(STORIES).index(name)

    def is_pause(place: str, number: int) -> bool:
        """Pause at all checkpoints, or at one of `pause_stride` in a usual run."""
        return place in PLACES and (number + shift) % stride == 0

    def rest() -> dict[str, Any]:
        telling.repeat()
        life.check()
        telling.run()
        check_told(life)
        return ending(life)

    def lived() -> dict[str, Any]:
        telling.run()
        check_told(life)
        return ending(life)

    pauses = Pauses(life, tmp_path, is_pause, rest)
    end = pauses.run(lived)

    assert set(pauses.came) == {
        (place, number)
        for place in PLACES
        for number in range(1, pauses.passed(place) + 1)
        if is_pause(place, number)
    }
    for pause, found in pauses.came.items():
        for what, expected in end.items():
            assert found[what] == expected, (pause, what)
