"""The processes in which a forked service plans, as forks with loaded modules.

A service and its API have threads when they plan, so they cannot be forked safely. Therefore the
service forks a helper while it has none. The helper waits for requests, and forks a
process for each.
"""

import contextlib
import importlib
import json
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import IO, NoReturn, Self

from forewarn.service import planning_process
from forewarn.store.snapshot import Source

_REQUEST_BYTES_MAX = 8_192
_NUMBER_BYTES = 4


class Helper:
    """The end of the service: it has the interface of `planning_process.begin`."""

    def __init__(self) -> None:
        """Fork the helper; it ends with this process, and is not its child."""
        self._guard = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        between = os.fork()
        if between == 0:
            try:
                if os.fork() == 0:
                    self._socket.close()
                    _help(theirs)
            finally:
                os._exit(0)
        os.waitpid(between, 0)
        theirs.close()

    @property
    def descriptor(self) -> int:
        """Return the descriptor by which the helper is asked."""
        return self._socket.fileno()

    def begin(self, module: str, store: Source) -> "ForkedRequest":
        """Start the function `main` of a module as a process, with pipes to it."""
        request = json.dumps([module, planning_process.command(module, store)[-1]])
        (stdin, to), (of, stdout), (status, theirs) = (os.pipe() for _ in range(3))
        with self._guard:
            socket.send_fds(self._socket, [request.encode()], [stdin, stdout, theirs])
        _close((stdin, stdout, theirs))
        return ForkedRequest(to, of, status)


class ForkedRequest:
    """A process that the helper has forked, with what its user needs of `Popen`."""

    def __init__(self, to: int, of: int, status: int) -> None:
        """Talk by the descriptors of three pipes: to it, from it, and about it."""
        self.stdin: IO[bytes] = os.fdopen(to, "wb")
        self.stdout: IO[bytes] = os.fdopen(of, "rb")
        self._status: IO[bytes] = os.fdopen(status, "rb")
        self._guard = threading.Lock()
        self.pid = self._number()
        self.returncode: int | None = None

    def __enter__(self) -> Self:
        """Begin to talk."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the pipes, and wait for its end."""
        for pipe in (self.stdout, self.stdin):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self.wait()

    def wait(self) -> int:
        """Return the exit status when it has ended, negative for a signal."""
        with self._guard:
            if self.returncode is None:
                self.returncode = self._number()
                self._status.close()
            return self.returncode

    def kill(self) -> None:
        """End it without a warning, if it has not ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _number(self) -> int:
        data = self._status.read(_NUMBER_BYTES)
        assert len(data) == _NUMBER_BYTES, "the helper has ended"
        return int.from_bytes(data, "big", signed=True)


def _help(asked: socket.socket) -> NoReturn:
    """Fork a process for each request, and tell its ID and its exit status."""
    os.setsid()
    while True:
        data, numbers, _, _ = socket.recv_fds(asked, _REQUEST_BYTES_MAX, 3)
        if not data:
            os._exit(0)
        stdin, stdout, status = numbers
        # One process in between waits for each, so that several can run.
        if os.fork() == 0:
            asked.close()
            module, store = json.loads(data)
            _watch(module, store, stdin, stdout, status)
        _close(numbers)
        _reap()


def _reap() -> None:
    """Forget the processes in between that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _watch(module: str, store: str, stdin: int, stdout: int, status: int) -> NoReturn:
    process = os.fork()
    if process == 0:
        _run(module, store, stdin, stdout)
    _close((stdin, stdout))
    os.write(status, process.to_bytes(_NUMBER_BYTES, "big"))
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        os.write(status, code.to_bytes(_NUMBER_BYTES, "big", signed=True))
    os._exit(0)


def _run(module: str, store: str, stdin: int, stdout: int) -> NoReturn:
    """Run `main` of a module, as a new program would."""
    code = 1
    try:
        os.setsid()
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        _close(int(path.name) for path in Path("/proc/self/fd").iterdir())
        sys.stdin, sys.stdout = os.fdopen(0, "r"), os.fdopen(1, "w")
        sys.argv = ["-c", store]
        importlib.import_module(module).main()
        sys.stdout.flush()
        code = 0
    except BaseException:  # noqa: BLE001 - no exception may return to the helper
        traceback.print_exc()
    finally:
        os._exit(code)


def _close(numbers: Iterable[int]) -> None:
    for number in [*numbers]:
        if number > 2:  # what every program has
            with contextlib.suppress(OSError):
                os.close(number)


def install() -> None:
    """Let this process, which has no other thread, plan with a helper."""
    assert threading.active_count() == 1, threading.enumerate()
    helper = Helper()
    _kept.add(helper.descriptor)
    setattr(planning_process, "begin", helper.begin)  # noqa: B010 - for types


_kept: set[int] = set()


def descriptors() -> frozenset[int]:
    """Return the descriptors that a fork of this process needs to plan, too."""
    return frozenset(_kept)
