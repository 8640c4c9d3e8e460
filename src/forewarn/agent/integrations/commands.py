"""Run commands of other programs for a handler, with a deadline and all their output.

Use this only for short commands that can be killed safely: `systemctl show`, `scontrol
update`. Each command has its own process group, which is killed at the deadline. No shell
is used.
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
    PAUSE_SECONDS_MAX,
    HandlerError,
    RunContext,
    doubling,
)
from forewarn.protocol.frozen import frozen_dataclass

OUTPUT_CHARACTERS_MAX = 4 * 1024 * 1024
"""Maximum output of one command, in characters: all jobs of a large cluster need 1 MB."""

COMMAND_SECONDS = 30.0
"""Maximum seconds for one command: one that takes longer hangs."""

REAP_SECONDS = 2.0
"""Seconds for a killed command to end; a longer one hangs in the kernel."""


@frozen_dataclass
class Output:
    """The result of a command."""

    status: int
    """The exit status; negative: the signal that ended it."""
    out: str
    err: str

    @property
    def said(self) -> str:
        """Return the last line of the command's errors, or of its output, for a
        message."""
        return last_line(self.err) or last_line(self.out)

    @property
    def why(self) -> str:
        """Return why the command failed, for a message: its last line, or its
        status."""
        return self.said or f"status {self.status}"

    def good(self, otherwise: str) -> str:
        """Return the output; raises HandlerError, with `otherwise`, if the command
        failed."""
        if self.status != 0:
            raise HandlerError(f"{otherwise}: {self.why}")
        return self.out


class Commands:
    """Run commands with the agent's environment and in English."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Store the agent's environment, in a locale without translated messages."""
        self._environment = {**environment, "LC_ALL": "C.UTF-8"}

    def find(self, program: str) -> str:
        """Return the path of a program; empty: not found."""
        return shutil.which(program, path=self._environment.get("PATH")) or ""

    def missing(self, programs: Sequence[str], origin: str) -> list[str]:
        """Return a sentence for each missing program, with its package."""
        return [
            f"there is no program {program}: it comes with {origin}"
            for program in programs
            if not self.find(program)
        ]

    def run(
        self,
        command: Sequence[str],
        context: RunContext,
        *,
        seconds: float = COMMAND_SECONDS,
    ) -> Output:
        """Run a command with an empty standard input, and return its result.

        Raises HandlerError if it cannot run or does not end. A status other than 0 is
        not an error.
        """
        seconds = min(seconds, context.remaining())
        if seconds <= 0:
            raise context.over(f"running {' '.join(command)}")
        try:
            child = subprocess.Popen(  # noqa: S603 - what the settings name
                list(command),
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
            raise HandlerError(f"{command[0]}: {error.strerror}") from error
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
            raise HandlerError(f"{' '.join(command)}: no result within {seconds:.0f} s")
        if killed.is_set():
            raise context.over(f"running {' '.join(command)}")
        return Output(
            status=child.returncode,
            out=out[:OUTPUT_CHARACTERS_MAX],
            err=err[:OUTPUT_CHARACTERS_MAX],
        )

    def patiently(
        self,
        command: Sequence[str],
        context: RunContext,
        *,
        doing: str,
        may_pass: Callable[[Output], bool],
        seconds: float = COMMAND_SECONDS,
    ) -> Output:
        """Run a command until its target is available; raises HandlerError.

        After a temporary failure, for which `may_pass` returns True, and after a timeout,
        the command runs again until the deadline, so it must be idempotent. `doing` is
        the activity for messages: `asking systemd about web.service`.
        """
        if not self.find(command[0]):
            raise HandlerError(f"there is no program {command[0]}")
        pauses = doubling(PAUSE_FIRST_SECONDS, PAUSE_SECONDS_MAX)
        with context.doing(doing):
            while True:
                try:
                    output = self.run(command, context, seconds=seconds)
                except HandlerError as error:
                    last = error.message
                else:
                    if output.status == 0 or not may_pass(output):
                        return output
                    last = output.said
                if not context.sleep(next(pauses)):
                    raise context.over(doing, error=last)


def _kill(child: subprocess.Popen[str]) -> None:
    """Kill a command and its children; ignored if it has ended."""
    with contextlib.suppress(OSError):
        if os.name == "posix":
            os.killpg(child.pid, signal.SIGKILL)
        else:  # pragma: no cover
            child.kill()
