"""Lives that die at many places, without living up to each of them again.

A life continues in its own process. At each place where it should die, it is forked:
the new process dies there, starts its service on a copy of the file, continues to the
end, and reports the result. A killed service leaves its file and the log next to it,
and the fork has copies of both.
"""

import gc
import os
import pickle
import shutil
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from forewarn.store.sqlite import SqliteStore
from tests.support.forked import PATIENCE_SECONDS
from tests.support.lives import Life
from tests.support.watched import WatchedStore

Death: TypeAlias = tuple[str, int]
"""A place, and how often the life has passed it since it began."""


class Deaths:
    """The deaths of a life, and what came of each."""

    def __init__(
        self, life: Life, directory: Path, is_one: Callable[[str, int], bool]
    ) -> None:
        """Let a life die where `is_one` of a place and a count; copies are in `directory`."""
        self.came: dict[Death, Any] = {}
        """The value that each process reported before it ended."""
        self.is_dead = False
        """This is a fork, which has died or is about to."""
        self._life = life
        self._directory = directory
        self._is_one = is_one
        self._before = Counter(life.world.passed)
        self._told = -1
        self._old: object = None
        life.world.crash_at = self._at

    def passed(self, place: str) -> int:
        """Return how often the life has passed a place."""
        return self._life.world.passed[place] - self._before[place]

    def run(self, live: Callable[[], Any]) -> Any:
        """Live to the end, in this process and in all forks; return what this one tells."""
        try:
            result = live()
        except BaseException:
            if self.is_dead:
                self._tell(False, traceback.format_exc())
            raise
        if self.is_dead:
            self._tell(True, result)
        return result

    def _at(self, place: str, _count: int) -> bool:
        death = place, self.passed(place)
        if self.is_dead or not self._is_one(*death):
            return False
        copy = self._copy(death)
        ours, theirs = os.pipe()
        with warnings.catch_warnings():
            # Other threads wait for a controller, or for the time limit of the test.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            os.close(ours)
            self._begin_fork(theirs)
            return self._die(copy)
        os.close(theirs)
        with os.fdopen(ours, "rb") as pipe:
            data = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status == 0, f"{death}: the fork ended with status {status}"
        is_well, result = pickle.loads(data)
        assert is_well, f"{death}: {result}"
        self.came[death] = result
        copy.unlink(missing_ok=True)
        return False

    def _copy(self, death: Death) -> Path:
        """Copy what is durable, for the fork."""
        store = self._life.world.store
        assert isinstance(store, WatchedStore)
        assert isinstance(store.inner, SqliteStore)
        # No other thread may be at the file, here or in the fork.
        assert store.inner._checkpoints is not None
        store.inner._checkpoints.wait()
        copy = self._directory / f"{death[0]}-{death[1]}.db"
        file = store.inner._path
        for end in ("", "-wal"):
            shutil.copyfile(f"{file}{end}", f"{copy}{end}")
        return copy

    def _begin_fork(self, descriptor: int) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(round(PATIENCE_SECONDS))
        gc.disable()
        self.is_dead = True
        self._told = descriptor

    def _die(self, copy: Path) -> bool:
        """Be the fork: nothing of the store that was open is used again.

        Return whether the service ends at this place.
        """
        # Closing it would end the locks of the other process, or its log.
        self._old = self._life.world.store
        self._life.move_to(copy)
        return True

    def _tell(self, is_well: bool, result: Any) -> NoReturn:
        """Tell it, and end without the end of the tests."""
        status = 1
        try:
            with os.fdopen(self._told, "wb") as pipe:
                pickle.dump((is_well, result), pipe)
            status = 0
        finally:
            os._exit(status)
