"""Makes requests of the main loop in a thread, one at a time.

A target that hangs delays nothing but its own answer. Requests are carried out in their
order; of several that wait, only the last is of use. It must not know why it asks.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from forewarn.protocol.errors import ForewarnError

Target = TypeVar("Target")
Asked = TypeVar("Asked")
Said = TypeVar("Said")


class Asker(Generic[Target, Asked, Said]):
    """Asks one target, and tells what came of it."""

    name = ""
    """Of the thread and the logger."""

    def __init__(
        self, make: Callable[[], Target], tell: Callable[[Said], None]
    ) -> None:
        """Ask nothing yet; `make` is called by the thread, `tell` by any thread."""
        self._make = make
        self._tell = tell
        self._target: Target | None = None
        self._guard = threading.Lock()
        self._next: Asked | None = None
        self._is_busy = False

    def ask(self, asked: Asked) -> None:
        """Make a request; never waits."""
        with self._guard:
            self._next = asked
            if self._is_busy:
                return
            self._is_busy = True
        try:
            threading.Thread(target=self._run, name=self.name, daemon=True).start()
        except RuntimeError as error:
            with self._guard:
                self._is_busy, self._next = False, None
            self._tell(self._trouble(asked, f"no thread could be started: {error}"))

    def _run(self) -> None:
        """Make requests until none waits."""
        while True:
            with self._guard:
                asked, self._next = self._next, None
                if asked is None:
                    self._is_busy = False
                    return
            self._tell(self._said(asked))

    def _said(self, asked: Asked) -> Said:
        try:
            if self._target is None:
                self._target = self._make()
            return self._answer(self._target, asked)
        except ForewarnError as error:
            return self._trouble(asked, error.message)
        except Exception:
            logger = logging.getLogger(f"forewarn.agent.{self.name}")
            logger.exception("asking failed by a fault of the agent")
            return self._trouble(asked, "a fault of the agent: see its log")

    def _answer(self, target: Target, asked: Asked) -> Said:
        """Return what the target said; raises ForewarnError."""
        raise NotImplementedError

    def _trouble(self, asked: Asked, detail: str) -> Said:
        """Return that there is no usable answer, and why."""
        raise NotImplementedError
