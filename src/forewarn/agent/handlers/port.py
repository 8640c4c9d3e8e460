"""The handler port: the interface of every kind of handler.

A kind is one class. The agent creates one object of it for each `[[handler]]` of the
settings, and many threads use that object. A run is one call of `prepare` or `recover`
in its own thread.

Each kind keeps this contract:

* It returns a `Result` when the work is done, and raises HandlerError if it failed. The
  message is shown to people. If the handler is required, the failure withholds the
  approval. When the run must end, it raises the RunEndedError that the `RunContext`
  returns. Any other exception is a bug; it is logged and counts as a failure.
* It ends by itself. Before each wait it asks the `RunContext` for the remaining time,
  and uses that as the timeout of every call. It stops all work at `stop_at`, and kills
  the rest by `kill_at`. A thread cannot be ended from outside, so a run that hangs
  never ends.
* After a crash, the agent may call the same method again as a new attempt. Preparing
  twice, and recovering twice, must be harmless.
* After a restart of the agent, it calls `resume` instead for a run that may still be
  active. A kind that cannot find the run raises LostError. It must not start the run
  again.
* If the journal was lost, `recover` is called without an event (`job.notice is None`).

A kind does not use rules, documents or the endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from forewarn.agent.core.model import Phase
from forewarn.agent.handlers.records import RunRecords
from forewarn.agent.handlers.run_context import HandlerError, LostError, RunContext
from forewarn.clock import Clock
from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.protocol.notices import Notice


@frozen_dataclass
class Ground:
    """The dependencies of a handler."""

    records: RunRecords
    environment: Mapping[str, str]
    """The environment of the agent."""
    clock: Clock
    memos: str = ""
    """The directory of the memos, next to the journal."""


@frozen_dataclass
class Job:
    """The parameters of one run."""

    run_id: str
    """Unique, and safe as a file name."""
    handler: str
    """The handler's name in the settings."""
    phase: Phase
    attempt: int
    notice: Notice | None
    """The event; None: recovery after a lost journal."""
    vm: str
    """The name of this VM in Resources; empty: unknown."""
    stop_at: Micros
    """The deadline of the work."""
    now: Micros
    """When the run started, or was resumed."""


@frozen_dataclass
class Result:
    """The work is done."""

    detail: str = ""
    """One line of output for people."""


class Worker(Protocol):
    """One handler of the settings."""

    def prepare(self, job: Job, context: RunContext, /) -> Result:
        """Prepare for the event; raises HandlerError."""
        ...

    def recover(self, job: Job, context: RunContext, /) -> Result:
        """Undo the preparation after the event; raises HandlerError."""
        ...

    def resume(self, job: Job, context: RunContext, /) -> Result:
        """Wait for a run that an earlier agent started; raises HandlerError."""
        ...

    def check(self, vm: str = "", /) -> Sequence[str]:
        """Return the problems of the handler, one sentence each, for `agent check`.

        `vm` is the name of this VM in Resources; empty: unknown. A check changes
        nothing and takes a few seconds at most.
        """
        ...


def raise_faults(faults: Iterable[str]) -> None:
    """Raise HandlerError with all sentences, if there are any."""
    if problems := list(faults):
        raise HandlerError("; ".join(problems))


def faults_of(look: Callable[[], Iterable[str]]) -> list[str]:
    """Return each problem that `look` yields once, and the error that ended it early."""
    problems: dict[str, None] = {}
    try:
        for problem in look():
            problems[problem] = None
    except ForewarnError as error:
        problems[error.message] = None
    return list(problems)


class Forgetful:
    """A base for kinds whose runs end together with the agent."""

    def resume(self, job: Job, _context: RunContext) -> Result:
        """Raise LostError: the run ended with the agent's process."""
        raise LostError(
            f"handler {job.handler} was running when the agent ended; its outcome is "
            "unknown"
        )
