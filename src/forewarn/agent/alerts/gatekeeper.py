"""Asks the alert server in a thread, one question at a time.

A server that hangs delays nothing but its own answer. Of several questions that wait,
only the last is of use.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from forewarn.agent.alerts.server import Found
from forewarn.agent.core.gate import AskGate, GateAnswer, GateSaid
from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError

logger = logging.getLogger("forewarn.agent.gate")


class Server(Protocol):
    """Who is asked."""

    def ask(self, timeout: Micros) -> Found:
        """Return which alerts are active and count; raises ForewarnError."""
        ...


class Gatekeeper:
    """Asks one server, and tells what it said."""

    def __init__(
        self,
        make: Callable[[], Server],
        *,
        tell: Callable[[GateSaid], None],
        timeout: Micros,
    ) -> None:
        """Ask nothing yet; `make` is called by the thread, `tell` by any thread."""
        self._make = make
        self._tell = tell
        self._timeout = timeout
        self._server: Server | None = None
        self._guard = threading.Lock()
        self._next: AskGate | None = None
        self._is_busy = False

    def ask(self, asked: AskGate) -> None:
        """Put a question; never waits."""
        with self._guard:
            self._next = asked
            if self._is_busy:
                return
            self._is_busy = True
        try:
            threading.Thread(target=self._run, name="gate", daemon=True).start()
        except RuntimeError as error:
            with self._guard:
                self._is_busy, self._next = False, None
            self._tell(_trouble(asked, f"no thread could be started: {error}"))

    def _run(self) -> None:
        """Put questions until none waits."""
        while True:
            with self._guard:
                asked, self._next = self._next, None
                if asked is None:
                    self._is_busy = False
                    return
            self._tell(self._answer(asked))

    def _answer(self, asked: AskGate) -> GateSaid:
        try:
            if self._server is None:
                self._server = self._make()
            found = self._server.ask(self._timeout)
        except ForewarnError as error:
            return _trouble(asked, error.message)
        except Exception:
            logger.exception("asking for alerts failed by a fault of the agent")
            return _trouble(asked, "a fault of the agent: see its log")
        return GateSaid(
            number=asked.number,
            answer=found.answer,
            alerts=found.alerts,
            detail=found.text,
        )


def _trouble(asked: AskGate, detail: str) -> GateSaid:
    return GateSaid(number=asked.number, answer=GateAnswer.TROUBLE, detail=detail)
