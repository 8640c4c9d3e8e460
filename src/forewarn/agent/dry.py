"""A dry run: decisions are made and logged, but not carried out.

A run or an approval counts as successful at once, so that the log shows the whole
course of an event. Nothing is stored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from forewarn.agent.agent import Dispatch
from forewarn.agent.core.model import (
    ApprovalResult,
    AskPeers,
    Consent,
    Finished,
    Input,
    Run,
    Send,
    StepState,
)
from forewarn.agent.core.permits import LockAnswer, LockResponse, ReleaseLock, TakeLock

logger = logging.getLogger("forewarn.agent.dry")

WOULD = "dry run: not run"
UNSENT = "dry run: the approval was not sent"


class DryRun:
    """Carries out the commands of an agent in a dry run: it only logs them."""

    def __init__(self, tell: Callable[[Input], None]) -> None:
        """Send simulated results to `tell`."""
        self._tell = tell
        self.dispatch: Dispatch = {
            Run: self.start,
            Send: self.approve,
            AskPeers: self.ask,
            TakeLock: self.ask_lock,
            ReleaseLock: self.ask_lock,
        }
        """There are no runs to stop. Requests to the alert server are real, since they
        change nothing."""

    def start(self, run: Run) -> None:
        """Log that a handler would run."""
        logger.info(
            "dry run: %s would %s now",
            run.handler,
            run.phase.value,
            extra={"fields": {"event": run.task.event_id} if run.task else {}},
        )
        self._tell(Finished(run_id=run.run_id, state=StepState.DONE, detail=WOULD))

    def approve(self, send: Send) -> None:
        """Log that an approval would be sent."""
        logger.info(
            "dry run: the approval would be sent now",
            extra={"fields": {"event": send.event_id}},
        )
        self._tell(
            ApprovalResult(event_id=send.event_id, consent=Consent.GIVEN, detail=UNSENT)
        )

    def ask(self, request: AskPeers) -> None:
        """Log that peers would be asked."""
        logger.info(
            "dry run: %s would be asked",
            ", ".join(request.names),
            extra={"fields": {"event": request.event_id}},
        )

    def ask_lock(self, request: TakeLock | ReleaseLock) -> None:
        """Log that the lock would be taken or released, and report success."""
        is_wanted = isinstance(request, TakeLock)
        state = "taken" if is_wanted else "released"
        logger.info("dry run: the lock would be %s now", state)
        answer = LockAnswer.TAKEN if is_wanted else LockAnswer.RELEASED
        self._tell(LockResponse(number=request.number, answer=answer, detail=WOULD))
