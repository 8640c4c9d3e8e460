"""Send approvals in separate threads, so that nothing waits for them.

After a crash before the answer, it is unknown whether the approval was accepted. It is
sent again, which is harmless (clause 3.2). This module does not know why an event is
approved.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from forewarn.agent.core.model import Answered, Consent, Send
from forewarn.instants import SECOND, Micros

logger = logging.getLogger("forewarn.agent.sender")

TIMEOUT: Micros = 5 * SECOND
"""Timeout for an approval, which is then sent again."""

THREADS_MAX = 8
"""Maximum number of parallel approvals: a document may have hundreds of events, and the
endpoint may hang."""


class Port(Protocol):
    """The receiver of approvals: `wire.endpoint.Endpoint`, or a fake of it."""

    def approve(self, event_id: str, *, timeout: Micros) -> Answered:
        """Send one approval, and return its result."""
        ...


class Sender:
    """Sends approvals, and reports their results."""

    def __init__(
        self,
        endpoint: Port,
        *,
        tell: Callable[[Answered], None],
        timeout: Micros = TIMEOUT,
    ) -> None:
        """Store the parameters; `tell` is called from any thread."""
        self._endpoint = endpoint
        self._tell = tell
        self._timeout = timeout
        self._lock = threading.Lock()
        self._waiting: dict[str, None] = {}
        """Events whose approval waits for a thread, in their order."""
        self._threads = 0

    def approve(self, send: Send) -> None:
        """Send the approval of one event; never waits."""
        event_id = send.event_id
        with self._lock:
            if event_id in self._waiting:
                # The approval is already waiting.
                return
            self._waiting[event_id] = None
            if self._threads >= THREADS_MAX:
                return
            self._threads += 1
        try:
            threading.Thread(target=self._run, name="approval", daemon=True).start()
        except RuntimeError as error:
            with self._lock:
                self._threads -= 1
                self._waiting.pop(event_id, None)
            self._tell(_unsent(event_id, f"no thread could be started: {error}"))

    def _run(self) -> None:
        """Send approvals until none is waiting."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                event_id = next(iter(self._waiting))
                del self._waiting[event_id]
            self._send(event_id)

    def _send(self, event_id: str) -> None:
        try:
            answered = self._endpoint.approve(event_id, timeout=self._timeout)
        except Exception:
            # Whatever happened, the result of the approval is unknown.
            logger.exception("an approval failed because of a bug in the agent")
            answered = _unsent(event_id, "a bug in the agent; see its log")
        self._tell(answered)


def _unsent(event_id: str, detail: str) -> Answered:
    return Answered(event_id=event_id, consent=Consent.WANTED, detail=detail)
