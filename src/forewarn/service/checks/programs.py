"""Run the program of a check: bounded in time, in output, and in what it leaves behind.

The program has its own session, which is killed when the program ends or reaches its
timeout, so that no child of it remains. It has the environment of a driver's programs. Its
output is read and discarded except for its end.
"""

import contextlib
import os
import select
import signal
import subprocess
import threading
from collections.abc import Sequence

from forewarn.checks.judging import judge_exit
from forewarn.checks.model import Judged, unknown
from forewarn.clock import Clock
from forewarn.drivers.programs import environment
from forewarn.service.checks import limits
from forewarn.texts import readable

_PIECE_BYTES = 65_536
_POLL_SECONDS = 0.05
"""Time between two checks whether the program has ended; a child of it can keep its
output open."""


class Programs:
    """Runs programs in the calling threads; `stop` ends those that are running."""

    def __init__(self, clock: Clock) -> None:
        """Measure their time by `clock`."""
        self._clock = clock
        self._lock = threading.Lock()
        self._running: set[int] = set()
        self._is_stopped = False

    def run(self, command: Sequence[str], *, seconds: float) -> Judged:
        """Run a program and judge its exit status; every failure is unknown."""
        until = self._clock.monotonic() + seconds
        with self._lock:
            if self._is_stopped:
                return unknown("the service is stopping")
            try:
                child = subprocess.Popen(  # noqa: S603 - an operator's settings name it
                    list(command),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    # The service's own variables can have secrets.
                    env=environment(),
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                return unknown(f"{command[0]} cannot be run: {error.strerror}")
            self._running.add(child.pid)
        try:
            output = self._read(child, until)
        finally:
            self._end(child)
        if output is None:
            return unknown(f"{command[0]} did not end within {seconds:g} s")
        return judge_exit(child.returncode, _last_line(output))

    def stop(self) -> None:
        """Kill the running programs, and run no others."""
        with self._lock:
            self._is_stopped = True
            for pid in self._running:
                _kill(pid)

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        """Kill what is left of the program's session, and reap the program."""
        with self._lock:
            # Its process group can have children that outlive it.
            self._running.discard(child.pid)
            _kill(child.pid)
        assert child.stdout is not None
        child.stdout.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(limits.REAP_SECONDS)

    def _read(self, child: subprocess.Popen[bytes], until: float) -> bytes | None:
        """Return the end of the output when the program has ended; None: it has not."""
        assert child.stdout is not None
        pipe, output, is_open = child.stdout.fileno(), b"", True
        while (left := until - self._clock.monotonic()) > 0:
            pause = min(left, _POLL_SECONDS)
            if not is_open:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(pause)
            elif select.select([pipe], [], [], pause)[0]:
                piece = os.read(pipe, _PIECE_BYTES)
                is_open = bool(piece)
                output = (output + piece)[-limits.OUTPUT_BYTES_KEPT :]
                continue
            if child.poll() is not None:
                return output
        return None


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _last_line(output: bytes) -> str:
    lines = reversed(output.decode("utf-8", "replace").split("\n"))
    return next((text for line in lines if (text := readable(line))), "")
