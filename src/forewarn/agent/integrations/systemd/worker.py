"""Brings units of systemd into the state that a plan wants, and back.

It waits until they are in that state. It remembers which ones ran and were stopped by
it, with those that systemd stopped along with them, and starts exactly these again;
what it started, it stops. A crash in between leaves a memory of more than was done: to
start what runs, and to stop what does not, changes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from forewarn.agent.handlers.port import (
    Forgetful,
    HandlerError,
    Job,
    Result,
    faults_within,
    raise_faults,
)
from forewarn.agent.handlers.run_context import RunContext, doubling
from forewarn.agent.integrations.memo import Memo
from forewarn.agent.integrations.systemd.plan import Plan, wrong
from forewarn.agent.integrations.systemd.units import (
    PAUSE_FIRST_SECONDS,
    PAUSE_MOST_SECONDS,
    Manager,
    Unit,
    shown_units,
)
from forewarn.agent.integrations.waiting import telling
from forewarn.clock import Clock

CHECK_SECONDS = 10.0
"""For all questions of a check: a person waits for it."""

KILL_SECONDS = 2.0
"""Kept of the time that is left, for units to be gone after they were killed."""

STOPPED, STARTED = "stopped", "started"
"""What the memo has: groups of units, in the order in which it was done."""


class SystemdWorker(Forgetful):
    """Handles the units of one handler."""

    def __init__(
        self,
        plan: Plan,
        *,
        manager: Manager,
        memo: Memo,
        clock: Clock,
        own: Callable[[], frozenset[str]],
    ) -> None:
        """Ask nothing yet; `own` returns the units that the agent is in."""
        self._plan = plan
        self._manager = manager
        self._memo = memo
        self._clock = clock
        self._own = own

    def check(self, vm: str = "") -> Sequence[str]:
        """Return what is wrong with the units, and whether systemd answers."""
        del vm
        plan, manager, own = self._plan, self._manager, self._own()
        return faults_within(
            CHECK_SECONDS,
            self._clock,
            lambda context: wrong(plan, manager, own, context),
        )

    # Before the event

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Reload, start and stop what the plan names; raises HandlerError.

        What fails ends it: each step is there for the one that comes after it.
        """
        del job
        plan = self._plan
        units = self._manager.look((*plan.reload, *plan.starts, *plan.stops), context)
        raise_faults([fault for unit in units if (fault := unit.unusable())])
        done = self._reload(plan.reload, context)
        for group in plan.start:
            done += self._start(group, context)
        for number, group in enumerate(plan.stop):
            share = (context.remaining() - KILL_SECONDS) / (len(plan.stop) - number)
            done += self._stop(group, context, seconds=max(0.0, share))
        self._look_again(context)
        return Result(detail=", ".join(done) or "nothing had to be done")

    def _stop(
        self, group: Sequence[str], context: RunContext, *, seconds: float
    ) -> list[str]:
        """Stop a group; `seconds` is its share of the time, where it is killed then."""
        units = self._manager.look(group, context)
        up = [unit for unit in units if unit.is_up]
        along = self._manager.followers(up, context)
        names = [unit.name for unit in (*up, *along)]
        own = self._own()
        raise_faults(
            f"to stop {name} would stop the agent, which is in it"
            for name in names
            if name in own
        )
        self._remember(STOPPED, names)
        patience = self._plan.kill_seconds
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
        """Wait until units have stopped; return those that had to be killed.

        Those of `along` stop with the others, and are only waited for.
        """
        ordered = {unit.name for unit in units}
        names = [*ordered, *(unit.name for unit in along)]
        killed: set[str] = set()
        pauses, is_first = doubling(PAUSE_FIRST_SECONDS, PAUSE_MOST_SECONDS), True
        left = [unit for unit in (*units, *along) if not unit.is_down]
        while left:
            # Who was started again meanwhile, by whomever, is stopped again.
            asked = [
                unit.name
                for unit in left
                if unit.name in ordered
                and (is_first or (unit.is_up and not unit.has_job))
            ]
            with telling(context, f"waiting for {shown_units(left)} to stop"):
                self._each("stop", asked, context)
                if not is_first and kill_in is not None and kill_in() <= 0:
                    hung = [unit.name for unit in left if unit.name not in killed]
                    self._kill(hung, context)
                    killed.update(hung)
                is_first = False
                context.sleep(next(pauses))
                units = self._manager.look(names, context)
            left = [unit for unit in units if not unit.is_down]
        return frozenset(killed)

    def _kill(self, names: Sequence[str], context: RunContext) -> None:
        for name in names:
            # One that has just stopped has nobody left to kill.
            with contextlib.suppress(HandlerError):
                self._manager.order("kill", (name,), context, "--signal=SIGKILL")

    def _start(self, group: Sequence[str], context: RunContext) -> list[str]:
        """Start a group before the event."""
        units = self._manager.look(group, context)
        raise_faults(f"{unit.name} is masked" for unit in units if unit.is_masked)
        idle = [unit for unit in units if not _runs(unit)]
        self._remember(STARTED, [unit.name for unit in idle if not unit.is_up])
        names = [unit.name for unit in idle]
        faults = self._started(
            names, context, seconds=context.remaining(), may_end=True
        )
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
        """Start units and wait so long; return what is wrong, by unit.

        `may_end`: who has done its work and ended well is as good as one that runs.
        """
        if not names:
            return {}
        left = context.timer(seconds)
        said = self._manager.start(names, context, seconds=seconds)
        pauses = doubling(PAUSE_FIRST_SECONDS, PAUSE_MOST_SECONDS)
        units = self._manager.look(names, context)
        while waited := [unit for unit in units if not unit.is_settled]:
            if left() <= 0:
                break
            with telling(context, f"waiting for {shown_units(waited)} to start"):
                context.sleep(min(next(pauses), max(0.0, left())))
                units = self._manager.look(names, context)
        wrong = {unit.name: _not_up(unit, said, may_end=may_end) for unit in units}
        return {name: fault for name, fault in wrong.items() if fault}

    def _reload(self, names: Sequence[str], context: RunContext) -> list[str]:
        """Have units reload themselves; who does not run is left alone."""
        up = [unit.name for unit in self._manager.look(names, context) if unit.is_up]
        self._each("reload", up, context)
        pauses = doubling(PAUSE_FIRST_SECONDS, PAUSE_MOST_SECONDS)
        units = self._manager.look(up, context)
        while waited := [unit for unit in units if not unit.is_settled]:
            with telling(context, f"waiting for {shown_units(waited)} to reload"):
                context.sleep(next(pauses))
                units = self._manager.look(up, context)
        raise_faults(
            f"{unit.name} could not be reloaded: {unit.value('ReloadResult')}"
            for unit in units
            if unit.value("ReloadResult") not in {"", "success"}
        )
        return [f"reloaded {name}" for name in up]

    def _look_again(self, context: RunContext) -> None:
        """Raise HandlerError where something that was stopped runs again."""
        names = [each for group in self._memory()[STOPPED] for each in group]
        again = [unit for unit in self._manager.look(names, context) if unit.is_up]
        raise_faults(
            f"{unit.name} was started again after it was stopped"
            + (f": look at {', '.join(unit.started_by)}" if unit.started_by else "")
            for unit in again
        )

    def _each(
        self, verb: str, names: Sequence[str], context: RunContext, *options: str
    ) -> None:
        """Order units one by one, all of them; raises HandlerError if one refuses."""
        faults: list[str] = []
        for name in names:
            try:
                self._manager.order(verb, (name,), context, *options)
            except HandlerError as error:
                if context.remaining() <= 0:
                    raise
                faults.append(error.message)
        raise_faults(faults)

    # After the event

    def recover(self, job: Job, context: RunContext) -> Result:
        """Start what was stopped, stop what was started; raises HandlerError.

        What fails keeps nothing else from being undone, and is tried again later.
        """
        del job
        done: list[str] = []
        faults: list[str] = []
        stopped = self._memory()[STOPPED]
        for number, group in enumerate(reversed(stopped)):
            share = context.remaining() / (len(stopped) - number)
            done += self._start_again(group, context, faults, seconds=share)
        for group in reversed(self._memory()[STARTED]):
            up = [unit for unit in self._manager.look(group, context) if unit.is_up]
            self._stopped(up, (), context)
            self._forget(STARTED, group)
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
        """Start what was stopped; what does not run then is remembered further.

        Who was masked or removed meanwhile is told of once: somebody wanted that.
        """
        units = self._manager.look(group, context)
        lost = [u for u in units if (u.is_masked or u.is_gone) and not u.is_up]
        for unit in lost:
            how = "masked" if unit.is_masked else "removed"
            faults.append(f"{unit.name} was {how} meanwhile and stays stopped")
        idle = [unit for unit in units if unit not in lost and not _runs(unit)]
        # Otherwise one that failed too often would not be started.
        failed = [unit.name for unit in idle if unit.state == "failed"]
        self._each("reset-failed", failed, context)
        names = [unit.name for unit in idle]
        wrong = self._started(names, context, seconds=seconds, may_end=False)
        faults += wrong.values()
        self._forget(STOPPED, [name for name in group if name not in wrong])
        return [f"started {name}" for name in names if name not in wrong]

    # What it did

    def _memory(self) -> dict[str, list[list[str]]]:
        read = self._memo.read()
        return {
            what: [list(map(str, group)) for group in read.get(what, ())]
            for what in (STOPPED, STARTED)
        }

    def _remember(self, what: str, names: Sequence[str]) -> None:
        """Remember units that were not remembered yet, as the last group."""
        memory = self._memory()
        known = {each for group in memory[what] for each in group}
        fresh = [name for name in names if name not in known]
        if fresh:
            memory[what].append(fresh)
            self._memo.keep(memory)

    def _forget(self, what: str, names: Sequence[str]) -> None:
        memory = self._memory()
        left = [[n for n in group if n not in names] for group in memory[what]]
        memory[what] = [group for group in left if group]
        self._memo.keep(memory if any(memory.values()) else {})


def _runs(unit: Unit) -> bool:
    return unit.state in {"active", "reloading", "refreshing"}


def _not_up(unit: Unit, said: str, *, may_end: bool) -> str:
    """Return why a unit that was started is not as it should be; empty: it is."""
    if _runs(unit):
        return ""
    if not unit.is_settled:
        return f"{unit.shown} has not started yet"
    if unit.state == "failed":
        return f"{unit.shown} could not be started"
    if unit.value("ConditionResult") == "no" and not said:
        # By its author's words there was nothing to do.
        return "" if may_end else f"{unit.name} has a condition that is not met"
    if said:
        return f"{unit.name} was not started: {said}"
    if may_end or unit.value("Type") == "oneshot":
        return ""
    return f"{unit.shown} was started and has ended again"
