"""A process that plans separately from the service: both ends of its pipes.

The process reads a snapshot of the store and changes nothing. Both ends are forewarn, so
messages are pickled.
"""

import contextlib
import gc
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Self, TypeAlias

from forewarn.campaigns.plan_progress import (
    Part,
    Progress,
    ReportProgress,
    ignore_progress,
)
from forewarn.clock import SystemClock
from forewarn.instants import MILLISECOND, Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.store.postgres.url import is_url
from forewarn.store.snapshot import Source

Serve: TypeAlias = Callable[[Source, IO[bytes], IO[bytes]], None]
"""Reads questions about a store from one stream, and writes the answers to another."""

NICENESS = 5
"""Niceness of the process: if it competes with the service for one processor, it still
gets a quarter. If the system rejects this niceness, both get the same share."""

REPORT_AFTER: Micros = 250 * MILLISECOND
"""Time until a process first reports its progress, and between two reports of one part of
the work. Work that is shorter is not reported."""


def command(module: str, store: Source) -> list[str]:
    """Return the command that runs the function `main` of a module, with a store."""
    # With `-m`, its classes would not match the pickled ones.
    code = f"from {module} import main; main()"
    # A URL has no password: `check_url` refuses it.
    argument = str(store.absolute()) if isinstance(store, Path) else store
    return [sys.executable, "-P", "-c", code, argument]


def begin(module: str, store: Source) -> "subprocess.Popen[bytes]":
    """Start the function `main` of a module as a process, with pipes to it and from it.

    Raises OSError.
    """
    return subprocess.Popen(  # noqa: S603 - our own program
        command(module, store),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # A signal from the terminal must reach only the service.
        start_new_session=True,
    )


class TimeLimit:
    """Kills a process that runs for too long, while a `with` block talks to it."""

    def __init__(self, process: "subprocess.Popen[bytes]", seconds: float) -> None:
        """Give the block `seconds`."""
        self._process = process
        self._seconds = seconds
        self._timer = threading.Timer(seconds, self._kill)
        self._timer.daemon = True
        self._was_reached = False

    def __enter__(self) -> Self:
        """Start to measure."""
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let the process run."""
        self._timer.cancel()

    @property
    def end(self) -> str:
        """Say how the process ended: "has ended (status 1)"."""
        if self._was_reached:
            return f"did not answer within {self._seconds:g} s and was killed"
        return f"has ended (status {self._process.wait()})"

    def _kill(self) -> None:
        self._was_reached = True
        self._process.kill()


class RequestProcess:
    """A process for one request; `answer` blocks, and `end` may be called meanwhile."""

    def __init__(self, module: str, store: Source, *, seconds_max: float) -> None:
        """Prepare the function `main` of a module, which gets `seconds_max`."""
        self._module = module
        self._store = store
        self._seconds_max = seconds_max
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self.end_text = "has not been started"
        """How the process ended, once it gave no answer."""
        self.has_ended = False
        """Whether `end` was called."""

    def answer(
        self, request: bytes, *, report: ReportProgress = ignore_progress
    ) -> Any:
        """Return the answer to a pickled request; None: there is none.

        `report` gets the progress of the process before. Raises OSError if the process cannot
        be started.
        """
        with self._guard:
            if self.has_ended:
                return None
            process = self._process = begin(self._module, self._store)
        with TimeLimit(process, self._seconds_max) as limit, process:
            answer = _exchanged(process, request, report)
            if answer is None:
                self.end_text = limit.end
            return answer

    def end(self) -> None:
        """Kill the process, and do not start it."""
        with self._guard:
            self.has_ended = True
        if self._process is not None:
            self._process.kill()


def _exchanged(
    process: "subprocess.Popen[bytes]", request: bytes, report: ReportProgress
) -> Any:
    """Send a request to a process; return its answer, or None."""
    assert process.stdin is not None
    assert process.stdout is not None
    # A process that has ended reads nothing.
    with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(request)
    try:
        while True:
            message = pickle.load(process.stdout)  # noqa: S301 - from our own program
            if not isinstance(message, Progress):
                return message
            report(message)
    except (EOFError, ValueError, pickle.UnpicklingError):
        return None


class _ProgressWriter:
    """Sends progress to the service, not too often."""

    def __init__(self, answers: IO[bytes]) -> None:
        self._answers = answers
        self._clock = SystemClock()
        self._after = self._clock.monotonic() + REPORT_AFTER
        self._part: Part | None = None

    def write(self, progress: Progress) -> None:
        """Send the progress, unless the work or the last message is too young."""
        now = self._clock.monotonic()
        is_news = self._part is not None and progress.part is not self._part
        if now < self._after and not is_news:
            return
        self._part, self._after = progress.part, now + REPORT_AFTER
        pickle.dump(progress, self._answers)
        self._answers.flush()


def answering(make: Callable[[Source, Any, ReportProgress], Any]) -> Serve:
    """Return a server of one pickled request, which `make` answers from the store.

    `make` also gets a function to report its progress. A ForewarnError of `make` is an
    answer, too.
    """

    def serve(store: Source, requests: IO[bytes], answers: IO[bytes]) -> None:
        answer: Any
        try:
            request = pickle.load(requests)  # noqa: S301 - from the service
            answer = make(store, request, _ProgressWriter(answers).write)
        except ForewarnError as error:
            answer = error
        pickle.dump(answer, answers)
        answers.flush()

    return serve


def _source(argument: str) -> Source:
    return argument if is_url(argument) else Path(argument)


def run(serve: Serve) -> None:
    """Serve on standard input and output; the argument is the store."""
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    # The process lives for seconds and creates hardly any garbage.
    gc.disable()
    try:
        serve(_source(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
    except BrokenPipeError:
        # The service closed the pipe; exit without flushing.
        os._exit(1)
