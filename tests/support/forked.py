"""Processes of forewarn that are forked from one which has loaded it.

Loading takes most of the start of a service and of its API. A test of anything but the
start itself needs a process, which can be killed and has its own files, but not another
load. One server of each test process loads all modules once; each start is a fork of it.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PATIENCE_SECONDS = 120.0
"""Timeout for anything that surely happens, such as the start of a process: on a
machine under load, a start that usually takes half a second can take half a minute."""

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.support.forked_start"])


CLI, AGENT = "forewarn.cli", "forewarn.agent.__main__"
"""The modules of the commands `forewarn` and `python -m forewarn.agent`."""

ON_A_SET_CLOCK = "tests.support.stepped_clock"
"""The module of `forewarn` on a clock that its first argument, a file, sets."""


class Forked:
    """A process of a program; it has the interface of `Popen`."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        log: Path,
        program: str = CLI,
        environ: Mapping[str, str] | None = None,
        err: Path | None = None,
        space: str = "",
    ) -> None:
        """Run the module `program`, or a text of Python, with `arguments` in `cwd`.

        Its output is added to `log`, and its errors to `err`, if that is given. A
        `space` is the network namespace that it runs in.
        """
        log.touch()
        environ = os.environ if environ is None else environ  # noqa: TID251
        self._process = _CONTEXT.Process(
            target=_run,
            args=(program, [*arguments]),
            kwargs={
                "cwd": str(cwd),
                "out": str(log.resolve()),
                "err": str((err or log).resolve()),
                "environ": dict(environ),
                "space": space,
            },
            # A process that is left over ends with the tests.
            daemon=True,
        )
        self._process.start()

    @property
    def pid(self) -> int:
        """Return the ID of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status when it has ended; raises TimeoutExpired."""
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired("forewarn", timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, if it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it without a warning."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)


Program = Forked | subprocess.Popen[bytes]


def started(
    arguments: Sequence[str],
    *,
    cwd: Path,
    log: Path,
    under: Sequence[str] = (),
    space: str = "",
    clock: str = "",
) -> Program:
    """Run `forewarn` with `arguments`; a command `under` which it runs needs a new load.

    The file `clock` sets its wall clock, if there is one.
    """
    if under:
        return loaded(arguments, cwd=cwd, log=log, under=under)
    if clock:
        arguments = [clock, *arguments]
        return Forked(arguments, cwd=cwd, log=log, program=ON_A_SET_CLOCK, space=space)
    return Forked(arguments, cwd=cwd, log=log, space=space)


def loaded(
    arguments: Sequence[str], *, cwd: Path, log: Path, under: Sequence[str] = ()
) -> Program:
    """Run `forewarn` as a new program, which loads its modules."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [*under, sys.executable, "-m", "forewarn", *arguments],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def ran(
    arguments: Sequence[str],
    *,
    cwd: Path,
    program: str = CLI,
    environ: Mapping[str, str] | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end; return what it printed."""
    with TemporaryDirectory() as directory:
        out, err = Path(directory, "out"), Path(directory, "err")
        process = Forked(
            arguments, cwd=cwd, log=out, err=err, program=program, environ=environ
        )
        try:
            status = process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()
        return subprocess.CompletedProcess(
            [program, *arguments],
            status,
            out.read_text(encoding="utf-8"),
            err.read_text(encoding="utf-8"),
        )


def _run(*arguments: Any, **more: Any) -> None:
    """Run the program in the new process, where its modules are loaded."""
    from tests.support import forked_start  # noqa: PLC0415 - loaded in the server only

    forked_start.run(*arguments, **more)
