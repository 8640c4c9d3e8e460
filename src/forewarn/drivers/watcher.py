"""The command driver's thread: starts programs and finds their results.

It reads the records of every running call several times a second. It therefore does
not matter which process of the service started a program. A few programs of a call run
at once. A program of a newer call waits for the program of an older call for the same VM.
It does not run at all if the older one has done the work.
"""

import logging
import threading
from collections.abc import Callable

from forewarn.clock import Clock
from forewarn.drivers import programs
from forewarn.drivers.book import CallList, TrackedCall
from forewarn.drivers.errands import Errands
from forewarn.drivers.port import DriverError, ProbeState
from forewarn.drivers.programs import Programs, VmObserver
from forewarn.drivers.records import (
    UNDER_WAY,
    CallDirectories,
    CallDirectory,
    RunState,
)
from forewarn.instants import SECOND, Micros

WATCH_SECONDS = 0.05
"""Interval of the checks while programs run: a freeze takes some seconds, and a late
report would extend it. A check costs a few file reads for each program."""

IDLE_SECONDS = 10.0
"""Interval of the checks while no program runs: only probes need them."""

PURGE_SECONDS = 60.0
"""Interval of the steps that remove old records. The first step waits as long, so that
control can probe old calls before their records are removed."""

PURGED_TOGETHER_MAX = 50
"""Maximum number of calls removed in one step: it takes milliseconds, while programs
may wait for a start."""

PROBES_AT_ONCE = 4
"""Maximum number of calls that are probed at once: control also starts probes."""

STOP_SECONDS = 15.0
"""Maximum seconds for the thread to end: it may be waiting for the start of a shim."""

logger = logging.getLogger("forewarn.drivers")


class Watcher:
    """Processes the calls of a book in a separate thread."""

    def __init__(
        self,
        *,
        programs: Programs,
        book: CallList,
        directories: CallDirectories,
        observer: VmObserver,
        clock: Clock,
        retention: Micros,
        wake: Callable[[], None],
    ) -> None:
        """Do nothing yet; `wake` is called when there are new reports."""
        self._programs = programs
        self._book = book
        self._directories = directories
        self._observer = observer
        self._clock = clock
        self._retention = retention
        self._wake = wake
        self._errands = Errands(
            at_once=PROBES_AT_ONCE,
            name="forewarn-probe",
            monotonic=clock.monotonic,
        )
        self.may_start: Callable[[], bool] = lambda: True
        """Whether a program may start now."""
        self._wakeup = threading.Event()
        self._is_over = False
        self._purge_at = clock.monotonic() + PURGE_SECONDS
        self._thread = threading.Thread(
            target=self._main, name="forewarn-programs", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Make the thread check at once."""
        self._wakeup.set()

    def stop(self) -> None:
        """End the thread; programs continue."""
        self._is_over = True
        self._wakeup.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    # The thread

    def _main(self) -> None:
        while not self._is_over:
            self._wakeup.clear()
            is_busy = False
            for case in self._book.open_cases():
                try:
                    is_busy |= self._process(case)
                except (OSError, DriverError) as error:
                    logger.warning("%s: %s", case.directory.path.name, error)
                if self._is_over:
                    return
            self._purge()
            self._wakeup.wait(WATCH_SECONDS if is_busy else IDLE_SECONDS)

    def _process(self, case: TrackedCall) -> bool:
        """Do the next step of a call; return whether it needs another check soon."""
        is_current = self._book.is_latest(case) and not case.directory.is_stopped
        if is_current and case.is_wanted:
            self._start_some(case)
        if case.lost() and self._observer.is_due(case):
            self._start_probe(case)
        states = {progress.state for progress in case.progress()}
        if not is_current and RunState.RUNNING not in states:
            self._book.close(case)
            return False
        if states & UNDER_WAY:
            return True
        probe = case.state()
        if probe.state is ProbeState.UNKNOWN and not case.has_warning:
            case.has_warning = True
            logger.warning(
                "the outcome of %s (generation %s) is unknown: the shims of its "
                "programs were killed",
                case.directory.operation_id,
                case.directory.generation,
            )
        if probe.report is None or probe.state is ProbeState.UNKNOWN:
            return probe.state is ProbeState.RUNNING
        if self._book.report(case, probe.report):
            self._wake()
        return False

    def _start_probe(self, case: TrackedCall) -> None:
        """Probe lost programs in another thread, because the probe may hang."""
        if case.is_probing:
            return
        case.is_probing = True

        def ask() -> None:
            try:
                self._observer.probe_lost(case)
            except (OSError, DriverError) as error:
                logger.warning("%s: %s", case.directory.path.name, error)
            finally:
                case.is_probing = False
                self.wake()

        self._errands.run(ask)

    def _start_some(self, case: TrackedCall) -> None:
        """Start programs up to the maximum number that may run at once."""
        progress = case.progress()
        room = self._programs.parallel
        room -= sum(run_progress.state is RunState.RUNNING for run_progress in progress)
        for number, run in enumerate(progress):
            if room <= 0 or self._is_over:
                return
            if run.state is not RunState.WAITING:
                continue
            if not self.may_start():
                return
            earlier = self._earlier_states(case, number)
            if RunState.RUNNING in earlier:
                continue
            room -= 1
            if RunState.DONE in earlier and not case.is_step:
                case.directory.record_unstarted(number, end="carried", output="")
            else:
                self._start(case, number)

    def _start(self, case: TrackedCall, number: int) -> None:
        directory = case.directory
        with case.lock:
            if directory.is_stopped:
                return
            try:
                programs.start_shim(directory.path, number)
            except DriverError as error:
                logger.warning("%s: %s", directory.path.name, error.message)
                directory.record_unstarted(
                    number, end="unstartable", output=error.message
                )

    def _earlier_states(self, case: TrackedCall, number: int) -> set[RunState]:
        """Return the states of the same work in older calls."""
        plan = case.directory.plan
        states: set[RunState] = set()
        for other in self._book.earlier(case):
            same = other.directory.number_of(plan, plan.runs[number])
            if same is not None:
                states.add(other.progress()[same].state)
        return states

    def _purge(self) -> None:
        """Remove some of the records that are older than the retention."""
        if self._clock.monotonic() < self._purge_at:
            return
        self._purge_at = self._clock.monotonic() + PURGE_SECONDS
        now = self._clock.now()
        removed = 0
        for case in self._book.all_cases():
            if _age(case.directory, now=now) < self._retention:
                continue
            if any(progress.state in UNDER_WAY for progress in case.progress()):
                continue
            self._book.forget(case)
            self._directories.remove(case.directory)
            removed += 1
            if removed >= PURGED_TOGETHER_MAX:
                return


def _age(directory: CallDirectory, *, now: Micros) -> Micros:
    """Return the time since the last record of a call."""
    try:
        return now - round(directory.path.stat().st_mtime * SECOND)
    except OSError:
        return 0
