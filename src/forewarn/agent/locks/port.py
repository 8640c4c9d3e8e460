"""The port of locks: what every kind of lock is to the agent.

A kind promises:

* `take` by a holder that has the lock already succeeds, and confirms it. `release` by a
  holder that does not have it succeeds, and takes it from nobody.
* At most so many holders have it at once as the settings, or its server, say.
* What cannot be understood is a LockError with a sentence, and never a lock that is had.
* It ends when the run context ends. What was asked then may have been done.

A kind knows no event. It is used by one thread at a time.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Protocol

from forewarn.agent.handlers.run_context import RunContext
from forewarn.agent.settings_model import LockSettings
from forewarn.clock import Clock
from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.frozen import frozen_dataclass


class LockError(ForewarnError):
    """The lock's server gave no usable answer; the message says why."""


@frozen_dataclass
class Grant:
    """What came of asking for the lock."""

    is_held: bool
    until: Micros = 0
    """When it expires, by this machine's clock; 0: never."""
    detail: str = ""
    """Who holds it, where it was not had; for a person."""


class Lock(Protocol):
    """One lock, ready to be asked for."""

    def take(self, holder: str, context: RunContext) -> Grant:
        """Take the lock for a holder, or confirm that it has it; raises ForewarnError."""
        ...

    def release(self, holder: str, context: RunContext) -> None:
        """Give it back, if that holder has it; raises ForewarnError."""
        ...

    def look(self, context: RunContext) -> str:
        """Return a sentence about who holds it, and change nothing; raises ForewarnError."""
        ...


def make_lock(
    settings: LockSettings, environment: Mapping[str, str], clock: Clock
) -> Lock:
    """Return the lock that the settings want; raises ForewarnError.

    A kind is a module with a function `make`, loaded when it is first needed.
    """
    module = importlib.import_module(f"forewarn.agent.locks.{settings.kind}")
    return module.make(settings, environment, clock)
