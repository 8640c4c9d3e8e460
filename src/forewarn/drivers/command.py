"""A driver that runs the operator's own programs, one for each kind of work.

A call is written down before `begin` returns. Then a thread starts the program,
once for each VM of the call, through a detached shim that records its start and
its end, so that programs go on while the service is dead and a new process of it
knows what became of them. A program that was begun, and whose end nobody wrote
down, is never run again by itself: only the operator's `probe`, or the operator,
can say what became of it.

See docs/reference/driver-programs.md for what programs are told, and what their exit status means.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from forewarn.clock import Clock
from forewarn.drivers import placeholders
from forewarn.drivers.book import Book, Case
from forewarn.drivers.observer import VmObserver
from forewarn.drivers.plans import Plan, Run
from forewarn.drivers.port import (
    Call,
    DriverError,
    Observation,
    OutcomeUnknownError,
    Probe,
    ProbeState,
    Report,
    not_started,
)
from forewarn.drivers.programs import Programs
from forewarn.drivers.records import UNDER_WAY, Look, RunState, Shelf
from forewarn.drivers.watcher import Watcher
from forewarn.instants import DAY, SECOND, Micros
from forewarn.protocol.operations import Action

RETENTION: Micros = 30 * DAY
"""How long the records of a call are kept, unless the settings say otherwise."""


class CommandDriver:
    """The driver port over programs.

    It is used by one thread, and has another. `probe`, `observe` and `abort` may be
    used by any number of threads. The first two run programs, and may take ASK_SECONDS.
    `abort` waits for a program that is being started, at most CLAIM_SECONDS.
    """

    def __init__(
        self,
        programs: Programs,
        *,
        records: Path,
        clock: Clock,
        retention: Micros = RETENTION,
    ) -> None:
        """Go on with what `records`, a folder, knows; raises DriverError."""
        self._programs = programs
        self._shelf = Shelf(records)
        self._book = Book()
        # Of calls that ended meanwhile, those of earlier requests are reported first.
        for folder in sorted(self._shelf.folders(), key=lambda each: each.path.name):
            self._book.add(folder, is_told=folder.is_told)
        self._sight = VmObserver(programs=programs, clock=clock)
        self._wake: Callable[[], None] | None = None
        self._watcher = Watcher(
            programs=programs,
            book=self._book,
            shelf=self._shelf,
            sight=self._sight,
            clock=clock,
            retention=retention,
            wake=self._tell,
        )
        self._watcher.start()

    def under_way(self) -> int:
        """Return how many calls still have programs to start, or to wait for."""
        return len(self._book.open_cases())

    # The port

    @property
    def kind(self) -> str:
        """Return its word in the settings."""
        return "command"

    @property
    def memory(self) -> str:
        """Return the identity of the records, which is kept among them."""
        return self._shelf.identity

    def actions(self) -> frozenset[Action]:
        """Return what there is a program for."""
        return frozenset(self._programs.actions)

    def begin(self, call: Call, *, now: Micros) -> None:
        """Write the call down and have its programs started; raises DriverError."""
        del now
        known = self._book.latest(call.operation_id)
        if known is not None and known.folder.generation >= call.generation:
            self._tell_again(call, known)
            return
        words = self._programs.actions.get(call.action)
        if words is None:
            raise DriverError(f"no program is configured for {call.action.value}")
        runs = tuple(
            Run(
                vm=vm.vm,
                to_host=vm.to_host,
                words=placeholders.expand(words, placeholders.values_of(call, vm)),
            )
            for vm in call.vms
        )
        timeout = self._programs.timeouts.get(call.action)
        plan = Plan(
            call=call,
            runs=runs,
            timeout=None if timeout is None else timeout / SECOND,
            grace=self._programs.grace / SECOND,
        )
        self._book.add(self._shelf.accept(plan), is_wanted=True)
        self._watcher.ring()

    def probe(
        self, operation_id: str, generation: int, *, now: Micros, memory: str
    ) -> Probe:
        """Tell what became of a call, from the records or by the probe program."""
        del now
        case = self._book.latest(operation_id)
        if case is None or case.folder.generation < generation:
            return not_started(asked=memory, own=self._shelf.identity)
        if case.folder.generation > generation:
            return self._standing_of_earlier(operation_id, generation)
        self._want(case)
        if case.lost():
            self._ask_after(case)
        probe = case.standing()
        if probe.report is not None and probe.state is not ProbeState.UNKNOWN:
            self._book.note_told(case)
        return probe

    def abort(self, operation_id: str, generation: int, *, now: Micros) -> bool:
        """Have the programs of a call ended, if its action may be stopped at all.

        Until they have ended, no program of a newer call is started for their VMs.
        Where those that have begun must go on, nothing more of the call begins.
        """
        del now
        case = self._book.find(operation_id, generation)
        if case is None or case.is_told:
            return False
        with case.lock:
            looks = case.looks()
            running = [look for look in looks if look.state is RunState.RUNNING]
            if not any(look.state in UNDER_WAY for look in looks):
                return False
            has_begun = any(look.state is not RunState.WAITING for look in looks)
            if not all(look.is_watched for look in running) or (
                has_begun and not self._may_be_stopped(case)
            ):
                _withdraw(case, looks)
                return False
            try:
                case.folder.stop()
            except OSError:
                return False
        # Who stops a call wants no report of it; a probe may still ask.
        self._book.note_told(case)
        self._watcher.ring()
        return True

    def observe(self, vms: Sequence[str]) -> Mapping[str, Observation]:
        """Tell what the operator's program sees; nothing where there is none."""
        return self._sight.observe(vms)

    def reports(self, *, now: Micros) -> Sequence[Report]:
        """Return the reports of the calls whose programs have all ended."""
        del now
        return self._book.take_reports()

    def next_report_at(self) -> Micros | None:
        """Return None: how long a program takes is not known."""
        return None

    def on_report(self, wake: Callable[[], None]) -> None:
        """Have `wake` called, by the driver's thread, when programs have ended."""
        self._wake = wake

    def close(self) -> None:
        """End the thread; programs go on, and what they do is recorded."""
        self._sight.end()
        self._watcher.stop()

    def _tell(self) -> None:
        if self._wake is not None:
            self._wake()

    def _standing_of_earlier(self, operation_id: str, generation: int) -> Probe:
        """Return how a call ended that a later one followed, where that is known.

        Control asks after such a one only if a backup was put back.
        """
        case = self._book.find(operation_id, generation)
        probe = None if case is None else case.standing()
        if probe is None or probe.report is None:
            return Probe(state=ProbeState.UNKNOWN)
        return probe

    def _tell_again(self, call: Call, known: Case) -> None:
        """Report a call that has ended once more, or raise OutcomeUnknownError.

        Whoever begins it has never heard of its end: a backup was put back.
        """
        is_known_latest = known.folder.generation == call.generation
        case = self._book.find(call.operation_id, call.generation)
        if case is None:
            raise OutcomeUnknownError(
                f"the driver has records of call {known.folder.generation} of this "
                f"operation, and none of call {call.generation}"
            )
        try:
            is_same = call.is_same_work(case.folder.plan.call)
        except DriverError as error:
            raise OutcomeUnknownError(error.message) from error
        if not is_same:
            raise OutcomeUnknownError(
                f"the driver knows call {call.generation} of this operation as other "
                "work"
            )
        probe = case.standing()
        if is_known_latest and not case.is_told:
            # It is under way, and will be reported as any other.
            self._want(case)
            return
        if probe.report is None or probe.state is ProbeState.UNKNOWN:
            raise OutcomeUnknownError(
                f"the driver has not seen the end of call {call.generation} of this "
                "operation"
            )
        self._book.report_again(case, probe.report)
        self._tell()

    def _want(self, case: Case) -> None:
        """Let the rest of a call begin: control has asked for it since the start."""
        if not case.is_wanted:
            case.is_wanted = True
            self._watcher.ring()

    def _may_be_stopped(self, case: Case) -> bool:
        try:
            return case.folder.plan.call.action in self._programs.abortable
        except DriverError:
            return False

    def _ask_after(self, case: Case) -> None:
        # What cannot be written down stays unknown.
        with contextlib.suppress(OSError, DriverError):
            self._sight.ask_after_lost(case)


def _withdraw(case: Case, looks: Sequence[Look]) -> None:
    """Write of each program that has not begun that it never will."""
    # What cannot be written down may still begin, as if nobody had asked.
    with contextlib.suppress(OSError):
        for number, look in enumerate(looks):
            if look.state is RunState.WAITING:
                case.folder.settle_unbegun(number, end="withdrawn", output="")
