"""What the operator's own programs see: VMs by `observe`, lost work by `probe`.

Either may be missing; then nothing is seen, and an operator is asked instead.
"""

import threading
from collections.abc import Mapping, Sequence

from forewarn.clock import Clock
from forewarn.drivers import placeholders, programs
from forewarn.drivers.book import Case
from forewarn.drivers.port import Observation
from forewarn.drivers.programs import Answer, Programs, Words
from forewarn.drivers.records import DONE_STATUS, DOWN_STATUS, RUNS_STATUS

STILL_RUNNING_STATUS = 4
"""Exit status of `probe`: the work goes on."""

FRESH_SECONDS = 5.0
"""How long a look at a VM serves: control asks within milliseconds of a report
whose VMs have been looked at, and later on a busy machine."""

ASK_AGAIN_SECONDS = 10.0
"""Between two questions after work that nobody watches: it costs a program."""


class Sight:
    """Asks the programs that look; may be used by several threads."""

    def __init__(self, *, programs: Programs, clock: Clock) -> None:
        """See nothing yet."""
        self._programs = programs
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[float, Observation]] = {}

    # VMs

    def observe(self, vms: Sequence[str]) -> Mapping[str, Observation]:
        """Return what is to be seen of VMs, or was seen a moment ago."""
        if not self._programs.observe:
            return {vm: Observation() for vm in vms}
        since = self._clock.monotonic() - FRESH_SECONDS
        with self._lock:
            self._seen = {
                vm: seen for vm, seen in self._seen.items() if seen[0] > since
            }
            fresh = {vm: self._seen[vm][1] for vm in vms if vm in self._seen}
        return {**fresh, **self.refresh([vm for vm in vms if vm not in fresh])}

    def refresh(self, vms: Sequence[str]) -> Mapping[str, Observation]:
        """Look at VMs now."""
        if not self._programs.observe:
            return {}
        answers = self._ask(
            {vm: placeholders.expand(self._programs.observe, {"vm": vm}) for vm in vms}
        )
        seen = {vm: _observation(answer) for vm, answer in answers.items()}
        instant = self._clock.monotonic()
        with self._lock:
            self._seen.update({vm: (instant, each) for vm, each in seen.items()})
        return seen

    def forget(self, vms: Sequence[str]) -> None:
        """Look anew next time: something is being done to these VMs."""
        with self._lock:
            for vm in vms:
                self._seen.pop(vm, None)

    # Lost work

    def ask_after_lost(self, case: Case, *, is_urgent: bool = False) -> None:
        """Ask what became of programs whose end nobody saw, and write it down."""
        instant = self._clock.monotonic()
        if not self._programs.probe or (instant < case.ask_at and not is_urgent):
            return
        plan = case.folder.plan
        questions: dict[str, Words] = {}
        for number in case.lost():
            values = placeholders.values_of(plan.call, plan.call.vms[number])
            questions[str(number)] = placeholders.expand(self._programs.probe, values)
        running: set[int] = set()
        for name, answer in self._ask(questions).items():
            if answer.status == STILL_RUNNING_STATUS:
                running.add(int(name))
            elif answer.status in {DONE_STATUS, RUNS_STATUS, DOWN_STATUS}:
                case.folder.settle(
                    int(name), end="probed", status=answer.status, output=answer.text
                )
        case.probed_running = frozenset(running)
        case.ask_at = self._clock.monotonic() + ASK_AGAIN_SECONDS

    def _ask(self, questions: Mapping[str, Words]) -> dict[str, Answer]:
        parallel = self._programs.parallel
        return programs.ask(questions, parallel=parallel, clock=self._clock)


def _observation(answer: Answer) -> Observation:
    running = programs.is_running(answer)
    # Where a VM is that does not run is nobody's business.
    host = next(iter(answer.text.split()), None) if running else None
    return Observation(running=running, host=host)
