"""Runs for handlers: what they are about, and how long they may take.

Run contexts are on the machine's clock, or end after so many pauses, or turn a clock of
their own, so that waiting takes no time.
"""

from pathlib import Path
from typing import Any

from forewarn.agent.core.model import Phase
from forewarn.agent.handlers.making import memos_beside, records_next_to
from forewarn.agent.handlers.port import Ground, Job, Worker
from forewarn.agent.handlers.run_context import RunContext, context_for
from forewarn.agent.integrations import registry
from forewarn.agent.settings_model import HandlerSettings
from forewarn.clock import Clock, SystemClock, VirtualClock
from forewarn.instants import SECOND
from forewarn.protocol.notices import Notice
from tests.support.agent_journals import START, notice_of

CLOCK = SystemClock()

NOTICE = notice_of()

SOON_SECONDS = 20.0
"""Timeout for work that ends by itself long before."""

PATIENT_SECONDS = 60.0
"""Seconds of a run context that does not end during the test."""


def worker_of(kind: str, directory: Path, **more: Any) -> Worker:
    """Return a handler called `h`; keys that are not written are absent."""
    handler_kind = registry.handler_kind(kind)
    assert handler_kind is not None, kind
    state = directory / "agent.db"
    ground = Ground(
        records=records_next_to(state),
        environment={},
        clock=CLOCK,
        memos=memos_beside(state),
    )
    return handler_kind.make(HandlerSettings(name="h", kind=kind, more=more), ground)


def job_of(
    phase: Phase = Phase.PREPARE,
    *,
    handler: str = "h",
    vm: str = "web_1",
    seconds: float = SOON_SECONDS,
    notice: Notice | None = NOTICE,
    clock: Clock = CLOCK,
) -> Job:
    """Return a run that begins now and is to end within so many seconds."""
    now = clock.now()
    stop_at = now + round(seconds * SECOND)
    return Job(
        run_id=f"run.{phase.value}",
        handler=handler,
        phase=phase,
        attempt=1,
        notice=notice,
        vm=vm,
        stop_at=stop_at,
        now=now,
    )


class CountedContext(RunContext):
    """Ends after so many pauses, none of which takes any time."""

    def __init__(self, pauses: int) -> None:
        now = CLOCK.now()
        stop_at = now + round(SOON_SECONDS * SECOND)
        super().__init__(stop_at=stop_at, kill_at=stop_at, clock=CLOCK)
        self._pauses = pauses

    def remaining(self) -> float:
        return super().remaining() if self._pauses > 0 else 0.0

    def sleep(self, seconds: float) -> bool:
        self._pauses -= 1
        return self.remaining() > 0


class VirtualContext(RunContext):
    """Each pause turns its clock, and nothing else does.

    Commands and requests take what they take, and none of it counts: where a deadline
    is met, it is met between two looks.
    """

    def __init__(self, seconds: float, clock: VirtualClock | None = None) -> None:
        self._turned = clock or VirtualClock(START)
        end = self._turned.now() + round(seconds * SECOND)
        super().__init__(stop_at=end, kill_at=end, clock=self._turned)

    def sleep(self, seconds: float) -> bool:
        if self._is_stopped:
            return False
        waited = round(min(seconds, self.remaining()) * SECOND)
        self._turned.advance_to(self._turned.now() + waited)
        # A time below a microsecond counts as 0.
        return self.remaining() * SECOND > 1


def context(seconds: float = SOON_SECONDS) -> RunContext:
    """Return the remaining time of a run."""
    return context_for(seconds, CLOCK)


def prepare(worker: Worker, looks: int = 0, **more: Any) -> str:
    """Prepare, with so many looks at the most; return what it says."""
    held = CountedContext(looks) if looks else context()
    return worker.prepare(job_of(**more), held).detail


def recover(worker: Worker, looks: int = 0) -> str:
    """Recover, with so many looks at the most; return what it says."""
    held = CountedContext(looks) if looks else context()
    return worker.recover(job_of(Phase.RECOVER), held).detail
