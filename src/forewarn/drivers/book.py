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
from forewarn.drivers.records import UNDER_WAY, Folder, Look, RunState

REASONS_TOLD_MAX = 2
"""Maximum number of VMs whose failure a report describes; the records have all."""


class Case:
    """One call."""

    def __init__(
        self, folder: Folder, *, is_told: bool, is_wanted: bool = False
    ) -> None:
        """Add a call that was accepted."""
        self.folder = folder
        self.is_told = is_told
        """Control needs no report of it any more."""
        self.is_wanted = is_wanted
        """Control has begun or probed the call since the driver started. Otherwise no
        further programs of an old record start: its operation may have ended
        meanwhile, with another kind of driver."""
        self.lock = threading.Lock()
        """Held while a program is being started, or the call stopped."""
        self.probed_running: frozenset[int] = frozenset()
        """Programs without a shim that still run according to the probe."""
        self.ask_at = 0.0
        """Earliest time of the next probe, in seconds of I/O time."""
        self.is_asked_after = False
        """The watcher has started the probe, and it has not ended yet."""
        self.is_lamented = False
        """The log has a warning about its unknown outcome."""

    def looks(self) -> list[Look]:
        """Return the progress of each program."""
        try:
            looks = self.folder.looks()
        except DriverError:
            # Without the record of the call, nothing is known.
            return [Look(state=RunState.LOST)]
        for number in self.probed_running:
            if looks[number].state is RunState.LOST:
                looks[number] = Look(state=RunState.RUNNING)
        return looks

    def lost(self) -> list[int]:
        """Return the programs that have no recorded end and no shim."""
        try:
            looks = self.folder.looks()
        except DriverError:
            return []
        lost = RunState.LOST
        return [number for number, look in enumerate(looks) if look.state is lost]

    def standing(self) -> Probe:
        """Return the state of the whole call."""
        looks = self.looks()
        states = {look.state for look in looks}
        if states & UNDER_WAY:
            if self.folder.is_stopped:
                return self._ended([], failed="it was stopped")
            return Probe(state=ProbeState.RUNNING)
        if states == {RunState.LOST}:
            return Probe(state=ProbeState.UNKNOWN)
        by_vm = [
            (run.vm, look)
            for run, look in zip(self.folder.plan.runs, looks, strict=True)
        ]
        if RunState.LOST in states:
            ended = self._ended(
                by_vm, failed=_told(by_vm) or "the outcome for some VMs is unknown"
            )
            return replace(ended, state=ProbeState.UNKNOWN)
        if RunState.FAILED not in states:
            return self._ended(by_vm, said=_told(by_vm))
        failed = [pair for pair in by_vm if pair[1].state is RunState.FAILED]
        return self._ended(by_vm, failed=_told(failed))

    def _ended(
        self,
        by_vm: list[tuple[str, Look]],
        *,
        said: str = "",
        failed: str = "",
    ) -> Probe:
        return Probe(
            state=ProbeState.FAILED if failed else ProbeState.DONE,
            report=Report(
                operation_id=self.folder.operation_id,
                generation=self.folder.generation,
                verdict=Verdict.FAILED if failed else Verdict.DONE,
                reason=failed or said,
                down=tuple(vm for vm, look in by_vm if look.is_down),
                paused=tuple(
                    (vm, look.paused) for vm, look in by_vm if look.paused is not None
                ),
                results=tuple(_result(vm, look) for vm, look in by_vm),
            ),
        )


_VERDICTS = {RunState.DONE: VmVerdict.DONE, RunState.FAILED: VmVerdict.FAILED}


def _result(vm: str, look: Look) -> VmResult:
    return VmResult(
        vm=vm,
        # A program that was stopped before it began did nothing; others are unknown.
        verdict=_VERDICTS.get(look.state, VmVerdict.UNKNOWN),
        note=look.reason,
        is_down=look.is_down,
    )


def _told(looks: list[tuple[str, Look]]) -> str:
    """Return the last output of programs by VM, for the first of them."""
    words = [(vm, look.reason) for vm, look in looks if look.reason]
    told = [f"vm {vm}: {reason}" for vm, reason in words[:REASONS_TOLD_MAX]]
    if more := len(words) - len(told):
        told.append(f"and {more} more")
    return "; ".join(told)


class Book:
    """All recorded calls, by operation and generation."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._cases: defaultdict[str, dict[int, Case]] = defaultdict(dict)
        self._open: dict[tuple[str, int], Case] = {}
        self._reports: deque[tuple[Case, Report]] = deque()

    def add(
        self, folder: Folder, *, is_told: bool = False, is_wanted: bool = False
    ) -> None:
        """Add a call."""
        key = folder.operation_id, folder.generation
        with self._lock:
            case = Case(folder, is_told=is_told, is_wanted=is_wanted)
            self._cases[key[0]][key[1]] = case
            if not is_told:
                self._open[key] = case

    def latest(self, operation_id: str) -> Case | None:
        """Return the newest call of an operation."""
        with self._lock:
            cases = self._cases.get(operation_id)
            return cases[max(cases)] if cases else None

    def find(self, operation_id: str, generation: int) -> Case | None:
        """Return the call with this name."""
        with self._lock:
            return self._cases.get(operation_id, {}).get(generation)

    def is_latest(self, case: Case) -> bool:
        """Tell whether there is no newer call of the operation."""
        return self.latest(case.folder.operation_id) is case

    def earlier(self, case: Case) -> list[Case]:
        """Return the older calls of the same operation."""
        with self._lock:
            cases = self._cases.get(case.folder.operation_id, {})
            return [
                each
                for generation, each in cases.items()
                if generation < case.folder.generation
            ]

    def open_cases(self) -> list[Case]:
        """Return the calls that still need attention, oldest first."""
        with self._lock:
            return list(self._open.values())

    def all_cases(self) -> list[Case]:
        """Return all recorded calls."""
        with self._lock:
            return [each for cases in self._cases.values() for each in cases.values()]

    # Reports

    def report(self, case: Case, report: Report) -> bool:
        """Queue the result of a call for control; return whether control needs it."""
        with self._lock:
            self._open.pop(_key(case), None)
            operation_id, generation = _key(case)
            is_newest = generation == max(self._cases[operation_id], default=0)
            if case.is_told or not is_newest:
                return False
            self._reports.append((case, report))
            return True

    def report_again(self, case: Case, report: Report) -> None:
        """Queue the result of a call again, because control does not have it."""
        with self._lock:
            self._reports.append((case, report))

    def take_reports(self) -> list[Report]:
        """Return the queued results."""
        with self._lock:
            taken = list(self._reports)
            self._reports.clear()
        for case, _ in taken:
            self.note_told(case)
        return [report for _, report in taken]

    def note_told(self, case: Case) -> None:
        """Record that control needs no report of a call any more."""
        with self._lock:
            case.is_told = True
            self._reports = deque(each for each in self._reports if each[0] is not case)
        # If it cannot be written, it is reported twice after a crash, which is allowed.
        with contextlib.suppress(OSError):
            case.folder.note_told()

    # Ends

    def close(self, case: Case) -> None:
        """Remove a call from those that need attention."""
        with self._lock:
            self._open.pop(_key(case), None)

    def forget(self, case: Case) -> None:
        """Remove a call that was removed from the records."""
        operation_id, generation = _key(case)
        with self._lock:
            self._open.pop((operation_id, generation), None)
            cases = self._cases[operation_id]
            cases.pop(generation, None)
            if not cases:
                del self._cases[operation_id]


def _key(case: Case) -> tuple[str, int]:
    return case.folder.operation_id, case.folder.generation
