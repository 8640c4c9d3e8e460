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
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

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
"""For all programs that look at the VMs of one call, together: control waits for
them, and a service whose control waits for a minute is taken for stuck."""

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


def ask(
    questions: Mapping[str, Words], *, parallel: int, clock: Clock
) -> dict[str, Answer]:
    """Run programs that look, each under a name; return what each says."""
    if not questions:
        return {}
    deadline = clock.monotonic() + ASK_SECONDS

    def one(words: Words) -> Answer:
        return _ask_one(words, seconds=deadline - clock.monotonic())

    with ThreadPoolExecutor(parallel, thread_name_prefix="forewarn-ask") as pool:
        return dict(zip(questions, pool.map(one, questions.values()), strict=True))


def _ask_one(words: Words, *, seconds: float) -> Answer:
    if seconds <= 0:
        return Answer(status=None)
    # A file, since something that it leaves running could hold a pipe open.
    with tempfile.TemporaryFile() as said:
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
            return Answer(status=None)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return Answer(status=None)
        said.seek(0)
        text = said.read(ANSWER_BYTES_MAX).decode("utf-8", "replace")
    return Answer(status=status, text=text)


def is_running(answer: Answer) -> bool | None:
    """Return what the answer of `observe` says of a VM; None: it cannot tell."""
    if answer.status == DONE_STATUS:
        return True
    return False if answer.status == DOWN_STATUS else None
