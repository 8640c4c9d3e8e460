"""One worker: its process, which is started again when it ends, and its pipes.

The worker is a child of the service. It ends when its standard input does, so it does not
outlive a killed service.
"""

import json
import logging
import os
import select
import subprocess
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from forewarn.clock import Clock
from forewarn.drivers import programs
from forewarn.drivers.programs import Words
from forewarn.drivers.restarts import keep_running
from forewarn.texts import readable

SEND_SECONDS = 5.0
"""Maximum seconds to write a line: a worker only passes its lines on, so one that does not
read them hangs, and is started again."""

STOP_SECONDS = 5.0
"""Maximum seconds for the thread to end: a killed process can hang in a system call."""

LINE_BYTES_MAX = 16 * 1024 * 1024
"""Maximum bytes of a line: more than a hundred bytes for each VM of a fleet."""

TEXT_CHARACTERS_MAX = 300
"""Maximum characters of a worker's last words that are kept: a sentence or two."""

logger = logging.getLogger("forewarn.drivers")

Line = Mapping[str, Any]


class WorkerProcess:
    """The process for some hosts."""

    def __init__(
        self,
        command: Words,
        *,
        clock: Clock,
        on_line: Callable[[Line], None],
        ended: Callable[["WorkerProcess"], None],
    ) -> None:
        """Start nothing yet; `on_line` gets each line, `ended` each end of the process."""
        self.hosts: tuple[str, ...] = ()
        self.trouble = ""
        """Why it does not run; empty: it does, as far as is known."""
        self._words = command
        self._clock = clock
        self._on_line = on_line
        self._ended = ended
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = threading.Event()
        self._has_begun = threading.Event()
        self._thread = threading.Thread(
            target=self._main, name="forewarn-libvirt", daemon=True
        )

    def start(self) -> None:
        """Start the thread; return when the process has begun, or could not."""
        self._thread.start()
        # Until then, questions are refused.
        self._has_begun.wait(SEND_SECONDS)

    def watch(self, hosts: Collection[str]) -> None:
        """Watch these hosts from now on, instead of the earlier ones."""
        self.hosts = tuple(hosts)
        self.send({"hosts": list(self.hosts)})

    def send(self, line: Line) -> bool:
        """Send a line; return whether the process has got it."""
        with self._lock:
            process = self._process
            if process is None or process.stdin is None:
                return False
            if _write(process.stdin.fileno(), json.dumps(line).encode() + b"\n"):
                return True
            # It hangs or has ended. Its thread sees the end.
            programs.kill(process)
            return False

    def stop(self) -> None:
        """End the process and the thread."""
        self._is_over.set()
        with self._lock:
            if self._process is not None:
                programs.kill(self._process)
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    # The thread

    def _main(self) -> None:
        def run() -> str:
            why = self._run()
            self._ended(self)
            return why

        def ended(why: str, wait: float) -> None:
            self.trouble = why
            logger.warning("libvirt: %s; it is started again in %g s", why, wait)

        keep_running(run, until=self._is_over, clock=self._clock, ended=ended)

    def _run(self) -> str:
        """Run the process to its end; return how it ended."""
        try:
            process = self._begin()
        except OSError as error:
            return f"{self._words[0]}: {error.strerror}"
        finally:
            self._has_begun.set()
        if process is None:
            return "the driver was closed"
        output = self._read(process)
        with self._lock:
            self._process = None
        programs.kill(process)
        status = process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        return f"a worker ended with status {status}{output and ': '}{output}"

    def _begin(self) -> "subprocess.Popen[bytes] | None":
        with self._lock:
            if self._is_over.is_set():
                return None
            process = programs.begin(
                self._words, stdout=subprocess.PIPE, stdin=subprocess.PIPE
            )
            assert process.stdin is not None
            os.set_blocking(process.stdin.fileno(), False)
            # Before any question, which the worker would not answer without hosts.
            hosts = json.dumps({"hosts": list(self.hosts)})
            _write(process.stdin.fileno(), hosts.encode() + b"\n")
            self._process = process
            return process

    def _read(self, process: "subprocess.Popen[bytes]") -> str:
        """Take the lines until their end; return the last that is not a message."""
        last_line = ""
        assert process.stdout is not None
        while line := process.stdout.readline(LINE_BYTES_MAX):
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            if isinstance(message, dict):
                self.trouble = ""
                self._on_line(cast("Line", message))
            else:
                last_line = readable(line.decode("utf-8", "replace"))[
                    :TEXT_CHARACTERS_MAX
                ]
        return last_line


def _write(file: int, data: bytes) -> bool:
    """Write to a pipe that does not block; return whether all was written in time."""
    left = memoryview(data)
    while left:
        _, ready, _ = select.select((), (file,), (), SEND_SECONDS)
        if not ready:
            return False
        try:
            left = left[os.write(file, left) :]
        except BlockingIOError:
            continue
        except OSError:
            return False
    return True
