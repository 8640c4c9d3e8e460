"""Run each handler in a thread, and report the result to the main loop.

After a crash of the agent, programs continue to run; all other runs have ended.
`Run.resumes` resumes them. This module does not wait and does not decide.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from forewarn.agent.core.model import (
    Finished,
    Phase,
    Run,
    StepState,
    Stop,
    Tighten,
)
from forewarn.agent.handlers.port import Job, Result, Worker
from forewarn.agent.handlers.records import RunRecords
from forewarn.agent.handlers.run_context import (
    HandlerError,
    LostError,
    RunContext,
    RunEndedError,
    StoppedError,
)
from forewarn.clock import Clock

logger = logging.getLogger("forewarn.agent.handlers")


class Runner:
    """The handler runner: the main loop calls its methods through `agent.Dispatch`."""

    def __init__(
        self,
        workers: Mapping[str, Worker],
        *,
        finish: Callable[[Finished], None],
        vm: Callable[[], str],
        clock: Clock,
        records: RunRecords | None = None,
    ) -> None:
        """Use the handlers of the settings, by name.

        `finish` is called from any thread. `vm` returns the name of this VM. `records`
        keeps the latest finished runs.
        """
        self._workers = workers
        self._finish = finish
        self._vm = vm
        self._clock = clock
        self._records = records
        self._lock = threading.Lock()
        self._contexts: dict[str, RunContext] = {}

    def start(self, run: Run) -> None:
        """Start or resume a run; never waits."""
        context = RunContext(
            stop_at=run.stop_at, kill_at=run.kill_at, clock=self._clock
        )
        job = Job(
            run_id=run.run_id,
            handler=run.handler,
            phase=run.phase,
            attempt=run.attempt,
            notice=None if run.task is None else run.task.notice,
            vm=self._vm(),
            stop_at=run.stop_at,
            now=self._clock.now(),
        )
        with self._lock:
            assert run.run_id not in self._contexts
            self._contexts[run.run_id] = context
        thread = threading.Thread(
            target=self._work,
            args=(job, context, run.resumes),
            name=f"forewarn-{run.handler}",
            daemon=True,
        )
        try:
            thread.start()
        except RuntimeError as error:
            self._end(job, StepState.FAILED, f"no thread could be started: {error}")

    def stop(self, stop: Stop) -> None:
        """Stop a run; ignored if it has ended."""
        with self._lock:
            context = self._contexts.get(stop.run_id)
        if context is not None:
            context.stop(stop.kill_at)

    def tighten(self, tighten: Tighten) -> None:
        """Shorten the time of a run; ignored if it has ended."""
        with self._lock:
            context = self._contexts.get(tighten.run_id)
        if context is not None:
            context.shorten(tighten.stop_at, tighten.kill_at)

    def running(self) -> tuple[str, ...]:
        """Return the IDs of the active runs."""
        with self._lock:
            return tuple(self._contexts)

    def _work(self, job: Job, context: RunContext, resumes: bool) -> None:  # noqa: FBT001
        try:
            result = self._result(job, context, resumes=resumes)
            self._end(job, StepState.DONE, result.detail)
        except StoppedError as error:
            self._end(job, StepState.STOPPED, error.message)
        except LostError as error:
            self._end(job, StepState.LOST, error.message)
        except (HandlerError, RunEndedError) as error:
            self._end(job, StepState.FAILED, error.message)
        except Exception as error:
            logger.exception("handler %s has a bug", job.handler)
            self._end(job, StepState.FAILED, f"{type(error).__name__}: {error}")

    def _result(self, job: Job, context: RunContext, *, resumes: bool) -> Result:
        if (worker := self._workers.get(job.handler)) is None:
            kind = LostError if resumes else HandlerError
            raise kind(f"the settings have no handler {job.handler}")
        if resumes:
            return worker.resume(job, context)
        if job.phase is Phase.PREPARE:
            return worker.prepare(job, context)
        return worker.recover(job, context)

    def _end(self, job: Job, state: StepState, detail: str) -> None:
        with self._lock:
            self._contexts.pop(job.run_id, None)
        self._finish(Finished(run_id=job.run_id, state=state, detail=detail))
        # Clear the records after the report, which must not wait for a slow disk.
        if self._records is not None:
            self._records.clear(self.running())
