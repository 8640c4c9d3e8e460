"""The operator's `watch` program: a stream of sightings, one JSON object on each line.

The program runs as long as the driver is open. If it ends, it is started again after a
delay that grows. When it starts, it must print the state of each VM that does not run, so
that nothing is lost in between. It is a child of the service and gets SIGKILL at its end.
"""

import json
import logging
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from forewarn.clock import Clock
from forewarn.drivers import programs
from forewarn.drivers.port import Sighting, StopCause
from forewarn.drivers.restarts import keep_running
from forewarn.fleet.validators import name_fault
from forewarn.instants import Micros
from forewarn.texts import readable

LINE_BYTES_MAX = 4096
"""Maximum bytes of a line: the names of a VM and a host, and a sentence."""

TEXT_CHARACTERS_MAX = 200
"""Maximum characters of `text` that are kept: a line or two."""

WAITING_MAX = 200_000
"""Maximum number of VMs with a sighting that control has not taken: twice the VMs of the
largest fleet. Control takes them within a second, unless the store is locked."""

STOP_SECONDS = 5.0
"""Maximum seconds for the thread to end: a killed program can hang in a system call."""

logger = logging.getLogger("forewarn.drivers")


def parse_sighting(line: bytes, *, now: Micros) -> Sighting:
    """Return the sighting of a line; raises ValueError."""
    note = json.loads(line)
    if not isinstance(note, dict):
        raise ValueError("must be a JSON object")  # noqa: TRY004 - of the program
    return sighting_of(cast("dict[str, Any]", note), now=now)


def sighting_of(line: Mapping[str, Any], *, now: Micros) -> Sighting:
    """Return the sighting of a JSON object; raises ValueError."""
    running, text = line.get("running"), line.get("text", "")
    if not isinstance(running, bool):
        raise ValueError('"running" must be true or false')  # noqa: TRY004
    if not isinstance(text, str):
        raise ValueError('"text" must be a string')  # noqa: TRY004
    text = readable(text)
    host = line.get("host")
    return Sighting(
        vm=_name(line, "vm"),
        running=running,
        at=now,
        host="" if host is None else _name(line, "host"),
        cause=StopCause(line.get("cause", StopCause.FAILED.value)),
        text=text[:TEXT_CHARACTERS_MAX],
    )


def _name(line: Mapping[str, Any], key: str) -> str:
    name = line.get(key)
    if not isinstance(name, str) or name_fault(name):
        raise ValueError(f'"{key}" must be the name of a {key} in the fleet')
    return name


class Watch:
    """Runs the program in a separate thread, and keeps the newest sighting of each VM."""

    def __init__(
        self, command: Sequence[str], *, clock: Clock, wake: Callable[[], None]
    ) -> None:
        """Start nothing yet; `wake` is called when there are new sightings."""
        self._words = tuple(command)
        self._clock = clock
        self._wake = wake
        self._lock = threading.Lock()
        self._waiting: dict[str, Sighting] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(
            target=self._main, name="forewarn-watch", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def take(self) -> list[Sighting]:
        """Return the new sightings."""
        with self._lock:
            taken = list(self._waiting.values())
            self._waiting.clear()
        return taken

    def stop(self) -> None:
        """End the program and the thread."""
        with self._lock:
            self._is_over.set()
            if self._process is not None:
                programs.kill(self._process)
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    # The thread

    def _main(self) -> None:
        def ended(why: str, wait: float) -> None:
            logger.warning("watch: %s; it is started again in %g s", why, wait)

        keep_running(self._run, until=self._is_over, clock=self._clock, ended=ended)

    def _run(self) -> str:
        """Run the program to its end; return how it ended."""
        try:
            process = self._begin()
        except OSError as error:
            return f"{self._words[0]}: {error.strerror}"
        if process is None:
            return "the driver was closed"
        assert process.stdout is not None
        with process.stdout as pipe:
            has_warned = False
            while line := pipe.readline(LINE_BYTES_MAX):
                try:
                    self._keep(parse_sighting(line, now=self._clock.now()))
                except ValueError as error:
                    # One line of a run is enough to find the mistake.
                    if not has_warned:
                        logger.warning("watch: invalid line %r: %s", line[:200], error)
                    has_warned = True
        # It has closed its output, so it is of no more use.
        programs.kill(process)
        status = process.wait()
        return f"the program ended with status {status}"

    def _begin(self) -> "subprocess.Popen[bytes] | None":
        with self._lock:
            if self._is_over.is_set():
                return None
            self._process = programs.begin(self._words, stdout=subprocess.PIPE)
            return self._process

    def _keep(self, sighting: Sighting) -> None:
        with self._lock:
            # A repeated VM goes to the end, so that the order is that of the lines.
            is_known = self._waiting.pop(sighting.vm, None) is not None
            if not is_known and len(self._waiting) >= WAITING_MAX:
                raise ValueError(f"more than {WAITING_MAX} VMs wait")
            self._waiting[sighting.vm] = sighting
        self._wake()
