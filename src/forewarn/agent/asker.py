"""Send requests of the main loop to one target in threads, usually one at a time.

A target that hangs delays only its own answers. Requests are sent in their order. If
several requests with the same key wait, only the last one is sent. This module does not
know the purpose of a request.
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
    """Send requests to one target, and report its answers."""

    name = ""
    """The name of the threads and of the logger."""
    threads_max = 1
    """Maximum number of requests that are sent in parallel."""

    def __init__(
        self, make: Callable[[], Target], tell: Callable[[Said], None]
    ) -> None:
        """Send nothing yet; the thread calls `make`, and any thread calls `tell`."""
        self._make = make
        self._tell = tell
        self._target: Target | None = None
        self._guard = threading.Lock()
        self._waiting: dict[str, Asked] = {}
        """The requests that wait for a thread, in their order."""
        self._threads = 0

    def ask(self, asked: Asked) -> None:
        """Send a request; never waits."""
        key = self._key(asked)
        with self._guard:
            self._waiting[key] = asked
            if self._threads >= self.threads_max:
                return
            self._threads += 1
        try:
            threading.Thread(target=self._run, name=self.name, daemon=True).start()
        except RuntimeError as error:
            with self._guard:
                self._threads -= 1
                self._waiting.pop(key, None)
            self._tell(self._trouble(asked, f"cannot start a thread: {error}"))

    def _run(self) -> None:
        """Send requests until none waits."""
        while True:
            with self._guard:
                if not self._waiting:
                    self._threads -= 1
                    return
                asked = self._waiting.pop(next(iter(self._waiting)))
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
            logger.exception("a request failed because of a bug in the agent")
            return self._trouble(asked, "a bug in the agent: see its log")

    def _key(self, _asked: Asked, /) -> str:
        """Return the key of a request; a later one with the same key replaces it."""
        return ""

    def _answer(self, target: Target, asked: Asked) -> Said:
        """Return the answer of the target; raises ForewarnError."""
        raise NotImplementedError

    def _trouble(self, asked: Asked, detail: str) -> Said:
        """Return an answer which says that there is no usable one, and why."""
        raise NotImplementedError
