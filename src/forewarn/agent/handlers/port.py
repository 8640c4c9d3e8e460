"""The handler port: what every kind of handler is to the agent.

A kind is one class. An object of it is one `[[handler]]` of the settings, made once,
and used by many threads at the same time; a run is one call of `prepare` or `recover`
in a thread of its own.

What a kind promises:

* It returns a `Result` when the work is done, and raises HandlerError when it is not:
  its sentence is shown to people, and withholds the approval where the handler is
  required. At the end of its time that is an OverError, which the `RunContext` makes.
  Any other exception is a bug; it is logged, and counts as a failure.
* It ends by itself. It asks the `RunContext` how long it may go on before each wait, gives
  that as the time-out of whatever it calls, and lets go of everything at `stop_at`,
  by force until `kill_at`. Nobody can end it from outside: a run that hangs is one
  that never ends.
* The same run may be asked for twice, after a crash: as a new attempt. To prepare what
  is prepared, and to recover what is recovered, must do no harm.
* `resume` is called instead, after the agent was started again, for a run that may
  still be going on. Who cannot know raises LostError; it must not begin it anew.
* `recover` comes without an event (`job.notice is None`) where the journal was lost.

A kind knows no rule, no document and no endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from forewarn.agent.core.model import Phase
from forewarn.agent.handlers.records import Shelf
from forewarn.agent.handlers.run_context import (
    HandlerError,
    LostError,
    OverError,
    RunContext,
    context_for,
)
from forewarn.clock import Clock
from forewarn.instants import Micros
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.protocol.notices import Notice


@frozen_dataclass
class Ground:
    """What handlers stand on."""

    shelf: Shelf
    environment: Mapping[str, str]
    """The agent's own."""
    clock: Clock
    memos: str = ""
    """The folder of what handlers remember, beside the journal."""


@frozen_dataclass
class Job:
    """What one run is about."""

    run_id: str
    """Unique, and safe as a file's name."""
    handler: str
    """The handler's name in the settings."""
    phase: Phase
    attempt: int
    notice: Notice | None
    """The event; None: recovery after a lost journal."""
    vm: str
    """This VM's name in Resources; empty: not known."""
    stop_at: Micros
    """The deadline: the work is to be done by then."""
    kill_at: Micros
    now: Micros
    """When the run began, or was taken up again."""


@frozen_dataclass
class Result:
    """The work is done."""

    detail: str = ""
    """What it said, for a person: one line."""


class Worker(Protocol):
    """One handler, ready to work."""

    def prepare(self, job: Job, context: RunContext) -> Result:
        """Do what is to be done before the event; raises HandlerError."""
        ...

    def recover(self, job: Job, context: RunContext) -> Result:
        """Do what is to be done after it; raises HandlerError."""
        ...

    def resume(self, job: Job, context: RunContext) -> Result:
        """Wait for a run that was begun before the agent was; raises HandlerError."""
        ...

    def check(self, vm: str = "") -> Sequence[str]:
        """Return what is wrong with the handler, one sentence each, for `check`.

        `vm` is this VM's name in Resources; empty: not known. It changes nothing, and
        takes a few seconds at most.
        """
        ...


def raise_faults(faults: Iterable[str]) -> None:
    """Raise HandlerError with the sentences, if there are any."""
    found = list(faults)
    if found:
        raise HandlerError("; ".join(found))


def faults_within(
    seconds: float, clock: Clock, look: Callable[[RunContext], Iterable[str]]
) -> Sequence[str]:
    """Return what a look finds wrong, each once, and why it ended early if it did."""
    found: dict[str, None] = {}
    try:
        for each in look(context_for(seconds, clock)):
            found[each] = None
    except (HandlerError, OverError) as error:
        found[error.message] = None
    return list(found)


class Forgetful:
    """What is common to kinds whose runs end with the agent."""

    def resume(self, job: Job, context: RunContext) -> Result:
        """Raise LostError: the run was this process's, and is gone with it."""
        del context
        raise LostError(
            f"handler {job.handler} was at work when the agent ended; nobody knows "
            "what it has done"
        )
