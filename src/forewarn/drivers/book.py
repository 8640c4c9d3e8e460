"""The list of a command driver's calls, which its two threads share.

Control's thread begins calls and probes them. The watcher's thread starts programs
and records their ends. The records on the disk have all certain facts. The book only
lists the calls, those that need attention, and the results to report to control.
"""

import contextlib
import threading
from collections import defaultdict, deque
from dataclasses import replace

from forewarn.drivers.port import (
    DriverError,
    Probe,
    ProbeState,
    Report,
    Verdict,
    VmResult,
    VmVerdict,
)
from forewarn.drivers.records import UNDER_WAY, CallDirectory, Progress, RunState
from forewarn.protocol.host_steps import StepKind

REASONS_TOLD_MAX = 2
"""Maximum number of VMs whose failure a report describes; the records have all."""


class TrackedCall:
    """An accepted call, with its directory, and whether its report was delivered."""

    def __init__(
        self, directory: CallDirectory, *, is_reported: bool, is_wanted: bool = False
    ) -> None:
        """Add a call that was accepted."""
        self.directory = directory
        self.is_reported = is_reported
        """Whether control no longer needs a report of the call."""
        self.is_wanted = is_wanted
        """Whether control has begun or probed the call since the driver started. If
        not, the driver starts no further programs of this old record: its operation may
        have ended meanwhile, with another kind of driver."""
        self.lock = threading.Lock()
        """Held while a program is being started, or the call stopped."""
        self.probed_running: frozenset[int] = frozenset()
        """Programs without a shim that still run according to the probe."""
        self.probe_at = 0.0
        """Earliest time of the next probe, in seconds of I/O time."""
        self.is_probing = False
        """Whether the watcher has started the probe, and the probe has not ended
        yet."""
        self.has_warning = False
        """Whether the log has a warning about the unknown outcome of the call."""

    def progress(self) -> list[Progress]:
        """Return the progress of each program."""
        try:
            progress = self.directory.progress()
        except DriverError:
            # Without the record of the call, nothing is known.
            return [Progress(state=RunState.LOST)]
        for number in self.probed_running:
            if progress[number].state is RunState.LOST:
                progress[number] = Progress(state=RunState.RUNNING)
        return progress

    @property
    def is_step(self) -> bool:
        """Return whether the call is a host step."""
        try:
            return self.directory.plan.call.step is not None
        except DriverError:
            return False

    def lost(self) -> list[int]:
        """Return the programs that have no recorded end and no shim."""
        try:
            progress = self.directory.progress()
        except DriverError:
            return []
        lost = RunState.LOST
        return [number for number, run in enumerate(progress) if run.state is lost]

    def state(self) -> Probe:
        """Return the state of the whole call."""
        progress = self.progress()
        states = {run.state for run in progress}
        if states & UNDER_WAY:
            if self.directory.is_stopped:
                return self._ended([], failed="it was stopped")
            return Probe(state=ProbeState.RUNNING)
        if states == {RunState.LOST}:
            return Probe(state=ProbeState.UNKNOWN)
        if self.is_step:
            return self._step_ended(progress[0])
        by_vm = [
            (run.vm, run_progress)
            for run, run_progress in zip(
                self.directory.plan.runs, progress, strict=True
            )
        ]
        if RunState.LOST in states:
            ended = self._ended(
                by_vm, failed=_described(by_vm) or "the outcome for some VMs is unknown"
            )
            return replace(ended, state=ProbeState.UNKNOWN)
        if RunState.FAILED not in states:
            return self._ended(by_vm, error=_described(by_vm))
        failed = [pair for pair in by_vm if pair[1].state is RunState.FAILED]
        return self._ended(by_vm, failed=_described(failed))

    def _step_ended(self, progress: Progress) -> Probe:
        step = self.directory.plan.call.step
        verdict = Verdict.DONE
        if progress.state is RunState.FAILED:
            asks = step is not None and step.kind is StepKind.NEEDED
            is_needless = asks and progress.is_not_needed
            verdict = Verdict.NOT_NEEDED if is_needless else Verdict.FAILED
        is_failed = verdict is Verdict.FAILED
        return Probe(
            state=ProbeState.FAILED if is_failed else ProbeState.DONE,
            report=Report(
                operation_id=self.directory.operation_id,
                generation=self.directory.generation,
                verdict=verdict,
                reason=progress.reason,
            ),
        )

    def _ended(
        self,
        by_vm: list[tuple[str, Progress]],
        *,
        error: str = "",
        failed: str = "",
    ) -> Probe:
        return Probe(
            state=ProbeState.FAILED if failed else ProbeState.DONE,
            report=Report(
                operation_id=self.directory.operation_id,
                generation=self.directory.generation,
                verdict=Verdict.FAILED if failed else Verdict.DONE,
                reason=failed or error,
                down=tuple(vm for vm, run in by_vm if run.running is False),
                paused=tuple(
                    (vm, run.paused) for vm, run in by_vm if run.paused is not None
                ),
                results=tuple(_result(vm, run) for vm, run in by_vm),
            ),
        )


_VERDICTS = {RunState.DONE: VmVerdict.DONE, RunState.FAILED: VmVerdict.FAILED}


def _result(vm: str, run: Progress) -> VmResult:
    return VmResult(
        vm=vm,
        # A program that was stopped before it began did nothing; others are unknown.
        verdict=_VERDICTS.get(run.state, VmVerdict.UNKNOWN),
        note=run.reason,
        running=run.running,
        host=run.host,
    )


def _described(progress: list[tuple[str, Progress]]) -> str:
    """Return the last output of programs by VM, for the first of them."""
    failures = [(vm, run.reason) for vm, run in progress if run.reason]
    sentences = [f"vm {vm}: {reason}" for vm, reason in failures[:REASONS_TOLD_MAX]]
    if more := len(failures) - len(sentences):
        sentences.append(f"and {more} more")
    return "; ".join(sentences)


class CallList:
    """All recorded calls, by operation and generation."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._cases: defaultdict[str, dict[int, TrackedCall]] = defaultdict(dict)
        self._open: dict[tuple[str, int], TrackedCall] = {}
        self._reports: deque[tuple[TrackedCall, Report]] = deque()

    def add(
        self,
        directory: CallDirectory,
        *,
        is_reported: bool = False,
        is_wanted: bool = False,
    ) -> TrackedCall:
        """Add a call, and return it."""
        key = directory.operation_id, directory.generation
        with self._lock:
            case = TrackedCall(directory, is_reported=is_reported, is_wanted=is_wanted)
            self._cases[key[0]][key[1]] = case
            if not is_reported:
                self._open[key] = case
        return case

    def latest(self, operation_id: str) -> TrackedCall | None:
        """Return the newest call of an operation."""
        with self._lock:
            cases = self._cases.get(operation_id)
            return cases[max(cases)] if cases else None

    def find(self, operation_id: str, generation: int) -> TrackedCall | None:
        """Return the call with this name."""
        with self._lock:
            return self._cases.get(operation_id, {}).get(generation)

    def is_latest(self, case: TrackedCall) -> bool:
        """Return whether there is no newer call of the operation."""
        return self.latest(case.directory.operation_id) is case

    def earlier(self, case: TrackedCall) -> list[TrackedCall]:
        """Return the older calls of the same operation."""
        with self._lock:
            cases = self._cases.get(case.directory.operation_id, {})
            return [
                earlier_case
                for generation, earlier_case in cases.items()
                if generation < case.directory.generation
            ]

    def open_cases(self) -> list[TrackedCall]:
        """Return the calls that still need attention, oldest first."""
        with self._lock:
            return list(self._open.values())

    def all_cases(self) -> list[TrackedCall]:
        """Return all recorded calls."""
        with self._lock:
            return [case for cases in self._cases.values() for case in cases.values()]

    # Reports

    def report(self, case: TrackedCall, report: Report) -> bool:
        """Queue the result of a call for control; return whether control needs it."""
        with self._lock:
            self._open.pop(_key(case), None)
            operation_id, generation = _key(case)
            is_newest = generation == max(self._cases[operation_id], default=0)
            if case.is_reported or not is_newest:
                return False
            self._reports.append((case, report))
            return True

    def report_again(self, case: TrackedCall, report: Report) -> None:
        """Queue the result of a call again, because control does not have it."""
        with self._lock:
            self._reports.append((case, report))

    def take_reports(self) -> list[Report]:
        """Return the queued results."""
        with self._lock:
            taken = list(self._reports)
            self._reports.clear()
        for case, _ in taken:
            self.note_reported(case)
        return [report for _, report in taken]

    def note_reported(self, case: TrackedCall) -> None:
        """Record that control no longer needs a report of a call."""
        with self._lock:
            case.is_reported = True
            self._reports = deque(
                report for report in self._reports if report[0] is not case
            )
        # If it cannot be written, it is reported twice after a crash, which is allowed.
        with contextlib.suppress(OSError):
            case.directory.note_reported()

    # Ends

    def close(self, case: TrackedCall) -> None:
        """Remove a call from those that need attention."""
        with self._lock:
            self._open.pop(_key(case), None)

    def forget(self, case: TrackedCall) -> None:
        """Remove a call that was removed from the records."""
        operation_id, generation = _key(case)
        with self._lock:
            self._open.pop((operation_id, generation), None)
            cases = self._cases[operation_id]
            cases.pop(generation, None)
            if not cases:
                del self._cases[operation_id]


def _key(case: TrackedCall) -> tuple[str, int]:
    return case.directory.operation_id, case.directory.generation
