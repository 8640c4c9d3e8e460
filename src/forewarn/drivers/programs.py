"""The operator's programs: their settings, their environment, and how they run.

A shim, which outlives the service, runs the programs that change something. The
programs `observe` or `observe_many` (about VMs) and `probe` (about interrupted work) are child processes of
the service. A few of them run at once for a short time; a program that has not ended by
then gives no result. The settings may omit `observe` or `probe`. The result is then
unknown, and an operator must decide.
"""

import contextlib
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from forewarn.clock import Clock
from forewarn.drivers import lines, marks, placeholders, shim
from forewarn.drivers.book import TrackedCall
from forewarn.drivers.marks import Reading
from forewarn.drivers.port import (
    NOWHERE,
    Call,
    DriverError,
    Expected,
    HostVms,
    Observation,
    Observations,
)
from forewarn.drivers.records import DONE_STATUS, DOWN_STATUS, RUNS_STATUS
from forewarn.instants import SECOND, Micros
from forewarn.protocol.abilities import Ability
from forewarn.protocol.host_steps import NO_STEPS, StepRules
from forewarn.protocol.operations import Action
from forewarn.texts import readable

Words = tuple[str, ...]

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of the programs, and of the search for them."""

ASK_SECONDS = 10.0
"""Maximum seconds for all `observe` or `probe` programs of one call together: until
then, the report of the call waits, and its VMs with it."""

PROGRAMS_AT_ONCE_MAX = 20
"""Maximum number of `observe` and `probe` programs at once: each holds a file, and the
service reserves few of them (`limits.FILES_RESERVED`). Others wait."""

KILL_SECONDS = 1.0
"""Seconds to wait for the end of a killed program: one that waits for a dead disk or
network may never end, and is abandoned."""

ANSWER_BYTES_MAX = 4096
"""Maximum bytes of output that are read: the result is one word."""

LINES_BYTES_MAX = 16 * 1024 * 1024
"""Maximum bytes of output that are read from a program that prints a line for each VM:
more than a hundred bytes for each of 100,000 VMs."""

CLAIM_SECONDS = 30.0
"""Maximum seconds until a shim has recorded its start: it takes some hundredths of a
second, and seconds on an overloaded machine."""

_SHIM = str(Path(shim.__file__).absolute())


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The configured programs; the first argument of each is an absolute path."""

    actions: Mapping[Action, Words]
    abortable: frozenset[Action] = frozenset({Action.LIVE_MIGRATE})
    """Actions whose programs may be stopped before their end."""
    timeouts: Mapping[Action, Micros | None]
    """Maximum time for the program of each action; None: no limit."""
    steps: Mapping[str, Words] = field(default_factory=dict[str, Words])
    """The programs of host steps, by name."""
    step_rules: StepRules = NO_STEPS
    """The arguments and timeouts of the host steps."""
    observe: Words = ()
    observe_many: Words = ()
    """The program to ask instead of `observe`, once for all VMs."""
    probe: Words = ()
    marks: Words = ()
    watch: Words = ()
    abilities: Words = ()
    """The program that answers about the abilities of hosts and their VMs."""
    parallel: int = 4
    """Maximum number of programs of one call at once."""
    grace: Micros = 10 * SECOND
    """Time between SIGTERM and SIGKILL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of `observe` or `probe`."""

    status: int | None
    """None: it did not end in time, or could not be run."""
    text: str = ""


def environment() -> dict[str, str]:
    """Return the environment of programs, without the service's own variables."""
    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        home = "/"
    return {"PATH": PATH, "HOME": home, "LANG": "C.UTF-8"}


def start_shim(directory: Path, number: int) -> None:
    """Start the program NUMBER of a call; return when the start is recorded.

    Raises DriverError if the program was certainly not started.
    """
    command = [sys.executable, "-I", "-S", _SHIM, str(directory), str(number)]
    try:
        ended = subprocess.run(  # noqa: S603 - our own script
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment(),
            cwd="/",
            timeout=CLAIM_SECONDS,
            check=False,
        )
    except OSError as error:
        raise DriverError(f"{sys.executable}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise DriverError("the shim did not start in time") from error
    if ended.returncode:
        output = readable(ended.stderr.decode("utf-8", "replace"), last=200)
        raise DriverError(f"the shim failed: {output}")


class Asker:
    """Runs `observe` and `probe`; several threads may use it."""

    def __init__(self, clock: Clock) -> None:
        """Ask nothing yet."""
        self._clock = clock
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._places = threading.BoundedSemaphore(PROGRAMS_AT_ONCE_MAX)
        self._has_ended = False

    def ask(
        self, questions: Mapping[str, Words], *, parallel: int, stdin: bytes = b""
    ) -> dict[str, Answer]:
        """Run named programs, some at once; return the result of each.

        Each gets `stdin` on standard input. It takes at most ASK_SECONDS, even if a
        program cannot be ended.
        """
        answers = {name: Answer(status=None) for name in questions}
        left = deque(questions.items())
        deadline = self._clock.monotonic() + ASK_SECONDS

        def work() -> None:
            with contextlib.suppress(IndexError):
                while True:
                    name, command = left.popleft()
                    answers[name] = self._ask_in_turn(
                        command, deadline=deadline, stdin=stdin
                    )

        threads = [
            threading.Thread(target=work, name="forewarn-ask", daemon=True)
            for _ in range(min(parallel, len(questions)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0, deadline - self._clock.monotonic()) + KILL_SECONDS)
        return dict(answers)

    def end(self) -> None:
        """End the running programs, and start no others."""
        with self._lock:
            self._has_ended = True
            running = list(self._running)
        for process in running:
            kill(process)

    def _ask_in_turn(self, command: Words, *, deadline: float, stdin: bytes) -> Answer:
        """Run a program when the number of running ones allows it."""
        left = deadline - self._clock.monotonic()
        if not self._places.acquire(timeout=max(0.0, left)):
            return Answer(status=None)
        try:
            seconds = deadline - self._clock.monotonic()
            return self._ask_one(command, seconds=seconds, stdin=stdin)
        except OSError:
            # No file can be opened, or the disk is full: the result is unknown.
            return Answer(status=None)
        finally:
            self._places.release()

    def _ask_one(self, command: Words, *, seconds: float, stdin: bytes) -> Answer:
        # Files, because a process that it leaves running could hold a pipe open.
        with (
            tempfile.TemporaryFile() as input_file,
            tempfile.TemporaryFile() as output_file,
        ):
            input_file.write(stdin)
            input_file.seek(0)
            process = (
                self._begin(command, input_file, output_file) if seconds > 0 else None
            )
            if process is None:
                return Answer(status=None)
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                kill(process)
                process.wait()
                return Answer(status=None)
            finally:
                with self._lock:
                    self._running.discard(process)
            output_file.seek(0)
            most = LINES_BYTES_MAX if stdin else ANSWER_BYTES_MAX
            text = output_file.read(most).decode("utf-8", "replace")
        return Answer(status=status, text=text)

    def _begin(
        self, command: Words, input_file: IO[bytes], output_file: IO[bytes]
    ) -> "subprocess.Popen[bytes] | None":
        with self._lock:
            if self._has_ended:
                return None
            try:
                process = begin(command, stdout=output_file, stdin=input_file)
            except OSError:
                return None
            self._running.add(process)
        return process


def begin(
    command: Words,
    *,
    stdout: IO[bytes] | int,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
) -> "subprocess.Popen[bytes]":
    """Start a program as the leader of a group of its own; raises OSError."""
    return subprocess.Popen(  # noqa: S603 - what the operator configured
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env=environment(),
        cwd="/",
        start_new_session=True,
    )


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a program that `begin` started, and all processes of its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


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

    def observe(self, vms: Sequence[str], expected: Expected = NOWHERE) -> Observations:
        """Return the observed state of VMs."""
        if self._programs.observe_many and vms:
            text = self._ask_lines(
                self._programs.observe_many, lines.questions_about(vms, expected)
            )
            return lines.observations_in(text, vms)
        if not self._programs.observe:
            return {vm: Observation() for vm in vms}
        answers = self._ask(
            {vm: placeholders.expand(self._programs.observe, {"vm": vm}) for vm in vms}
        )
        return {vm: _observation(answer) for vm, answer in answers.items()}

    def reads_marks(self) -> bool:
        """Return whether the marks of calls can be read."""
        return bool(self._programs.marks)

    def read_marks(self, call: Call) -> dict[str, Reading]:
        """Return what the program `marks` reads at the places of a call."""
        text = self._ask_lines(self._programs.marks, lines.questions_of(call))
        return lines.readings_in(text, call, marks.places_of(call))

    def tells_abilities(self) -> bool:
        """Return whether the abilities of hosts and VMs can be asked."""
        return bool(self._programs.abilities)

    def abilities(self, hosts: Sequence[HostVms]) -> Mapping[str, tuple[Ability, ...]]:
        """Return what the program `abilities` tells about hosts and their VMs."""
        if not self._programs.abilities or not hosts:
            return {}
        questions = lines.questions_about_abilities(hosts)
        text = self._ask_lines(self._programs.abilities, questions)
        return lines.abilities_in(text, hosts)

    def _ask_lines(self, command: Words, stdin: bytes) -> str:
        """Return the output of a program that is asked about many places at once."""
        return self._asker.ask({"": command}, parallel=1, stdin=stdin)[""].text

    def end(self) -> None:
        """End the programs that are running."""
        self._asker.end()

    # Lost work

    def is_due(self, case: TrackedCall) -> bool:
        """Return whether it is time to probe programs without a recorded end.

        The program `probe` knows nothing about host steps.
        """
        return (
            bool(self._programs.probe)
            and self._clock.monotonic() >= case.probe_at
            and not case.is_step
        )

    def probe_lost(self, case: TrackedCall) -> None:
        """Probe programs without a recorded end, and record the results."""
        if not self._programs.probe or case.is_step:
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


_RUNNING: Mapping[int | None, bool] = {DONE_STATUS: True, DOWN_STATUS: False}
"""Whether a VM runs according to `observe`; another status tells nothing."""


def _observation(answer: Answer) -> Observation:
    running = _RUNNING.get(answer.status)
    # The host of a VM that does not run is not used.
    host = next(iter(answer.text.split()), None) if running else None
    return Observation(running=running, host=host)
