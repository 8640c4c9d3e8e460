"""Run the program that prints an inventory.

The program gets nothing on standard input and the environment of the driver's programs,
so that it finds the same in the service and on the command line. Its output counts only
if it ends with status 0 before its deadline. Otherwise, a part of an inventory could be
taken for the whole.
"""

import contextlib
import os
import selectors
import subprocess
import threading

from forewarn.clock import Clock
from forewarn.drivers.port import DriverError
from forewarn.drivers.programs import KILL_SECONDS, Words, environment, kill
from forewarn.texts import readable

OUTPUT_BYTES_MAX = 64 << 20
"""Maximum bytes of an inventory: those of a fleet file. 6,000 VMs have 2 MiB."""

ERROR_BYTES_MAX = 2_000
"""Bytes of the end of standard error that are kept for the message: its last lines."""

_READ_BYTES = 1 << 16
"""Bytes of one read: those of a pipe."""


class Discovery:
    """One run of the program; `end` may be called by another thread."""

    def __init__(self, command: Words, *, seconds: float, clock: Clock) -> None:
        """Prepare to run `command` for at most `seconds`."""
        self._words = command
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._has_ended = False

    @property
    def name(self) -> str:
        """Return the program, for messages."""
        return self._words[0]

    def run(self) -> str:
        """Return the output of the program; raises DriverError. It blocks."""
        with self._lock:
            if self._has_ended:
                raise DriverError(f"{self.name} was not run: the service is stopping")
            try:
                process = self._process = subprocess.Popen(  # noqa: S603 - configured
                    self._words,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=environment(),
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                raise DriverError(
                    f"{self.name} cannot be run: {error.strerror}"
                ) from error
        try:
            output, errors = self._read(process)
        except BaseException:
            kill(process)
            # A program that waits for a dead disk may never end, and is abandoned.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(KILL_SECONDS)
            raise
        finally:
            for pipe in (process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()
        if process.returncode:
            raise DriverError(
                f"{self.name} failed with status {process.returncode}{_quoted(errors)}"
            )
        try:
            return output.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DriverError(
                f"the output of {self.name} is not UTF-8 at byte {error.start + 1}"
            ) from error

    def end(self) -> None:
        """Kill the program if it runs, and do not start it."""
        with self._lock:
            self._has_ended = True
            if self._process is not None and self._process.returncode is None:
                kill(self._process)

    def _read(self, process: "subprocess.Popen[bytes]") -> tuple[bytes, bytes]:
        """Return the whole output and the last of the errors of a program that ended."""
        output, errors = bytearray(), bytearray()
        deadline = self._clock.monotonic() + self._seconds
        late = DriverError(f"{self.name} did not end in {self._seconds:g} s")
        with selectors.DefaultSelector() as waiting:
            for pipe, into in ((process.stdout, output), (process.stderr, errors)):
                assert pipe is not None
                waiting.register(pipe, selectors.EVENT_READ, into)
            while waiting.get_map():
                left = deadline - self._clock.monotonic()
                ready = waiting.select(left) if left > 0 else []
                if not ready:
                    raise late
                for key, _ in ready:
                    data = os.read(key.fd, _READ_BYTES)
                    if not data:
                        waiting.unregister(key.fileobj)
                    key.data.extend(data)
                if len(output) > OUTPUT_BYTES_MAX:
                    raise DriverError(
                        f"{self.name} printed more than {OUTPUT_BYTES_MAX >> 20} MiB"
                    )
                del errors[:-ERROR_BYTES_MAX]
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - self._clock.monotonic()))
            return bytes(output), bytes(errors)
        raise late


def _quoted(errors: bytes) -> str:
    """Return the last line of the errors for a message."""
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return f": {readable(lines[-1])}" if lines else ""
