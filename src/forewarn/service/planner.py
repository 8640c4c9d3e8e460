"""The service's end of the processes that read large fleet files.

One process runs at a time, since each takes hundreds of MiB. It ends with its request or
with the service. `planning` is the program of the process.
"""

import asyncio
import contextlib
import pickle
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator, Iterator
from pathlib import Path

from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.file import FleetText
from forewarn.fleet.merge import Change, MergePlan
from forewarn.protocol.errors import ForewarnError, RefusedError
from forewarn.service import limits
from forewarn.service.planning import Message, Question


class PlanningError(ForewarnError):
    """A fleet file could not be read or compared; nothing was changed."""


class Planning:
    """The process for one file; its methods block."""

    def __init__(self, store: Path, text: FleetText) -> None:
        """Prepare the process for `text`."""
        self._store = store
        self._text = text
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._has_ended = False

    def begin(self) -> None:
        """Start the process and send it the text; raises PlanningError."""
        # With `-m`, its classes would not match the pickled ones.
        begin = "from forewarn.service.planning import main; main()"
        with self._guard:
            if self._has_ended:
                raise PlanningError("the service is stopping")
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own program
                    [sys.executable, "-P", "-c", begin, str(self._store.absolute())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    # A signal from the terminal must reach only the service.
                    start_new_session=True,
                )
            except OSError as error:
                raise PlanningError(
                    f"cannot start a process to read {self._text.name}: "
                    f"{error.strerror}"
                ) from error
        with self._talking() as process:
            _say(process, self._text)

    def count(self) -> dict[str, int]:
        """Return how many objects of each kind the file has."""
        [counts] = self._ask(Question.COUNT)
        assert isinstance(counts, dict), counts
        return counts

    def plan(self) -> MergePlan:
        """Return the changes that applying the file would make now.

        Raises FleetFileError, and RefusedError as `fleet_changes.plan` does.
        """
        changes: list[Change] = []
        for message in self._ask(Question.PLAN):
            assert isinstance(message, tuple), message
            changes += message
        return MergePlan(changes=tuple(changes))

    def end(self) -> None:
        """Kill the process; running calls raise PlanningError."""
        with self._guard:
            self._has_ended = True
        process = self._process
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def _ask(self, question: Question) -> Iterator[Message]:
        """Yield the parts of an answer, or raise its error."""
        with self._talking() as process:
            assert process.stdout is not None
            _say(process, question)
            while (message := pickle.load(process.stdout)) is not None:  # noqa: S301
                if isinstance(message, FleetFileError | RefusedError):
                    raise message
                if isinstance(message, ForewarnError):
                    raise PlanningError(message.message, hint=message.hint)
                yield message

    @contextlib.contextmanager
    def _talking(self) -> Generator["subprocess.Popen[bytes]"]:
        """Limit the time of an exchange; raises PlanningError if the process ends."""
        process = self._process
        assert process is not None, "it has not begun"
        bound = threading.Timer(limits.PLANNING_SECONDS_MAX, process.kill)
        bound.daemon = True
        bound.start()
        try:
            yield process
        except (EOFError, OSError, ValueError, pickle.UnpicklingError) as error:
            if self._has_ended:
                raise PlanningError("the service is stopping") from error
            raise PlanningError(
                f"the process that reads {self._text.name} has ended "
                f"(status {process.wait()})",
                hint="Check the free memory: the process takes about 3 KiB per VM.",
            ) from error
        finally:
            bound.cancel()


class Planner:
    """Starts a process for one file at a time; used on one event loop."""

    def __init__(self, store: Path) -> None:
        """Compare files with the store in the file `store`."""
        self._store = store
        self._turn = asyncio.Lock()
        self._planning: Planning | None = None

    @contextlib.asynccontextmanager
    async def planning(self, text: FleetText) -> AsyncGenerator[Planning]:
        """Start a process for the file when earlier ones have ended."""
        async with self._turn:
            planning = self._planning = Planning(self._store, text)
            try:
                await asyncio.to_thread(planning.begin)
                yield planning
            finally:
                planning.end()

    def close(self) -> None:
        """End the running process, if there is one."""
        if self._planning is not None:
            self._planning.end()


def _say(process: "subprocess.Popen[bytes]", message: object) -> None:
    assert process.stdin is not None
    pickle.dump(message, process.stdin)
    process.stdin.flush()
