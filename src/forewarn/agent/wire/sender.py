"""Sends approvals beside everything else: a thread for each, so that none waits.

A crash before an answer came leaves an approval that may have been taken: it is sent
again, which does no harm (clause 3.2). It must not know what is approved, and why.
"""

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from forewarn.agent.core.model import Answered, Consent
from forewarn.instants import SECOND, Micros

logger = logging.getLogger("forewarn.agent.sender")

TIMEOUT: Micros = 5 * SECOND
"""For an approval to be answered; then it is sent again."""


class Port(Protocol):
    """Who takes approvals: `wire.endpoint.Endpoint`, or a fake of it."""

    def approve(self, event_id: str, *, timeout: Micros) -> Answered:
        """Send one approval, and return what became of it."""
        ...


class Sender:
    """Sends approvals, and tells what became of them."""

    def __init__(
        self,
        endpoint: Port,
        *,
        tell: Callable[[Answered], None],
        timeout: Micros = TIMEOUT,
    ) -> None:
        """Send nothing yet; `tell` is called in a thread of the approval's own."""
        self._endpoint = endpoint
        self._tell = tell
        self._timeout = timeout

    def approve(self, event_id: str) -> None:
        """Send the approval of one event; never waits."""
        threading.Thread(
            target=self._send, args=(event_id,), name="approval", daemon=True
        ).start()

    def _send(self, event_id: str) -> None:
        try:
            answered = self._endpoint.approve(event_id, timeout=self._timeout)
        except Exception:
            # Whatever it is: that nobody knows of the approval is the truth.
            logger.exception("an approval failed by a fault of the agent")
            answered = Answered(
                event_id=event_id,
                consent=Consent.WANTED,
                detail="a fault of the agent: see its log",
            )
        self._tell(answered)
