"""What is to be done with which units of systemd, and why that would fail.

Nothing is changed here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from forewarn.agent.handlers.run_context import RunContext
from forewarn.agent.integrations.systemd.units import Manager, Unit
from forewarn.protocol.frozen import frozen_dataclass

Groups = tuple[tuple[str, ...], ...]
"""Names of units: one group after the other, those of a group side by side."""


@frozen_dataclass
class Plan:
    """What is to be done, in the words of the settings."""

    stop: Groups = ()
    start: Groups = ()
    reload: tuple[str, ...] = ()
    reload_after: tuple[str, ...] = ()
    kill_seconds: float = 0.0
    """How long a unit may take to stop before it is killed; 0: it is not."""

    @property
    def stops(self) -> tuple[str, ...]:
        """Return all names of `stop`."""
        return tuple(name for group in self.stop for name in group)

    @property
    def starts(self) -> tuple[str, ...]:
        """Return all names of `start`."""
        return tuple(name for group in self.start for name in group)


def wrong(
    plan: Plan, manager: Manager, own: Collection[str], context: RunContext
) -> Iterator[str]:
    """Yield why a plan would fail, by how its units stand now; raises HandlerError."""
    stops = manager.look(plan.stops, context)
    starts = manager.look(plan.starts, context)
    reloads = manager.look((*plan.reload, *plan.reload_after), context)
    yield from filter(None, (u.unusable() for u in (*stops, *starts, *reloads)))
    along = manager.followers([unit for unit in stops if unit.is_up], context)
    for unit in (*stops, *along):
        if unit.name in own:
            yield f"to stop {unit.name} would stop the agent, which is in it"
    for unit in stops:
        if unit.is_up and unit.value("CanStop") == "no":
            yield f"{unit.name} may not be stopped by hand (RefuseManualStop=)"
    for unit in starts:
        if unit.is_masked:
            yield f"{unit.name} is masked"
        elif not unit.unusable() and unit.value("CanStart") == "no":
            yield f"{unit.name} may not be started by hand (RefuseManualStart=)"
    for unit in reloads:
        if unit.is_up and unit.value("CanReload") == "no":
            yield f"{unit.name} has no way to be reloaded (ExecReload=)"
    yield from _restarters(
        stops, {unit.name for unit in (*stops, *along)}, manager, context
    )


def _restarters(
    stops: Collection[Unit],
    stopped: Collection[str],
    manager: Manager,
    context: RunContext,
) -> Iterator[str]:
    """Yield which units would start again what is stopped."""
    for unit in stops:
        others = [name for name in unit.started_by if name not in stopped]
        for other in manager.look(others, context):
            if other.is_up:
                yield (
                    f"{unit.name} can be started again by {other.name} while it is "
                    "stopped: write that one before it"
                )
