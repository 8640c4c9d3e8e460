"""The description of a story for a life that is killed, and of the end of a life."""

from collections import deque
from dataclasses import replace
from typing import Any

from forewarn.instants import SECOND
from tests.support.lives import Life, Step
from tests.support.told import told
from tests.support.worlds import CrashError


class Telling:
    """A story that continues after each crash of the service."""

    def __init__(self, life: Life, story: list[Step]) -> None:
        """Begin nothing."""
        self._life = life
        self._left = deque(story)

    def run(self) -> None:
        """Tell what is left of the story."""
        while self._left:
            self._step = step = self._left.popleft()
            self._until = self._life.world.now + round(
                step.args.get("seconds", 0) * SECOND
            )
            self._commits = self._life.mirror.commits
            try:
                self._life.do(step)
            except CrashError:
                self._life.restart_service()
                self.repeat()
            self._life.check()

    def repeat(self) -> None:
        """Do what is left of a step in which the service has died; it runs again."""
        step, life = self._step, self._life
        if step.name == "advance":
            life.world.advance_to(self._until)
        elif step.name in {"get", "approve"}:
            # A client without an answer asks again.
            life.do(step)
        elif step.name not in {"see", "lose_memory"}:
            # The driver reports a sighting again to the new service, and a lost
            # memory stays lost.
            assert life.mirror.commits > self._commits, (
                "an order is durable or not given"
            )


def ending(life: Life) -> dict[str, Any]:
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
            (request.verb.value, request.state.value)
            for request in mirror.requests.values()
        ),
        # An epoch begins with the term, and each crash with another one.
        "views": {
            name: (view.incarnation, view.is_enabled)
            for name, view in mirror.views.items()
        },
        "now": life.world.now,
        "told": told(life),
    }


def _place(host: str, old: str) -> str:
    return "another" if host and host != old else host
