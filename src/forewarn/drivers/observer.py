"""The operator's programs `observe` (for VMs) and `probe` (for interrupted work).

Either may be missing. Its result is then unknown, and an operator must decide.
"""

from collections.abc import Mapping, Sequence

from forewarn.clock import Clock
from forewarn.drivers import placeholders, programs
from forewarn.drivers.book import TrackedCall
from forewarn.drivers.port import Observation
from forewarn.drivers.programs import ASK_SECONDS, Answer, Asker, Programs, Words
from forewarn.drivers.records import DONE_STATUS, DOWN_STATUS, RUNS_STATUS

STILL_RUNNING_STATUS = 4
"""Exit status of `probe`: the work is still running."""

PROBE_AGAIN_SECONDS = 10.0
"""Seconds between two probes of work without a shim: each runs a program."""


class VmObserver:
    """Runs `observe` and `probe`; several threads may use it."""

    def __init__(self, *, programs: Programs, clock: Clock) -> None:
        """Run nothing yet."""
        self._programs = programs
        self._clock = clock
        self._asker = Asker(clock)

    def observe(self, vms: Sequence[str]) -> Mapping[str, Observation]:
        """Return the observed state of VMs."""
        if not self._programs.observe:
            return {vm: Observation() for vm in vms}
        answers = self._ask(
            {vm: placeholders.expand(self._programs.observe, {"vm": vm}) for vm in vms}
        )
        return {vm: _observation(answer) for vm, answer in answers.items()}

    def end(self) -> None:
        """End the programs that are running."""
        self._asker.end()

    # Lost work

    def is_due(self, case: TrackedCall) -> bool:
        """Tell whether it is time to probe programs without a recorded end."""
        return bool(self._programs.probe) and self._clock.monotonic() >= case.probe_at

    def probe_lost(self, case: TrackedCall) -> None:
        """Probe programs without a recorded end, and record the results."""
        if not self._programs.probe:
            return
        # Only control may start another probe meanwhile.
        case.probe_at = self._clock.monotonic() + ASK_SECONDS + PROBE_AGAIN_SECONDS
        plan = case.directory.plan
        questions: dict[str, Words] = {}
        for number in case.lost():
            values = placeholders.values_of(plan.call, plan.call.vms[number])
            questions[str(number)] = placeholders.expand(self._programs.probe, values)
        running: set[int] = set()
        for name, answer in self._ask(questions).items():
            if answer.status == STILL_RUNNING_STATUS:
                running.add(int(name))
            elif answer.status in {DONE_STATUS, RUNS_STATUS, DOWN_STATUS}:
                case.directory.record_end(
                    int(name), end="probed", status=answer.status, output=answer.text
                )
        case.probed_running = frozenset(running)
        case.probe_at = self._clock.monotonic() + PROBE_AGAIN_SECONDS

    def _ask(self, questions: Mapping[str, Words]) -> dict[str, Answer]:
        return self._asker.ask(questions, parallel=self._programs.parallel)


def _observation(answer: Answer) -> Observation:
    running = programs.is_running(answer)
    # The host of a VM that does not run is not used.
    host = next(iter(answer.text.split()), None) if running else None
    return Observation(running=running, host=host)
