"""A handler of some kind, called as the agent's runner calls it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from forewarn.agent.core.model import Phase
from forewarn.agent.handlers.port import Ground, Job
from forewarn.agent.handlers.records import RunRecords
from forewarn.agent.handlers.run_context import (
    HandlerError,
    RunContext,
    RunEndedError,
    context_for,
)
from forewarn.agent.integrations.registry import handler_kind
from forewarn.agent.settings import load_settings
from forewarn.agent.settings_model import HandlerSettings
from forewarn.clock import Clock, SystemClock
from forewarn.instants import MINUTE
from tests.support.agent_journals import START
from tests.support.jobs import PATIENT_SECONDS, VirtualContext

JOB = Job(
    run_id="E1.1.prepare.1.it",
    handler="it",
    phase=Phase.PREPARE,
    attempt=1,
    notice=None,
    vm="web_0",
    stop_at=START + MINUTE,
    now=START,
)


class Handled:
    """One handler, whose memory outlives it."""

    def __init__(
        self,
        kind: str,
        settings: str,
        directory: Path,
        environment: Mapping[str, str],
        *,
        clock: Clock | None = None,
        make: Callable[[HandlerSettings, Ground], Any] | None = None,
    ) -> None:
        """Read the settings as the agent does: the lines of one `[[handler]]`.

        `make`: creates the worker instead of its kind.
        """
        self.clock = clock or SystemClock()
        kind_of_handler = handler_kind(kind)
        assert kind_of_handler is not None
        self._make = make or kind_of_handler.make
        file = directory / "agent.toml"
        file.write_text(f'[[handler]]\nname = "it"\nkind = "{kind}"\n{settings}\n')
        (self.settings,) = load_settings(file=str(file), environ={}, flags={}).handlers
        self._ground = Ground(
            records=RunRecords(directory / "runs"),
            environment=environment,
            clock=self.clock,
            memos=str(directory / "memos"),
        )
        self.memo = directory / "memos" / f"it.{kind}.json"
        self.again()

    def again(self) -> None:
        """Create it again, as a restarted agent does."""
        self.worker = self._make(self.settings, self._ground)

    def context(self, seconds: float = PATIENT_SECONDS) -> RunContext:
        return context_for(seconds, self.clock)

    def prepare(self, seconds: float = PATIENT_SECONDS) -> str:
        """Return what it said."""
        return self.worker.prepare(JOB, self.context(seconds)).detail

    def recover(self, seconds: float = PATIENT_SECONDS) -> str:
        """Return the result; it is the same with and without an event."""
        job = replace(JOB, phase=Phase.RECOVER)
        return self.worker.recover(job, self.context(seconds)).detail

    def check(self) -> list[str]:
        return list(self.worker.check(JOB.vm))

    def fails(self, phase: str, seconds: float = PATIENT_SECONDS) -> str:
        """Return the sentence of a run that fails."""
        try:
            failure = getattr(self, phase)(seconds)
        except (HandlerError, RunEndedError) as error:
            return error.message
        raise AssertionError(f"it did not fail: {failure}")


class Turned(Handled):
    """A handler whose waiting takes no time."""

    def context(self, seconds: float = PATIENT_SECONDS) -> RunContext:
        return VirtualContext(seconds)
