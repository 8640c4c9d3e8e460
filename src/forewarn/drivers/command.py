"""A driver that runs the operator's own programs, one for each action.

The driver records a call before `begin` returns. Then a thread starts the program
once for each VM of the call. A detached shim records the start and the end of each
program. Programs therefore continue while the service is down, and a new service
process finds their results. The driver never reruns a program that started but has no
recorded end: only the operator's `probe`, or the operator, can tell the outcome.

The page "Driver programs" describes the input and the exit status of programs.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from forewarn.clock import Clock
from forewarn.drivers import marks, placeholders
from forewarn.drivers.book import CallList, TrackedCall
from forewarn.drivers.marks import Reading
from forewarn.drivers.port import (
    NOWHERE,
    Call,
    DriverError,
    Expected,
    HostVms,
    Observations,
    OutcomeUnknownError,
    Probe,
    ProbeState,
    Report,
    Sighting,
    not_started,
)
from forewarn.drivers.programs import Programs, VmObserver
from forewarn.drivers.records import (
    UNDER_WAY,
    CallDirectories,
    Plan,
    Progress,
    Run,
    RunState,
    end_by_mark,
)
from forewarn.drivers.watch import Watch
from forewarn.drivers.watcher import Watcher
from forewarn.instants import DAY, SECOND, Micros
from forewarn.protocol.abilities import Ability
from forewarn.protocol.host_steps import HostStep, StepRules, arguments_problem
from forewarn.protocol.operations import Action

RETENTION: Micros = 30 * DAY
"""How long the records of a call are kept, by default."""


class SightingSource(Protocol):
    """Something that sees unrequested changes."""

    def take(self) -> list[Sighting]:
        """Return the new sightings."""
        ...

    def stop(self) -> None:
        """End what watches."""
        ...


class CommandDriver:
    """The driver port over programs.

    One thread uses it, and it has a second thread of its own. Any number of threads
    may use `probe`, `observe`, `abilities` and `abort`. The first three run programs, and
    may take ASK_SECONDS. `abort` waits for a program that is being started, at most
    CLAIM_SECONDS.
    """

    _wake: Callable[[], None] | None = None

    def __init__(
        self,
        programs: Programs,
        *,
        records: Path,
        clock: Clock,
        retention: Micros = RETENTION,
        kind: str = "command",
        observer: VmObserver | None = None,
        watch: SightingSource | None = None,
    ) -> None:
        """Resume the calls in the directory `records`; raises DriverError.

        `kind` is the driver's name in the settings. `observer` and `watch` replace the
        operator's programs for observing and watching.
        """
        self.kind = kind
        self._programs = programs
        self._directories = CallDirectories(records)
        self.memory = self._directories.identity
        """The identity of the records, which is stored with them."""
        self._book = CallList()
        # Calls of earlier requests are reported first.
        for directory in sorted(
            self._directories.each(), key=lambda record: record.path.name
        ):
            self._book.add(directory, is_reported=directory.is_reported)
        self._observer = observer or VmObserver(programs=programs, clock=clock)
        self._watcher = Watcher(
            programs=programs,
            book=self._book,
            directories=self._directories,
            observer=self._observer,
            clock=clock,
            retention=retention,
            wake=self._wake_control,
        )
        self._watcher.start()
        self._taking_over = threading.Lock()
        self._watch = watch
        if programs.watch:
            program = Watch(programs.watch, clock=clock, wake=self._wake_control)
            program.start()
            self._watch = program

    def under_way(self) -> int:
        """Return how many calls have programs that run or still have to start."""
        return len(self._book.open_cases())

    # The port

    def actions(self) -> frozenset[Action]:
        """Return the actions that have a program."""
        return frozenset(self._programs.actions)

    def host_steps(self) -> StepRules:
        """Return the configured host steps."""
        return self._programs.step_rules

    def begin(self, call: Call, *, now: Micros) -> None:
        """Record the call and start its programs; raises DriverError."""
        del now
        known = self._book.latest(call.operation_id)
        if known is not None and known.directory.generation >= call.generation:
            self._report_again(call, known)
            return
        plan = self._plan_of(call)
        self._book.add(self._directories.accept(plan), is_wanted=True)
        self._watcher.wake()

    def _plan_of(self, call: Call) -> Plan:
        """Return a new call with its programs; raises DriverError."""
        if call.step is not None:
            return self._plan_of_step(call, call.step)
        program = self._programs.actions.get(call.action)
        if program is None:
            raise DriverError(f"no program is configured for {call.action.value}")
        runs = tuple(
            Run(
                vm=vm.vm,
                to_host=vm.to_host,
                words=placeholders.expand(program, placeholders.values_of(call, vm)),
            )
            for vm in call.vms
        )
        timeout = self._programs.timeouts.get(call.action)
        return self._plan(call, runs, timeout)

    def _plan_of_step(self, call: Call, step: HostStep) -> Plan:
        rule = self._programs.step_rules.find(step.name)
        if rule is None:
            raise DriverError(f"no host step {step.name} is configured")
        # The settings can have changed since control checked the request.
        if problem := arguments_problem(step, rule, takes_any=False):
            raise DriverError(problem)
        program = placeholders.expand(
            self._programs.steps[step.name], placeholders.step_values_of(call, step)
        )
        run = Run(vm="", to_host="", words=program)
        return self._plan(call, (run,), rule.timeout)

    def _plan(self, call: Call, runs: tuple[Run, ...], timeout: Micros | None) -> Plan:
        return Plan(
            call=call,
            runs=runs,
            timeout=None if timeout is None else timeout / SECOND,
            grace=self._programs.grace / SECOND,
        )

    def probe(self, call: Call, *, now: Micros, memory: str) -> Probe:
        """Return the state of a call, from the records, its marks or the probe program."""
        del now
        case = self._book.latest(call.operation_id)
        if case is None or case.directory.generation < call.generation:
            if memory == self.memory or not self._observer.reads_marks():
                return not_started(memory=memory, own=self.memory)
            result = self._take_over(call, memory=memory)
            if isinstance(result, Probe):
                return result
            case = result
        if case.directory.generation > call.generation:
            return self._state_of_earlier(*call.name)
        self._want(case)
        if case.lost():
            self._probe_lost(case)
        probe = case.state()
        if probe.report is not None and probe.state is not ProbeState.UNKNOWN:
            self._book.note_reported(case)
        return probe

    def abort(self, operation_id: str, generation: int, *, now: Micros) -> bool:
        """End the programs of a call, if its action can be aborted.

        Until they have ended, no program of a newer call starts for their VMs.
        If the running programs must continue, no further program of the call starts.
        """
        del now
        case = self._book.find(operation_id, generation)
        if case is None or case.is_reported:
            return False
        with case.lock:
            progress = case.progress()
            running = [run for run in progress if run.state is RunState.RUNNING]
            if not any(run.state in UNDER_WAY for run in progress):
                return False
            has_begun = any(run.state is not RunState.WAITING for run in progress)
            if not all(run.is_watched for run in running) or (
                has_begun and not self._may_be_stopped(case)
            ):
                _withdraw(case, progress)
                return False
            try:
                case.directory.stop()
            except OSError:
                return False
        # The caller needs no report of a stopped call, but it may probe the call.
        self._book.note_reported(case)
        self._watcher.wake()
        return True

    def observe(self, vms: Sequence[str], expected: Expected = NOWHERE) -> Observations:
        """Return the results of the `observe` program; unknown if there is none."""
        return self._observer.observe(vms, expected)

    @property
    def tells_abilities(self) -> bool:
        """Return whether there is a program `abilities`."""
        return self._observer.tells_abilities()

    def abilities(self, hosts: Sequence[HostVms]) -> Mapping[str, tuple[Ability, ...]]:
        """Return what the program `abilities` tells; nothing without one."""
        return self._observer.abilities(hosts)

    def reports(self, *, now: Micros) -> Sequence[Report]:
        """Return the reports of calls whose programs have all ended."""
        del now
        return self._book.take_reports()

    def sightings(self, *, now: Micros) -> Sequence[Sighting]:
        """Return what the `watch` program has printed."""
        del now
        return () if self._watch is None else self._watch.take()

    def next_report_at(self) -> Micros | None:
        """Return None: the duration of a program is unknown."""
        return None

    def on_report(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from the driver's threads, when programs have ended or `watch`
        has printed something."""
        self._wake = wake

    def start_only_while(self, may_start: Callable[[], bool]) -> None:
        """Start a program only if this returns True; the watcher's thread asks it."""
        self._watcher.may_start = may_start

    def close(self) -> None:
        """End the thread; programs continue, and their shims record the results."""
        if self._watch is not None:
            self._watch.stop()
        self._observer.end()
        self._watcher.stop()

    def _wake_control(self) -> None:
        if self._wake is not None:
            self._wake()

    def _take_over(self, call: Call, *, memory: str) -> "TrackedCall | Probe":
        """Record a call that another memory got, if its marks tell that it was begun."""
        readings = self._observer.read_marks(call)
        traces = marks.traces_of(call, readings)
        if not marks.is_begun(traces):
            return marks.unresolved(traces, readings, memory=memory, own=self.memory)
        ends = {
            number: end
            for number, (place, trace) in enumerate(traces.items())
            if (end := end_by_mark(trace, readings.get(place, Reading()))) is not None
        }
        try:
            plan = self._plan_of(call)
            with self._taking_over:
                # Another thread can have been faster.
                case = self._book.find(*call.name)
                if case is None:
                    directory = self._directories.accept(plan, taken_over=ends)
                    case = self._book.add(directory, is_wanted=True)
        except DriverError as error:
            return Probe(state=ProbeState.UNKNOWN, reason=error.message)
        return case

    def _state_of_earlier(self, operation_id: str, generation: int) -> Probe:
        """Return the result of a call that a later one followed, if it is known.

        Control probes such a call only if a backup of the store was restored.
        """
        case = self._book.find(operation_id, generation)
        probe = None if case is None else case.state()
        if probe is None or probe.report is None:
            return Probe(state=ProbeState.UNKNOWN)
        return probe

    def _report_again(self, call: Call, known: TrackedCall) -> None:
        """Report the result of an ended call again, or raise OutcomeUnknownError.

        If a backup of the store was restored, control begins calls again, because it no
        longer has their results.
        """
        is_known_latest = known.directory.generation == call.generation
        case = self._book.find(call.operation_id, call.generation)
        if case is None:
            raise OutcomeUnknownError(
                f"the driver has records of call {known.directory.generation} of this "
                f"operation, but none of call {call.generation}"
            )
        try:
            is_same = call.is_same_work(case.directory.plan.call)
        except DriverError as error:
            raise OutcomeUnknownError(error.message) from error
        if not is_same:
            raise OutcomeUnknownError(
                f"the driver has recorded other work under call {call.generation} of this "
                "operation"
            )
        probe = case.state()
        if is_known_latest and not case.is_reported:
            # The call is running, and its result will be reported as usual.
            self._want(case)
            return
        if probe.report is None or probe.state is ProbeState.UNKNOWN:
            raise OutcomeUnknownError(
                f"the driver has no recorded end of call {call.generation} of this "
                "operation"
            )
        self._book.report_again(case, probe.report)
        self._wake_control()

    def _want(self, case: TrackedCall) -> None:
        """Start the rest of a call, because control has asked for it."""
        if not case.is_wanted:
            case.is_wanted = True
            self._watcher.wake()

    def _may_be_stopped(self, case: TrackedCall) -> bool:
        try:
            call = case.directory.plan.call
            # Control stops a host step only after its timeout.
            return call.step is not None or call.action in self._programs.abortable
        except DriverError:
            return False

    def _probe_lost(self, case: TrackedCall) -> None:
        # A result that cannot be recorded stays unknown.
        with contextlib.suppress(OSError, DriverError):
            self._observer.probe_lost(case)


def _withdraw(case: TrackedCall, progress: Sequence[Progress]) -> None:
    """Record that the programs which have not begun will never begin."""
    # If this cannot be recorded, the program may still begin.
    with contextlib.suppress(OSError):
        for number, run in enumerate(progress):
            if run.state is RunState.WAITING:
                case.directory.record_unstarted(number, end="withdrawn", output="")
