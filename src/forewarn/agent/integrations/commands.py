"""Runs a command of another program for a handler: one deadline, all of its output.

Only for commands that end soon and do no harm if they are killed: `systemctl show`,
`scontrol update`. It has a process group of its own, which is killed as a whole when
the time is up. Nothing is passed through a shell.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence

from forewarn.agent.handlers.records import last_line
from forewarn.agent.handlers.run_context import (
    PAUSE_FIRST_SECONDS,
    PAUSE_MOST_SECONDS,
    HandlerError,
    RunContext,
    doubling,
)
from forewarn.protocol.frozen import frozen_dataclass

OUTPUT_CHARACTERS_MAX = 4 * 1024 * 1024
"""Of one command: a list of all jobs of a large cluster is about a megabyte."""

COMMAND_SECONDS = 30.0
"""For one command, where more is left: what says nothing so long hangs."""

REAP_SECONDS = 2.0
"""For a killed command to be gone; then it hangs in the system."""


@frozen_dataclass
class Output:
    """How a command ended."""

    status: int
    """Its exit status; negative: the signal that ended it."""
    out: str
    err: str

    @property
    def said(self) -> str:
        """Return its last line, for a sentence: of its errors, or else of its output."""
        return last_line(self.err) or last_line(self.out)

    @property
    def why(self) -> str:
        """Return why it failed, for a sentence: what it said, or else its status."""
        return self.said or f"status {self.status}"

    def good(self, otherwise: str) -> str:
        """Return what it printed; raises HandlerError with this where it failed."""
        if self.status != 0:
            raise HandlerError(f"{otherwise}: {self.why}")
        return self.out


class Commands:
    """Runs commands with the agent's environment and in English."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Take the agent's environment; what is understood must not be translated."""
        self._environment = {**environment, "LC_ALL": "C.UTF-8"}

    def find(self, program: str) -> str:
        """Return where a program is; empty: nowhere."""
        return shutil.which(program, path=self._environment.get("PATH")) or ""

    def missing(self, programs: Sequence[str], origin: str) -> list[str]:
        """Return which programs are not there, a sentence each with where they are from."""
        return [
            f"there is no program {program}: it comes with {origin}"
            for program in programs
            if not self.find(program)
        ]

    def run(
        self,
        words: Sequence[str],
        context: RunContext,
        *,
        seconds: float = COMMAND_SECONDS,
    ) -> Output:
        """Return how a command ended; raises HandlerError where it did not.

        A status other than 0 is no error here. Its standard input is empty.
        """
        seconds = min(seconds, context.remaining())
        if seconds <= 0:
            raise context.over(f"running {shown(words)}")
        try:
            child = subprocess.Popen(  # noqa: S603 - what the settings name
                list(words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                cwd="/" if os.name == "posix" else None,
                start_new_session=os.name == "posix",
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise HandlerError(f"{words[0]}: {error.strerror}") from error
        killed = threading.Event()

        def kill() -> None:
            killed.set()
            _kill(child)

        out = err = ""
        with context.on_stop(kill):
            try:
                out, err = child.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.communicate(timeout=REAP_SECONDS)
            finally:
                _kill(child)
        if killed.is_set() and context.remaining() > 0:
            raise HandlerError(f"{shown(words)}: no answer within {seconds:.0f} s")
        if killed.is_set():
            raise context.over(f"running {shown(words)}")
        return Output(
            status=child.returncode,
            out=out[:OUTPUT_CHARACTERS_MAX],
            err=err[:OUTPUT_CHARACTERS_MAX],
        )

    def patiently(
        self,
        words: Sequence[str],
        context: RunContext,
        *,
        doing: str,
        may_pass: Callable[[Output], bool],
        seconds: float = COMMAND_SECONDS,
    ) -> Output:
        """Return how a command ended once its target was there; raises HandlerError.

        A failure that may pass, and a command that said nothing in its time, is run
        again while there is time, so it must bear that. `doing` is what it does, for a
        sentence: `asking systemd about web.service`.
        """
        if not self.find(words[0]):
            raise HandlerError(f"there is no program {words[0]}")
        pauses = doubling(PAUSE_FIRST_SECONDS, PAUSE_MOST_SECONDS)
        with context.doing(doing):
            while True:
                try:
                    output = self.run(words, context, seconds=seconds)
                except HandlerError as error:
                    last = error.message
                else:
                    if output.status == 0 or not may_pass(output):
                        return output
                    last = output.said
                if not context.sleep(next(pauses)):
                    raise context.over(doing, said=last)


def shown(words: Sequence[str]) -> str:
    """Return a command for a sentence."""
    return " ".join(words)


def _kill(child: subprocess.Popen[str]) -> None:
    """Kill a command and what it has started; one that has ended is left alone."""
    with contextlib.suppress(OSError):
        if os.name == "posix":
            os.killpg(child.pid, signal.SIGKILL)
        else:  # pragma: no cover
            child.kill()
