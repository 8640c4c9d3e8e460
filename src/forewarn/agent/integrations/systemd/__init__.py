"""`systemd`: stops, starts or reloads units, and restores them after the event.

The handler waits until the units are in the wanted state. It records which running units
it stops, together with the units that systemd stops with them, and starts exactly these
again. It also stops the units that it started. After a crash in between, the memo has
more units than were changed. This is harmless, since starting a running unit and stopping
a stopped one change nothing.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from forewarn.agent.handlers.port import (
    Ground,
    Job,
    Result,
    raise_faults,
)
from forewarn.agent.handlers.run_context import HandlerError, RunContext, doubling
from forewarn.agent.integrations.base import Integration
from forewarn.agent.integrations.commands import Commands
from forewarn.agent.integrations.kind import Entry, Faults, HandlerKind
from forewarn.agent.integrations.systemd.units import (
    PAUSE_FIRST_SECONDS,
    PAUSE_SECONDS_MAX,
    Manager,
    Unit,
    own_units,
    shown_units,
)
from forewarn.agent.options import Forms
from forewarn.agent.settings_model import HandlerSettings
from forewarn.instants import DAY, SECOND, Micros
from forewarn.problems import quoted
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.settings.forms import Option

KILL_SECONDS = 2.0
"""Seconds reserved before the deadline for killed units to end."""

STOPPED, STARTED = "stopped", "started"
"""Members of the memo: groups of units, in the order of the changes."""

_UNIT = re.compile(r"[A-Za-z0-9:_.\\@*?\[][A-Za-z0-9:_.\\@*?\[\]-]{0,254}", re.ASCII)
_PATTERN = re.compile(r"[*?\[]")

Groups = tuple[tuple[str, ...], ...]
"""Names of units: one group after the other, those of a group in parallel."""


@frozen_dataclass
class Plan:
    """The keys of the settings."""

    stop: Groups = ()
    start: Groups = ()
    reload: tuple[str, ...] = ()
    reload_after: tuple[str, ...] = ()
    kill_after: Micros = 0
    """How long a unit may take to stop before it is killed; 0: it is not killed."""
    manager: str = "system"
    """`system` or `user`."""

    @property
    def stops(self) -> tuple[str, ...]:
        """Return all names of `stop`."""
        return tuple(name for group in self.stop for name in group)

    @property
    def starts(self) -> tuple[str, ...]:
        """Return all names of `start`."""
        return tuple(name for group in self.start for name in group)


class SystemdWorker(Integration):
    """Stops, starts and reloads units, and restores them."""

    check_seconds = 10.0

    def __init__(
        self,
        settings: HandlerSettings,
        ground: Ground,
        *,
        commands: Commands | None = None,
    ) -> None:
        """Store the settings; `commands` replaces the runner of commands in tests."""
        super().__init__(settings, ground)
        self._plan = Plan(**settings.more)
        commands = commands or Commands(ground.environment)
        self._manager = Manager(commands, is_user=self._plan.manager == "user")

    # Before the event

    def prepare(self, _job: Job, context: RunContext) -> Result:
        """Reload, start and stop the units of the settings; raises HandlerError.

        A failure ends the preparation, since each step depends on the previous one.
        """
        plan = self._plan
        units = self._manager.read_units(
            (*plan.reload, *plan.starts, *plan.stops), context
        )
        raise_faults([fault for unit in units if (fault := unit.unusable())])
        done = self._reload(plan.reload, context)
        for group in plan.start:
            done += self._start(group, context)
        for number, group in enumerate(plan.stop):
            share = (context.remaining() - KILL_SECONDS) / (len(plan.stop) - number)
            done += self._stop(group, context, seconds=max(0.0, share))
        self._check_still_stopped(context)
        return Result(detail=", ".join(done) or "nothing had to be done")

    def _stop(
        self, group: Sequence[str], context: RunContext, *, seconds: float
    ) -> list[str]:
        """Stop a group; `seconds` is its part of the time before units are killed."""
        units = self._manager.read_units(group, context)
        up = [unit for unit in units if unit.is_up]
        along = self._manager.followers(up, context)
        names = [unit.name for unit in (*up, *along)]
        own = own_units()
        raise_faults(
            f"stopping {name} would stop the agent, which runs in it"
            for name in names
            if name in own
        )
        self._memo.remember(STOPPED, dict.fromkeys(names, ""))
        patience = self._plan.kill_after / SECOND
        kill_in = context.timer(min(patience, seconds)) if patience else None
        killed = self._stopped(units, along, context, kill_in=kill_in)
        return [
            f"killed {name}" if name in killed else f"stopped {name}"
            for name in (*names, *sorted(killed - set(names)))
        ]

    def _stopped(
        self,
        units: Sequence[Unit],
        along: Sequence[Unit],
        context: RunContext,
        *,
        kill_in: Callable[[], float] | None = None,
    ) -> frozenset[str]:
        """Stop units and wait for them; return those that had to be killed.

        Units of `along` stop together with the others, so they are only waited for.
        """
        ordered = {unit.name for unit in units}
        names = [*ordered, *(unit.name for unit in along)]
        killed: set[str] = set()
        pauses, is_first = doubling(PAUSE_FIRST_SECONDS, PAUSE_SECONDS_MAX), True
        left = [unit for unit in (*units, *along) if not unit.is_down]
        while left:
            # Units that were restarted in the meantime are stopped again.
            stopping = [
                unit.name
                for unit in left
                if unit.name in ordered
                and (is_first or (unit.is_up and not unit.has_job))
            ]
            with context.doing(f"waiting for {shown_units(left)} to stop"):
                self._each("stop", stopping, context)
                if not is_first and kill_in is not None and kill_in() <= 0:
                    hung = [unit.name for unit in left if unit.name not in killed]
                    self._kill(hung, context)
                    killed.update(hung)
                is_first = False
                context.sleep(next(pauses))
                units = self._manager.read_units(names, context)
            left = [unit for unit in units if not unit.is_down]
        return frozenset(killed)

    def _kill(self, names: Sequence[str], context: RunContext) -> None:
        for name in names:
            # A unit that has just stopped has no process to kill.
            with contextlib.suppress(HandlerError):
                self._manager.order("kill", (name,), context, "--signal=SIGKILL")

    def _start(self, group: Sequence[str], context: RunContext) -> list[str]:
        """Start a group before the event."""
        units = self._manager.read_units(group, context)
        raise_faults(f"{unit.name} is masked" for unit in units if unit.is_masked)
        idle = [unit for unit in units if not _runs(unit)]
        fresh = [unit.name for unit in idle if not unit.is_up]
        self._memo.remember(STARTED, dict.fromkeys(fresh, ""))
        names, seconds = [unit.name for unit in idle], context.remaining()
        faults = self._started(names, context, seconds=seconds, may_end=True)
        raise_faults(faults.values())
        return [f"started {name}" for name in names]

    def _started(
        self,
        names: Sequence[str],
        context: RunContext,
        *,
        seconds: float,
        may_end: bool,
    ) -> Mapping[str, str]:
        """Start units and wait for `seconds`; return the problems by unit.

        With `may_end`, a unit that has ended successfully counts as running.
        """
        if not names:
            return {}
        left = context.timer(seconds)
        errors = self._manager.start(names, context, seconds=seconds)
        units = self._settled(names, context, "start", left)
        wrong = {unit.name: _not_up(unit, errors, may_end=may_end) for unit in units}
        return {name: fault for name, fault in wrong.items() if fault}

    def _settled(
        self,
        names: Sequence[str],
        context: RunContext,
        verb: str,
        left: Callable[[], float] = lambda: math.inf,
    ) -> list[Unit]:
        """Wait until units do not change, or no time is left; return their states."""
        pauses = doubling(PAUSE_FIRST_SECONDS, PAUSE_SECONDS_MAX)
        units = self._manager.read_units(names, context)
        while waited := [unit for unit in units if not unit.is_settled]:
            if left() <= 0:
                break
            with context.doing(f"waiting for {shown_units(waited)} to {verb}"):
                context.sleep(min(next(pauses), max(0.0, left())))
                units = self._manager.read_units(names, context)
        return units

    def _reload(self, names: Sequence[str], context: RunContext) -> list[str]:
        """Reload the units that run."""
        up = [
            unit.name for unit in self._manager.read_units(names, context) if unit.is_up
        ]
        self._each("reload", up, context)
        raise_faults(
            f"{unit.name} could not be reloaded: {unit.value('ReloadResult')}"
            for unit in self._settled(up, context, "reload")
            if unit.value("ReloadResult") not in {"", "success"}
        )
        return [f"reloaded {name}" for name in up]

    def _check_still_stopped(self, context: RunContext) -> None:
        """Raise HandlerError if a stopped unit runs again."""
        names = [unit for group in self._memo.groups(STOPPED) for unit in group]
        raise_faults(
            f"{unit.name} was restarted after it was stopped"
            + (f": check {', '.join(unit.started_by)}" if unit.started_by else "")
            for unit in self._manager.read_units(names, context)
            if unit.is_up
        )

    def _each(
        self, verb: str, names: Sequence[str], context: RunContext, *options: str
    ) -> None:
        """Run a command for each unit; raises HandlerError after the last one if any failed."""
        faults: list[str] = []
        for name in names:
            try:
                self._manager.order(verb, (name,), context, *options)
            except HandlerError as error:
                faults.append(error.message)
        raise_faults(faults)

    # After the event

    def recover(self, _job: Job, context: RunContext) -> Result:
        """Start the stopped units and stop the started ones; raises HandlerError.

        A failure does not affect the other units, and is retried later.
        """
        done: list[str] = []
        faults: list[str] = []
        stopped = self._memo.groups(STOPPED)
        for number, group in enumerate(reversed(stopped)):
            share = context.remaining() / (len(stopped) - number)
            done += self._start_again([*group], context, faults, seconds=share)
        for group in reversed(self._memo.groups(STARTED)):
            up = [
                unit for unit in self._manager.read_units(group, context) if unit.is_up
            ]
            self._stopped(up, (), context)
            self._memo.forget(STARTED, group)
            done += [f"stopped {unit.name}" for unit in up]
        raise_faults(faults)
        done += self._reload(self._plan.reload_after, context)
        return Result(detail=", ".join(done) or "nothing had to be undone")

    def _start_again(
        self,
        group: Sequence[str],
        context: RunContext,
        faults: list[str],
        *,
        seconds: float,
    ) -> list[str]:
        """Start stopped units; those that do not run then stay in the memo.

        A unit that was masked or removed is reported once, since it was done on purpose.
        """
        units = self._manager.read_units(group, context)
        lost = [u for u in units if (u.is_masked or u.is_gone) and not u.is_up]
        for unit in lost:
            how = "masked" if unit.is_masked else "removed"
            faults.append(f"{unit.name} was {how} in the meantime and stays stopped")
        idle = [unit for unit in units if unit not in lost and not _runs(unit)]
        # Reset failed units: systemd does not start a unit that failed too often.
        failed = [unit.name for unit in idle if unit.state == "failed"]
        self._each("reset-failed", failed, context)
        names = [unit.name for unit in idle]
        wrong = self._started(names, context, seconds=seconds, may_end=False)
        faults += wrong.values()
        self._memo.forget(STOPPED, [name for name in group if name not in wrong])
        return [f"started {name}" for name in names if name not in wrong]

    # Check

    def _wrong(self, context: RunContext) -> Iterator[str]:
        """Yield why the plan would fail in the current state; raises HandlerError."""
        plan, look = self._plan, self._manager.read_units
        stops, starts = look(plan.stops, context), look(plan.starts, context)
        reloads = look((*plan.reload, *plan.reload_after), context)
        yield from filter(None, (u.unusable() for u in (*stops, *starts, *reloads)))
        own = own_units()
        up = [unit for unit in stops if unit.is_up]
        stopped = [u.name for u in (*stops, *self._manager.followers(up, context))]
        for name in stopped:
            if name in own:
                yield f"stopping {name} would stop the agent, which runs in it"
        for unit in up:
            if unit.value("CanStop") == "no":
                yield f"{unit.name} cannot be stopped manually (RefuseManualStop=)"
        for unit in starts:
            if unit.is_masked:
                yield f"{unit.name} is masked"
            elif not unit.unusable() and unit.value("CanStart") == "no":
                yield f"{unit.name} cannot be started manually (RefuseManualStart=)"
        for unit in reloads:
            if unit.is_up and unit.value("CanReload") == "no":
                yield f"{unit.name} cannot be reloaded (ExecReload=)"
        yield from self._restarters(stops, stopped, context)

    def _restarters(
        self, stops: Sequence[Unit], stopped: Sequence[str], context: RunContext
    ) -> Iterator[str]:
        """Yield running units that would restart stopped ones."""
        for unit in stops:
            others = [name for name in unit.started_by if name not in stopped]
            for other in self._manager.read_units(others, context):
                if other.is_up:
                    yield (
                        f"{other.name} can restart {unit.name} while it is stopped: "
                        "list it first"
                    )


def _runs(unit: Unit) -> bool:
    return unit.state in {"active", "reloading", "refreshing"}


def _not_up(unit: Unit, error: str, *, may_end: bool) -> str:
    """Return the problem of a unit that was started; empty: none."""
    if _runs(unit):
        return ""
    if not unit.is_settled:
        return f"{unit.shown} has not started yet"
    if unit.state == "failed":
        return f"{unit.shown} could not be started"
    if unit.value("ConditionResult") == "no" and not error:
        # The unit's own condition says that there is nothing to do.
        return "" if may_end else f"a condition of {unit.name} is not met"
    if error:
        return f"{unit.name} was not started: {error}"
    if may_end or unit.value("Type") == "oneshot":
        return ""
    return f"{unit.shown} was started and ended again"


def _faults(entry: Entry) -> Faults:
    plan = Plan(**{key: entry[key] for key in KEYS if key in entry})
    actions = {
        "stop": plan.stops,
        "start": plan.starts,
        "reload": plan.reload,
        "reload_after": plan.reload_after,
    }
    if not entry.keys() & actions:
        yield "", "it does nothing: set stop, start, reload or reload_after"
    if "kill_after" in entry and "stop" not in entry:
        yield "kill_after", "requires stop"
    for key, names in actions.items():
        for name in names:
            if not _UNIT.fullmatch(name):
                yield key, f"{quoted(name)} is not a valid unit name"
            elif key == "start" and _PATTERN.search(name):
                sentence = "is a pattern, which matches only loaded units"
                yield key, f"{quoted(name)} {sentence}"
    for name in plan.starts:
        if name in plan.stops:
            yield "start", f"{quoted(name)} is also in stop"


KEYS: Mapping[str, Option] = {
    "stop": Option(
        form=Forms.GROUPS,
        text="Units to stop before the event, one after the other, and those of an inner "
        "list in parallel. Units that were running are started after the event, in "
        "reverse order. `*`, `?` and `[…]` match units that systemd has loaded at that "
        "time. Default: none.",
    ),
    "start": Option(
        form=Forms.GROUPS,
        text="Units to start before the event, in the same order, and before any unit is "
        "stopped: a `drain.target`. Units that were not running are stopped after the "
        "event. Default: none.",
    ),
    "reload": Option(
        form=Forms.NAMES,
        text="Units to reload before the event, before all others, if they run. "
        "Default: none.",
    ),
    "reload_after": Option(
        form=Forms.NAMES,
        text="Units to reload after the event, after all others, if they run. Default: "
        "none.",
    ),
    "kill_after": Option(
        form=Forms.DURATION,
        least=SECOND // 10,
        most=DAY,
        text="How long a unit may take to stop before the handler kills it with SIGKILL; "
        "less if the deadline is near. Default: only systemd kills it, after its "
        "TimeoutStopSec.",
    ),
    "manager": Option(
        form=Forms.WORD,
        words=("system", "user"),
        text="The systemd manager of the units: the `system` manager, or that of the "
        "`user` that runs the agent. Default: `system`.",
    ),
}

KIND = HandlerKind(make=SystemdWorker, keys=KEYS, faults=_faults)
"""The kind of handler."""
