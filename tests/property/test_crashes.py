"""Every short story, killed at the checkpoints that it passes, ends the same.

The service dies at each place where a crash would leave something undone, once
for each time the story comes there; it starts again on its file, and the story
goes on. What was promised is kept (S8, S11), and the end is the end of the story
that nobody interrupted.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.instants import SECOND
from tests.property.stories import FLEET, STORIES
from tests.property.story_policies import POLICIES
from tests.support.lives import Life, Step
from tests.support.profiles import amounts
from tests.support.worlds import CrashError

pytestmark = pytest.mark.amounts

PLACES = ("committed", "published", "called", "asked")


def _live(life: Life, story: list[Step], crash: tuple[str, int] | None) -> bool:
    """Live a story, killed at one checkpoint; tell whether it was reached."""
    reached = False
    if crash:
        place, at = crash
        at += life.world.passed[place]
        life.world.crash_at = lambda where, count: (where, count) == (place, at)
    for step in story:
        until = life.world.now + round(step.args.get("seconds", 0) * SECOND)
        commits = life.mirror.commits
        try:
            life.do(step)
        except CrashError:
            reached = True
            life.restart_service()
            if step.name == "advance":
                life.world.advance_to(until)
            elif step.name in {"get", "approve"}:
                # A client without an answer asks again.
                life.do(step)
            elif step.name != "see":
                # The driver reports a sighting again to the new service.
                assert life.mirror.commits > commits, "an order is durable or not given"
        life.check()
    return reached


def _end(life: Life) -> dict[str, Any]:
    """Return how a story ended, without names that chance gave."""
    mirror = life.mirror
    targets = {op.operation_id: op.target for op in mirror.operations.values()}
    return {
        "operations": sorted(
            (op.verb.value, op.target, op.state.value, op.not_before, op.moves)
            for op in mirror.operations.values()
        ),
        "events": sorted(
            (
                event.event_type.value,
                targets[event.operation],
                event.scope,
                event.status.value,
                str(event.outcome),
                event.not_before,
                event.approved_by,
                str(event.resources),
            )
            for event in mirror.events.values()
        ),
        "vms": {
            name: (vm.host, vm.state, vm.moving_to, len(vm.started), vm.view)
            for name, vm in mirror.vms.items()
        },
        "hosts": {name: host.state for name, host in mirror.hosts.items()},
        "requests": sorted(
            (each.verb.value, each.state.value) for each in mirror.requests.values()
        ),
        "views": {
            name: (view.epoch, view.incarnation, view.is_enabled)
            for name, view in mirror.views.items()
        },
        "now": life.world.now,
    }


def _checkpoints(name: str, file: Path) -> tuple[dict[str, int], Any]:
    """Return how often an uncrashed story passes each place, and its end."""
    life = Life(FLEET, policy=POLICIES.get(name), file=file)
    before = dict(life.world.passed)
    _live(life, STORIES[name], None)
    passed = {
        place: life.world.passed[place] - before.get(place, 0) for place in PLACES
    }
    end = _end(life)
    life.close()
    return passed, end


def _crashes(
    name: str, passed: dict[str, int], *, shift: int = 0
) -> Iterator[tuple[str, int]]:
    """Yield the checkpoints to crash at: all, or one of `crash_stride` in a usual run.

    `test_outbox` shifts them, so that both together crash at twice as many.
    """
    stride = amounts().crash_stride
    for place, count in passed.items():
        yield from (
            (place, number)
            for number in range(1, count + 1)
            if (number + list(STORIES).index(name) + shift) % stride == 0
        )


@pytest.mark.slow
@pytest.mark.clause("2.10", "3.2", "4.2")
@pytest.mark.parametrize("name", STORIES)
def test_story_ends_the_same_after_a_crash_at_any_point(
    name: str, tmp_path: Path
) -> None:
    passed, end = _checkpoints(name, tmp_path / "whole.db")
    assert passed["committed"] > 0

    for place, number in _crashes(name, passed):
        file = tmp_path / f"{place}-{number}.db"
        life = Life(FLEET, policy=POLICIES.get(name), file=file)
        reached = _live(life, STORIES[name], (place, number))
        found = _end(life)
        life.close()

        assert reached, (place, number)
        for what, expected in end.items():
            assert found[what] == expected, (place, number, what)
