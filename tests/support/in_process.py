"""Commands of fake programs, run in this process: a call takes a second of its clock."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from forewarn.agent.handlers.run_context import HandlerError, RunContext
from forewarn.agent.integrations.commands import (
    COMMAND_SECONDS,
    Commands,
    Output,
)
from forewarn.clock import VirtualClock
from forewarn.instants import SECOND
from tests.support.agent_journals import START

CALL_SECONDS = 1.0
"""Time that each command takes on the clock, so that a run context is a number of
calls."""


class FakeCommand(Protocol):
    """A command that raises TimeoutError where it would never end."""

    out: str
    err: str

    def run(self) -> int: ...


class InProcess(Commands):
    """Runs fakes, by the name of their program, as the agent runs programs."""

    def __init__(
        self, programs: Mapping[str, Callable[[list[str]], FakeCommand]]
    ) -> None:
        super().__init__({})
        self.programs = dict(programs)
        self.clock = VirtualClock(START)

    def find(self, program: str) -> str:
        return program if program in self.programs else ""

    def run(
        self,
        command: Sequence[str],
        context: RunContext,
        *,
        seconds: float = COMMAND_SECONDS,
    ) -> Output:
        seconds = min(seconds, context.remaining())
        if seconds <= 0:
            raise context.over(f"running {' '.join(command)}")
        program = self.programs[command[0]](list(command[1:]))
        try:
            status = program.run()
        except TimeoutError:
            self._spend(seconds)
            if context.remaining() <= 0:
                raise context.over(f"running {' '.join(command)}") from None
            raise HandlerError(f"{' '.join(command)}: no answer") from None
        self._spend(CALL_SECONDS)
        return Output(status=status, out=program.out, err=program.err)

    def _spend(self, seconds: float) -> None:
        self.clock.advance_to(self.clock.now() + round(seconds * SECOND))
