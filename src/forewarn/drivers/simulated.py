"""A simulated hypervisor, whose actions only take time and can fail by order.

Each action takes the time of its setting, in model time. A journal has the running
calls, so that they continue when the service is killed, as with a real hypervisor.
Tests and simulations inject faults.
"""

import heapq
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from forewarn.clock import Clock, ClockSteps
from forewarn.drivers.domains import Domains
from forewarn.drivers.journal import Journal, MemoryJournal, Note
from forewarn.drivers.limited import Limited, abilities_by_limits
from forewarn.drivers.port import (
    Call,
    DriverError,
    HostVms,
    Observation,
    Observations,
    OutcomeUnknownError,
    Probe,
    ProbeState,
    Report,
    Sighting,
    Verdict,
    not_started,
)
from forewarn.drivers.targets import Targets
from forewarn.drivers.tasks import (
    CALL_DURATIONS,
    Fault,
    FaultKind,
    Task,
    note_of,
    note_of_sighting,
    sighting_from,
    task_from,
    task_of,
)
from forewarn.ids import RandomIds
from forewarn.instants import SECOND, Micros
from forewarn.protocol.abilities import Ability
from forewarn.protocol.host_steps import StepKind, StepRules
from forewarn.protocol.operations import Action

STEP_TIME: Micros = 60 * SECOND
"""The default duration of a host step."""

ANY_STEPS = StepRules(takes_any=True)
"""Every host step, for simulations without settings."""

ENDED_KEPT = 1_000
"""Number of reported calls that are kept. Control probes a reported call only if it was
killed before it stored the report, or if a backup of the store was restored. A call that
was removed by then is simulated again."""

_IDENTITY = "memory"
"""The key under which the journal stores its identity."""


class SimulatedDriver:
    """The driver port over simulated time. One thread uses it."""

    kind = "simulated"
    """The driver's name in the settings."""

    def __init__(
        self,
        *,
        impacts: Mapping[Action, Micros] | None = None,
        journal: Journal | None = None,
        abort_share: float = 1.0,
        steps: StepRules = ANY_STEPS,
        step_time: Micros = STEP_TIME,
        targets: Sequence[str] = (),
        marks: Journal | None = None,
        limited: Sequence[Limited] = (),
        clock: Clock | None = None,
    ) -> None:
        """Resume the calls in `journal`.

        `impacts` replaces durations of CALL_DURATIONS. A call can be stopped until the
        fraction `abort_share` of its time has elapsed. `steps` has the host steps, each of
        which takes `step_time`. If a call lets the driver choose where VMs move to,
        `targets` are the hosts that take them, in turn. `marks` is where VMs and hosts
        keep the marks of calls; None: they keep none. `limited` has what hosts and VMs
        cannot do; without any, the driver tells nothing about them. A step of the wall
        clock neither lengthens nor shortens a call if `clock` shows it.
        """
        assert 0 <= abort_share <= 1, abort_share
        self._impacts = {**CALL_DURATIONS, **(impacts or {})}
        self._journal = journal or MemoryJournal()
        self._abort_share = abort_share
        self._steps, self._step_time = steps, step_time
        self._targets = Targets(targets)
        self._domains = Domains(marks)
        self._clock, self._steps_of_clock = clock, ClockSteps()
        self._limited, self._silent = tuple(limited), frozenset[str]()
        self._faults: list[Fault] = []
        self._tasks: dict[str, Task] = {}
        self._ends: list[tuple[Micros, str, int]] = []
        self._ended: deque[tuple[str, int]] = deque()
        self._earlier: dict[tuple[str, int], Task] = {}
        self._again: list[tuple[Micros, Report]] = []
        self._seen: dict[str, Observation] = {}
        self._sighted: dict[str, Sighting] = {}
        """The last sighting of each VM, unless a call or a plain `running` came later."""
        self._unsent: list[Sighting] = []
        """Sightings that control has not taken."""
        self._seen_after: dict[str, tuple[str, int]] = {}
        """The call that left each VM in its state: both are removed together."""
        self.memory = ""
        """The identity of the journal, which is kept in the journal."""
        for key, note in self._journal.notes().items():
            self._recall(key, note)
        self.repeat_sightings()
        for vm in self._seen.keys() - self._seen_after.keys():
            # Journals of 0.1.0 kept every VM forever.
            self._forget_vm(vm)
        if not self.memory:
            self.memory = RandomIds().short("memory")
            self._journal.write(_IDENTITY, {"id": self.memory})

    # Faults

    def inject(self, fault: Fault) -> None:
        """Apply `fault` to the next calls that it matches; the oldest fault comes first."""
        self._faults.append(fault)

    def clear(self) -> None:
        """Remove all faults for calls that begin from now on."""
        self._faults.clear()

    def limit(self, *limited: Limited, silent: Collection[str] = ()) -> None:
        """Replace what hosts and VMs cannot do; those in `silent` do not answer."""
        self._limited, self._silent = limited, frozenset(silent)

    # Unrequested changes

    def see(self, sighting: Sighting) -> None:
        """Simulate an unrequested change of a VM."""
        self._unsent.append(sighting)
        if sighting.running and not sighting.host:
            self._forget_sighting(sighting.vm)
            return
        self._sighted[sighting.vm] = sighting
        self._journal.write(f"sighting:{sighting.vm}", note_of_sighting(sighting))

    def repeat_sightings(self) -> None:
        """Return the last sighting of each VM again, as a restarted driver does."""
        self._unsent = list(self._sighted.values())

    def _forget_sighting(self, vm: str) -> None:
        if self._sighted.pop(vm, None) is not None:
            self._journal.forget(f"sighting:{vm}")

    # Time

    def bring_nearer(self, by: Micros, *, now: Micros, operation_id: str = "") -> None:
        """End running calls earlier by `by`, but not before `now`.

        A simulation uses this to jump in time. A negative `by` delays the end.
        `operation_id` restricts it to one operation; empty: all.
        """
        for task in list(self._tasks.values()):
            meant = operation_id in {"", task.call.operation_id}
            if meant and not task.has_ended(now):
                self._move(task.moved(-by, earliest=now))

    def _move(self, moved: Task) -> None:
        self._remember(moved)
        self._expect(moved)
        self._domains.work_on(moved)

    def _keep_durations(self) -> None:
        """Move the ends of running calls with the wall clock, if it was set."""
        step = self._steps_of_clock.since_last(self._clock) if self._clock else 0
        for task in list(self._tasks.values()) if step else ():
            if not task.reported:
                self._move(task.moved(step))

    def _next_fault(self, call: Call) -> Fault | None:
        for index, fault in enumerate(self._faults):
            if not fault.fits(call):
                continue
            if fault.times is not None and fault.times <= 1:
                del self._faults[index]
            elif fault.times is not None:
                self._faults[index] = replace(fault, times=fault.times - 1)
            return fault
        return None

    # The port

    def actions(self) -> frozenset[Action]:
        """Return every action that has a duration."""
        return frozenset(self._impacts)

    def host_steps(self) -> StepRules:
        """Return the host steps; no program runs for them."""
        return self._steps

    @property
    def tells_abilities(self) -> bool:
        """Return whether something was said about hosts or VMs."""
        return bool(self._limited)

    def abilities(self, hosts: Sequence[HostVms]) -> Mapping[str, tuple[Ability, ...]]:
        """Return what was said about hosts and VMs; all the rest can be done."""
        return {
            host.host: abilities_by_limits(self._limited, host)
            for host in hosts
            if self._limited and host.host not in self._silent
        }

    def begin(self, call: Call, *, now: Micros) -> None:
        """Record the end of the call in advance; raises DriverError."""
        self._keep_durations()
        # The clock can have been set since the turn began, and the call ends by it.
        now = now if self._clock is None else self._clock.now()
        if call.operation_id not in self._tasks:
            # A mark shows the call if memory and a backup of the store were lost.
            self._take_over(call, now=now)
        known = self._tasks.get(call.operation_id)
        if known is not None and known.call.generation >= call.generation:
            self._report_again(call, known, now=now)
            return
        fault = self._next_fault(call)
        if fault is not None and fault.kind is FaultKind.REFUSE:
            raise DriverError(fault.reason)
        if call.term:
            self._domains.check_term(call)
        self._supersede(call)
        task = task_of(call, fault, begun=now, impact=self.duration_of(call))
        task = self._targets.choose(task)
        if self._reveals_lie(call) and task.verdict is Verdict.DONE:
            task = replace(task, verdict=Verdict.FAILED, reason="the work is not done")
        self._remember(task)
        self._expect(task)
        self._domains.carry_out(task, fault)

    def probe(self, call: Call, *, now: Micros, memory: str) -> Probe:
        """Return the state of a call, even if an earlier process made it."""
        self._keep_durations()
        task = self._tasks.get(call.operation_id)
        if task is None or task.call.generation < call.generation:
            if memory == self.memory:
                return not_started(memory=memory, own=self.memory)
            if not self._take_over(call, now=now):
                return self._domains.unresolved(
                    call, now=now, memory=memory, own=self.memory
                )
            task = self._tasks[call.operation_id]
        task = self._earlier.get(call.name, task)
        if task.forgotten or task.call.generation > call.generation:
            return Probe(state=ProbeState.UNKNOWN)
        if not task.has_ended(now):
            return Probe(state=ProbeState.RUNNING)
        task = self._end(task)
        state = ProbeState.DONE
        if task.verdict is Verdict.FAILED:
            state = ProbeState.UNKNOWN if task.unknown else ProbeState.FAILED
        return Probe(state=state, report=task.report())

    def abort(self, operation_id: str, generation: int, *, now: Micros) -> bool:
        """Stop a call before `abort_share` of its time; its VMs are unchanged."""
        self._keep_durations()
        task = self._tasks.get(operation_id)
        if (
            task is None
            or task.call.generation != generation
            or task.has_ended(now)
            or task.forgotten
            or not task.abortable
        ):
            return False
        if task.ends is not None:
            length = task.ends - task.begun
            if now - task.begun >= length * self._abort_share:
                return False
        stopped = replace(
            task,
            ends=now,
            verdict=Verdict.FAILED,
            reason="it was stopped",
            down=(),
            spared=(),
            unknown=(),
            elsewhere="",
            is_lie=False,
        )
        # The caller needs no report of a stopped call, but it may probe the call.
        self._end(stopped)
        self._domains.work_on(stopped)
        return True

    def observe(self, vms: Sequence[str], _expected: object = None) -> Observations:
        """Return the state that the last call or sighting left; else unknown."""
        return {vm: self._observation(vm) for vm in vms}

    def _observation(self, vm: str) -> Observation:
        left = self._seen.get(vm, Observation())
        if (sighting := self._sighted.get(vm)) is None:
            return left
        return Observation(running=sighting.running, host=sighting.host or left.host)

    def sightings(self, *, now: Micros) -> Sequence[Sighting]:
        """Return the sightings that have come; after a restart, the last ones again."""
        del now
        taken, self._unsent = self._unsent, []
        return taken

    def reports(self, *, now: Micros) -> Sequence[Report]:
        """Return the reports that are due, earliest first."""
        self._keep_durations()
        reports = [report for _, report in self._again]
        self._again.clear()
        self._drop_stale()
        while self._ends and self._ends[0][0] <= now:
            _, operation_id, _ = heapq.heappop(self._ends)
            reports.append(self._end(self._tasks[operation_id]).report())
            self._drop_stale()
        return reports

    def next_report_at(self) -> Micros | None:
        """Return when the earliest running call ends, or a sighting waits."""
        self._drop_stale()
        nearest = self._ends[:1]
        instants = [ends for ends, _, _ in nearest] + [at for at, _ in self._again]
        instants += [sighting.at for sighting in self._unsent[:1]]
        return min(instants, default=None)

    def on_report(self, wake: Callable[[], None]) -> None:
        """Do nothing: the time of every report is known."""

    def close(self) -> None:
        """Close the journals; running calls continue."""
        self._journal.close()
        self._domains.close()

    # Memory

    def duration_of(self, call: Call) -> Micros:
        """Return how long a call takes in model time."""
        if call.step is not None:
            return self._step_time
        length = self._impacts[call.action]
        if call.action is Action.FREEZE and call.duration_seconds >= 0:
            # The VMs were announced at most this duration.
            return min(length, call.duration_seconds * SECOND)
        return length

    def _reveals_lie(self, call: Call) -> bool:
        """Return whether a step `verify` finds that the work was reported and not done."""
        if call.step is None or call.step.kind is not StepKind.VERIFY:
            return False
        for generation in range(call.generation - 1, 0, -1):
            task = self._earlier.get((call.operation_id, generation))
            step = None if task is None else task.call.step
            if task is not None and step is not None and step.kind is StepKind.WORK:
                return task.is_lie
        return False

    def _report_again(self, call: Call, known: Task, *, now: Micros) -> None:
        """Report the result of an ended call again, or raise OutcomeUnknownError.

        If a backup of the store was restored, control begins calls again, because it no
        longer has their results.
        """
        key = call.operation_id, call.generation
        task = (
            known
            if known.call.generation == call.generation
            else self._earlier.get(key)
        )
        if task is None:
            raise OutcomeUnknownError(
                f"the driver has recorded call {known.call.generation} of this operation, "
                f"but not the end of call {call.generation}"
            )
        if not call.is_same_work(task.call):
            raise OutcomeUnknownError(
                f"the driver has recorded other work under call {call.generation} of this "
                "operation"
            )
        if task.reported:
            self._again.append((now, task.report()))

    def _supersede(self, call: Call) -> None:
        """Forget the state of the VMs that a new call changes, and keep its predecessor."""
        for vm in call.vms:
            self._forget_vm(vm.vm)
        known = self._tasks.get(call.operation_id)
        if known is not None and known.reported:
            self._keep_earlier(known)

    def _take_over(self, call: Call, *, now: Micros) -> bool:
        """Go on with a call of another memory, if its marks tell that it was begun."""
        task = self._domains.taken_over(call, now=now)
        if task is None:
            return False
        self._supersede(call)
        self._remember(replace(task, reported=False))
        self._expect(self._tasks[call.operation_id])
        return True

    def _keep_earlier(self, task: Task) -> None:
        """Keep the result of a call when a later one begins."""
        key = task.name
        self._earlier[key] = task
        self._journal.write(f"earlier:{key[0]}.{key[1]}", note_of(task))

    def _end(self, task: Task) -> Task:
        """Apply the effects of a call on its VMs, once."""
        if task.reported:
            return task
        for vm, left in task.left().items():
            self._seen[vm] = left
            self._journal.write(
                f"vm:{vm}", {"running": left.running, "host": left.host}
            )
            self._seen_after[vm] = task.name
        reported = replace(task, reported=True)
        self._remember(reported)
        self._retire(reported)
        return reported

    def _retire(self, task: Task) -> None:
        self._ended.append(task.name)
        while len(self._ended) > ENDED_KEPT:
            self._forget_call(*self._ended.popleft())

    def _forget_call(self, operation_id: str, generation: int) -> None:
        key = operation_id, generation
        known = self._tasks.get(operation_id)
        task = self._earlier.pop(key, None)
        if task is not None:
            self._journal.forget(f"earlier:{operation_id}.{generation}")
        elif known is not None and known.call.generation == generation:
            task = self._tasks.pop(operation_id)
            self._journal.forget(f"call:{operation_id}")
        for vm in task.left() if task is not None else ():
            if self._seen_after.get(vm) == key:
                self._forget_vm(vm)

    def _remember(self, task: Task) -> None:
        self._journal.write(f"call:{task.call.operation_id}", note_of(task))
        self._tasks[task.call.operation_id] = task

    def _expect(self, task: Task) -> None:
        if task.ends is not None and not task.forgotten:
            heapq.heappush(self._ends, (task.ends, *task.name))

    def _drop_stale(self) -> None:
        """Drop obsolete ends: of stopped, probed or replaced calls."""
        while self._ends:
            ends, operation_id, generation = self._ends[0]
            task = self._tasks.get(operation_id)
            if (
                task is not None
                and task.call.generation == generation
                and task.ends == ends
                and not task.reported
            ):
                return
            heapq.heappop(self._ends)

    def _forget_vm(self, vm: str) -> None:
        self._forget_sighting(vm)
        self._seen_after.pop(vm, None)
        if self._seen.pop(vm, None) is not None:
            self._journal.forget(f"vm:{vm}")

    def _recall(self, key: str, note: Note) -> None:
        kind, _, name = key.partition(":")
        if key == _IDENTITY:
            self.memory = note["id"]
            return
        if kind == "vm":
            self._seen[name] = Observation(running=note["running"], host=note["host"])
            return
        if kind == "sighting":
            self._sighted[name] = sighting_from(note)
            return
        task = task_from(note)
        if task.reported:
            for vm in task.left().keys() & self._seen.keys():
                self._seen_after[vm] = task.name
        if kind == "earlier":
            self._earlier[task.name] = task
            self._retire(task)
            return
        self._tasks[task.call.operation_id] = task
        if task.reported:
            self._retire(task)
        else:
            self._expect(task)
