"""Every short story, killed at the checkpoints that it passes, ends the same.

The service dies at each place where a crash would leave something undone, once
for each time the story comes there; it starts again on its file, and the story
goes on. What was promised is kept (S8, S11), no committed change of an event is without
its messages to receivers, and the end is the end of the story that nobody interrupted.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.control.rules.policy import Policy
from forewarn.instants import SECOND
from tests.property.stories import STORIES
from tests.property.story_fleet import FLEET
from tests.property.story_policies import POLICIES
from tests.support.deaths import Deaths
from tests.support.lives import Life, Step
from tests.support.profiles import amounts
from tests.support.told import SUBSCRIBERS, check_told, told
from tests.support.worlds import CrashError

pytestmark = pytest.mark.amounts

PLACES = ("committed", "published", "called", "asked")


def _live(life: Life, story: list[Step]) -> None:
    for step in story:
        until = life.world.now + round(step.args.get("seconds", 0) * SECOND)
        commits = life.mirror.commits
        try:
            life.do(step)
        except CrashError:
            life.restart_service()
            if step.name == "advance":
                life.world.advance_to(until)
            elif step.name in {"get", "approve"}:
                # A client without an answer asks again.
                life.do(step)
            elif step.name not in {"see", "lose_memory"}:
                # The driver reports a sighting again to the new service, and a lost
                # memory stays lost.
                assert life.mirror.commits > commits, "an order is durable or not given"
        life.check()


def _end(life: Life) -> dict[str, Any]:
    """Return how a story ended, without names that chance gave."""
    mirror = life.mirror
    targets = {op.operation_id: op.target for op in mirror.operations.values()}
    # A scheduler may choose another host after a crash, but not the old one.
    old_hosts = {
        move.vm: op.host
        for op in mirror.operations.values()
        if op.driver_chooses
        for move in op.moves
    }
    return {
        "operations": sorted(
            (
                op.verb.value,
                op.target,
                op.state.value,
                op.not_before,
                tuple(
                    replace(move, to_host=_place(move.to_host, op.host))
                    if op.driver_chooses
                    else move
                    for move in op.moves
                ),
            )
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
            name: (
                _place(vm.host, old_hosts[name]) if name in old_hosts else vm.host,
                vm.state,
                vm.moving_to,
                len(vm.started),
                vm.view,
            )
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
        "told": told(life),
    }


def _place(host: str, old: str) -> str:
    return "another" if host and host != old else host


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
        _live(life, STORIES[name])
        check_told(life)
        return _end(life)

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
