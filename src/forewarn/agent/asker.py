"""Send requests of the main loop to one target in threads, usually one at a time.

A target that hangs delays only its own responses. Requests are sent in their order. If
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
Request = TypeVar("Request")
Response = TypeVar("Response")


class Asker(Generic[Target, Request, Response]):
    """Send requests to one target, and report its responses."""

    name = ""
    """The name of the threads and of the logger."""
    threads_max = 1
    """Maximum number of requests that are sent in parallel."""

    def __init__(
        self, make: Callable[[], Target], report: Callable[[Response], None]
    ) -> None:
        """Send nothing yet; the thread calls `make`, and any thread calls `report`."""
        self._make = make
        self._report = report
        self._target: Target | None = None
        self._lock = threading.Lock()
        self._waiting: dict[str, Request] = {}
        """The requests that wait for a thread, in their order."""
        self._threads = 0

    def ask(self, request: Request) -> None:
        """Send a request; never waits."""
        key = self._key(request)
        with self._lock:
            self._waiting[key] = request
            if self._threads >= self.threads_max:
                return
            self._threads += 1
        try:
            threading.Thread(target=self._run, name=self.name, daemon=True).start()
        except RuntimeError as error:
            with self._lock:
                self._threads -= 1
                self._waiting.pop(key, None)
            self._report(self._failure(request, f"cannot start a thread: {error}"))

    def _run(self) -> None:
        """Send requests until none waits."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                request = self._waiting.pop(next(iter(self._waiting)))
            self._report(self._response(request))

    def _response(self, request: Request) -> Response:
        try:
            if self._target is None:
                self._target = self._make()
            return self._answer(self._target, request)
        except ForewarnError as error:
            return self._failure(request, error.message)
        except Exception:
            logger = logging.getLogger(f"forewarn.agent.{self.name}")
            logger.exception("a request failed because of a bug in the agent")
            return self._failure(request, "a bug in the agent: see its log")

    def _key(self, _request: Request, /) -> str:
        """Return the key of a request; a later one with the same key replaces it."""
        return ""

    def _answer(self, target: Target, request: Request) -> Response:
        """Return the response of the target; raises ForewarnError."""
        raise NotImplementedError

    def _failure(self, request: Request, detail: str) -> Response:
        """Return the response for a request that got no usable answer, for this reason."""
        raise NotImplementedError
