"""Runs for the handlers of integrations: what they are about, and how long they may take."""

from pathlib import Path
from typing import Any

from forewarn.agent.core.model import Phase
from forewarn.agent.handlers.ground import Ground
from forewarn.agent.handlers.leash import Leash, leash_for
from forewarn.agent.handlers.making import memos_beside, shelf_beside
from forewarn.agent.handlers.port import Job, Worker
from forewarn.agent.integrations import catalog
from forewarn.agent.values import HandlerSettings
from forewarn.clock import SystemClock
from forewarn.instants import SECOND
from forewarn.protocol.notices import Notice
from tests.support.agent_journals import notice_of

CLOCK = SystemClock()

SOON_SECONDS = 20.0
"""For what ends by itself long before."""


def worker_of(kind: str, folder: Path, **more: Any) -> Worker:
    """Return a handler called `h`; keys that are not written are absent."""
    found = catalog.handler_kind(kind)
    assert found is not None, kind
    state = folder / "agent.db"
    ground = Ground(
        shelf=shelf_beside(state),
        environment={},
        clock=CLOCK,
        memos=memos_beside(state),
    )
    return found.make(HandlerSettings(name="h", kind=kind, more=more), ground)


def job_of(
    phase: Phase = Phase.PREPARE,
    *,
    vm: str = "web_1",
    seconds: float = SOON_SECONDS,
    notice: Notice | None = None,
) -> Job:
    """Return a run that is to end within so many seconds."""
    now = CLOCK.now()
    stop_at = now + round(seconds * SECOND)
    return Job(
        run_id="r1",
        handler="h",
        phase=phase,
        attempt=1,
        notice=notice or notice_of(),
        vm=vm,
        stop_at=stop_at,
        kill_at=stop_at,
        now=now,
    )


class CountedLeash(Leash):
    """Ends after so many pauses, none of which takes any time."""

    def __init__(self, pauses: int) -> None:
        now = CLOCK.now()
        stop_at = now + round(SOON_SECONDS * SECOND)
        super().__init__(stop_at=stop_at, kill_at=stop_at, clock=CLOCK)
        self._pauses = pauses

    def seconds(self) -> float:
        return super().seconds() if self._pauses > 0 else 0.0

    def pause(self, seconds: float) -> bool:
        self._pauses -= 1
        return self.seconds() > 0


def leash(seconds: float = SOON_SECONDS) -> Leash:
    """Return how long a run may go on."""
    return leash_for(seconds, CLOCK)


def prepare(worker: Worker, looks: int = 0, **more: Any) -> str:
    """Prepare, with so many looks at the most; return what it says."""
    held = CountedLeash(looks) if looks else leash()
    return worker.prepare(job_of(**more), held).detail


def recover(worker: Worker, looks: int = 0) -> str:
    """Recover, with so many looks at the most; return what it says."""
    held = CountedLeash(looks) if looks else leash()
    return worker.recover(job_of(Phase.RECOVER), held).detail
