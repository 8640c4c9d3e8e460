"""The operator's programs: which there are, what they are given, how one looks.

What changes something is run by a shim, which outlives the service. The programs
that only look, `observe` and `probe`, are children of the service: a few at once,
for a short time, and what has not answered by then is not known.
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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from forewarn.clock import Clock
from forewarn.drivers import shim
from forewarn.drivers.port import DriverError
from forewarn.drivers.records import DONE_STATUS, DOWN_STATUS
from forewarn.instants import SECOND, Micros
from forewarn.protocol.operations import Action

Words = tuple[str, ...]

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for, and what they are given as PATH."""

ASK_SECONDS = 10.0
"""For all programs that look at the VMs of one call, together: until then the call's
report waits, and its VMs with it."""

PROGRAMS_AT_ONCE_MAX = 20
"""Programs that look at once, of all questions together: each holds a file, and the
service keeps few of them in reserve (`limits.FILES_RESERVED`). Others wait."""

KILL_SECONDS = 1.0
"""For a program that was killed to be gone: one that waits for a dead disk or network
may stay for ever, and is left behind."""

ANSWER_BYTES_MAX = 4096
"""Of what a program that looks prints: the answer is a word."""

CLAIM_SECONDS = 30.0
"""For a shim to record that it has begun: it takes some hundredths of a second,
and seconds on a machine that is in trouble."""

_SHIM = str(Path(shim.__file__).absolute())


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """What the operator configured; the first word of each is an absolute path."""

    actions: Mapping[Action, Words]
    abortable: frozenset[Action] = frozenset({Action.LIVE_MIGRATE})
    """Actions whose programs may be ended before they are through."""
    timeouts: Mapping[Action, Micros | None]
    """How long the program of an action may take; None: as long as it likes."""
    observe: Words = ()
    probe: Words = ()
    parallel: int = 4
    """Programs of one call at once."""
    grace: Micros = 10 * SECOND
    """Between asking a program to end and ending it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a program that looks has said."""

    status: int | None
    """None: it did not end in time, or could not be run."""
    text: str = ""


def environment() -> dict[str, str]:
    """Return all that programs inherit: nothing of the service's own environment."""
    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        home = "/"
    return {"PATH": PATH, "HOME": home, "LANG": "C.UTF-8"}


def start_shim(folder: Path, number: int) -> None:
    """Start the program NUMBER of a call; returns when that is on record.

    Raises DriverError if it was certainly not started.
    """
    words = [sys.executable, "-I", "-S", _SHIM, str(folder), str(number)]
    try:
        ended = subprocess.run(  # noqa: S603 - our own script
            words,
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
        raise DriverError("the shim did not begin in time") from error
    if ended.returncode:
        said = ended.stderr.decode("utf-8", "replace").strip()[-200:]
        raise DriverError(f"the shim failed: {said}")


class Asker:
    """Runs the programs that look; used by several threads."""

    def __init__(self, clock: Clock) -> None:
        """Ask nothing yet."""
        self._clock = clock
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._places = threading.BoundedSemaphore(PROGRAMS_AT_ONCE_MAX)
        self._has_ended = False

    def ask(
        self, questions: Mapping[str, Words], *, parallel: int
    ) -> dict[str, Answer]:
        """Run programs, each under a name, some at once; return what each says.

        It takes ASK_SECONDS at most, also where a program cannot be ended.
        """
        answers = {name: Answer(status=None) for name in questions}
        left = deque(questions.items())
        deadline = self._clock.monotonic() + ASK_SECONDS

        def work() -> None:
            with contextlib.suppress(IndexError):
                while True:
                    name, words = left.popleft()
                    answers[name] = self._ask_in_turn(words, deadline=deadline)

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
        """End the programs that run, and begin no more."""
        with self._lock:
            self._has_ended = True
            running = list(self._running)
        for process in running:
            _kill(process)

    def _ask_in_turn(self, words: Words, *, deadline: float) -> Answer:
        """Run a program when there is a place for it, and a file for what it says."""
        left = deadline - self._clock.monotonic()
        if not self._places.acquire(timeout=max(0.0, left)):
            return Answer(status=None)
        try:
            return self._ask_one(words, seconds=deadline - self._clock.monotonic())
        except OSError:
            # No file can be opened, or the disk is full: nothing is known.
            return Answer(status=None)
        finally:
            self._places.release()

    def _ask_one(self, words: Words, *, seconds: float) -> Answer:
        # A file, since something that it leaves running could hold a pipe open.
        with tempfile.TemporaryFile() as said:
            process = self._begin(words, said) if seconds > 0 else None
            if process is None:
                return Answer(status=None)
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                _kill(process)
                process.wait()
                return Answer(status=None)
            finally:
                with self._lock:
                    self._running.discard(process)
            said.seek(0)
            text = said.read(ANSWER_BYTES_MAX).decode("utf-8", "replace")
        return Answer(status=status, text=text)

    def _begin(self, words: Words, said: IO[bytes]) -> "subprocess.Popen[bytes] | None":
        with self._lock:
            if self._has_ended:
                return None
            try:
                process = subprocess.Popen(  # noqa: S603 - what the operator configured
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.DEVNULL,
                    env=environment(),
                    cwd="/",
                    start_new_session=True,
                )
            except OSError:
                return None
            self._running.add(process)
        return process


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def is_running(answer: Answer) -> bool | None:
    """Return what the answer of `observe` says of a VM; None: it cannot tell."""
    if answer.status == DONE_STATUS:
        return True
    return False if answer.status == DOWN_STATUS else None
