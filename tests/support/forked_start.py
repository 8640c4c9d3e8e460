"""The code of a forked process; importing this loads the service and its API."""

import contextlib
import gc
import importlib
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from examples.lab.hosts import enter

from forewarn.service import api_process, api_start
from tests.support import forked_requests, fresh_stores

LOADED = (
    *("forewarn.cli.parser", "forewarn.cli.serve", "forewarn.cli.simulate"),
    *("forewarn.service.service", "forewarn.service.api_child"),
    *("forewarn.service.campaign_planning", "forewarn.service.planning"),
    "forewarn.service.simulation.process",
    *("forewarn.agent.__main__", "forewarn.agent.front", "forewarn.agent.running"),
)
"""Modules that services, their APIs, simulators and agents load at their start, and
those that services run in processes of their own."""

for _name in LOADED:
    importlib.import_module(_name)
fresh_stores.prepare()
# Objects that no collection visits stay shared by all processes.
gc.freeze()


def run(
    program: str,
    arguments: Sequence[str],
    *,
    cwd: str,
    out: str,
    err: str,
    environ: Mapping[str, str],
    space: str = "",
) -> None:
    """Run a program with `arguments`, as the shell would; does not return.

    The program is the name of a module with a function `main`, or a text of Python.
    """
    os.chdir(cwd)
    if space:
        enter(space)
    os.environ.clear()  # noqa: TID251 - a new program gets its own
    os.environ.update(environ)  # noqa: TID251
    _become(0, os.devnull, os.O_RDONLY)
    for number, file in ((1, out), (2, err)):
        _become(number, file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    if "\n" in program:
        sys.argv = ["-c", *arguments]
        exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
        sys.exit(0)
    api_process.__dict__["subprocess"] = _Starts()
    if "serve" in arguments:
        forked_requests.install()
    sys.argv = ["forewarn", *arguments]
    sys.exit(importlib.import_module(program).main(arguments))


def _become(number: int, path: str, flags: int) -> None:
    """Open a file as the descriptor `number`."""
    opened = os.open(path, flags, 0o600)
    os.dup2(opened, number)
    os.close(opened)


_HARMLESS = {"MainThread", "forewarn-log"}
"""Threads of a service at its fork: nothing that the log holds is used afterwards."""


class _Starts:
    """The part of `subprocess` that a service uses: its first API process is a fork of
    it.

    Later ones are new processes, since a service with threads cannot be forked safely.
    """

    DEVNULL = subprocess.DEVNULL
    PIPE = subprocess.PIPE
    TimeoutExpired = subprocess.TimeoutExpired

    def __init__(self) -> None:
        self._has_forked = False

    def Popen(  # noqa: N802 - the name of what it replaces
        self, arguments: Sequence[str], *, pass_fds: Sequence[int], **more: Any
    ) -> "subprocess.Popen[Any] | _ForkedApi":
        others = {thread.name for thread in threading.enumerate()} - _HARMLESS
        if self._has_forked or others:
            return subprocess.Popen(arguments, pass_fds=pass_fds, **more)
        self._has_forked = True
        return _ForkedApi(pass_fds)


class _ForkedApi:
    """The process of the operator API, as a fork of its service."""

    def __init__(self, numbers: Sequence[int]) -> None:
        theirs, ours = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _serve_operators(theirs, numbers)
        os.close(theirs)
        self.stdin: IO[bytes] = os.fdopen(ours, "wb")
        self.returncode: int | None = None
        self._ended = os.pidfd_open(self.pid)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status; one thread at a time calls it."""
        if self.returncode is None:
            if not select.select([self._ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("the operator API", timeout or 0)
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            os.close(self._ended)
        return self.returncode

    def kill(self) -> None:
        """End it without a warning, if it has not ended."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


def _serve_operators(stdin: int, numbers: Sequence[int]) -> NoReturn:
    """Serve in the new process as `api_start` does in a process of its own."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.dup2(stdin, 0)
        _become(1, os.devnull, os.O_WRONLY)
        _close_all_but({0, 1, 2, *numbers, *forked_requests.descriptors()})
        # Another thread may have held the lock of the old one.
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        logging.getLogger().handlers.clear()
        sys.argv = ["-c", *map(str, numbers)]
        api_start.main()
    except BaseException:  # noqa: BLE001 - no exception may return to the service
        traceback.print_exc()
    finally:
        os._exit(1)


def _close_all_but(kept_open: set[int]) -> None:
    """Close the descriptors of the service, as a new program would."""
    opened = {int(path.name) for path in Path("/proc/self/fd").iterdir()}
    for number in opened - kept_open:
        with contextlib.suppress(OSError):  # the one that listed them
            os.close(number)
