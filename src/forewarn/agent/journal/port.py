"""The journal port: a memory that is durable when `save` has returned.

What every implementation promises (one contract suite asks them all):

* What `save` is given becomes durable together or not at all: the memory, what was
  told, the notifications that it makes, and the removal of the orders it answers.
* `load` returns the memory as last saved. Before the first save there is none, and
  what is returned says so (`Memory.lost_journal`), as often as it is asked. It has a
  random name (`Memory.journal`), which no other journal has.
* A `save` that failed has changed nothing, and the next may succeed: it writes all
  that differs from what is durable.
* History and notifications are bounded, the oldest go first, and a save removes only
  a few at a time.
* `load`, `save` and `take_orders` are for the main loop's thread alone; everything
  else may be called from any thread.

Nothing above this port may know of files or SQL.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import Protocol, Union

from forewarn.agent.core.model import Memory, Note
from forewarn.instants import DAY, Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.frozen import frozen_dataclass

Place = Union[str, os.PathLike[str]]
"""Where a file is."""

HISTORY_ROWS_MAX = 50_000
"""Things told that are kept: some 6,000 events, and 20 MiB on the disk."""

HISTORY_AGE_MAX: Micros = 400 * DAY
"""How long they are kept: more than a year, so that two can be compared."""

PURGE_ROWS = 50
"""What one save removes of the history at most: it must not hold up a decision, and a
save that tells three things more than keeps pace."""

QUEUE_ROWS_MAX = 1_000
"""Notifications that wait for one sink: some 500 KiB. Then the oldest are dropped."""

PAGE_ROWS = 200
"""Of the history, unless more are asked for: what a person may look through."""


NAME_BYTES = 5
"""Of a journal's random name: two of one VM have the same once in a million millions."""


def new_name() -> str:
    """Return a random name for a journal: letters and digits."""
    return os.urandom(NAME_BYTES).hex()


class JournalError(ForewarnError):
    """The disk does not do its work; the agent goes on from what it knows."""


class JournalDamagedError(JournalError):
    """What is in the file cannot be read; another must be begun."""


class JournalRefusedError(JournalError):
    """The file is not for this agent, and somebody must do something about it: it is
    in use, newer than this program, another's, or where we may not write."""


@frozen_dataclass
class Outgoing:
    """A notification for one sink."""

    sink: str
    """The sink's name in the settings."""
    body: str
    """What it is to get: a JSON object on one line, in ASCII."""


@frozen_dataclass
class Queued:
    """A notification that waits."""

    number: int
    """Never used twice in the life of the file: receivers know repetitions by it."""
    at: Micros
    sink: str
    body: str


Teller = Callable[[Note, Memory], Sequence[Outgoing]]
"""Makes the notifications of a thing that is told, while it is made durable."""


def tell_nobody(note: Note, memory: Memory) -> Sequence[Outgoing]:
    """Make no notification."""
    del note, memory
    return ()


@frozen_dataclass
class Limits:
    """How much is kept."""

    history_rows: int = HISTORY_ROWS_MAX
    history_age: Micros = HISTORY_AGE_MAX
    queue_rows: int = QUEUE_ROWS_MAX


class Journal(Protocol):
    """Durable memory of one agent."""

    def load(self) -> Memory:
        """Return the memory as last saved; raises JournalError."""
        ...

    def save(self, memory: Memory, notes: Sequence[Note] = ()) -> None:
        """Make the memory durable, with what was told; raises JournalError.

        The orders that were taken are gone then. Where nothing differs from what is
        durable, nothing is written.
        """
        ...

    def take_orders(self) -> Sequence[str]:
        """Return the events that an operator has ordered to approve, each once.

        A crash before the next `save` has them returned again. Raises JournalError.
        """
        ...

    def history(self, *, limit: int = PAGE_ROWS, event_id: str = "") -> Sequence[Note]:
        """Return what was told, of one event or of all, the latest first."""
        ...

    def queued(self, sink: str, *, limit: int) -> Sequence[Queued]:
        """Return the notifications that wait for a sink, the oldest first."""
        ...

    def delivered(self, numbers: Sequence[int]) -> None:
        """Forget notifications; a failure of the power may bring them back."""
        ...

    def drop_others(self, sinks: Collection[str]) -> int:
        """Forget what waits for any sink but these; return how much that was."""
        ...

    def dropped(self) -> int:
        """Return how many notifications were dropped because too many waited."""
        ...

    def close(self) -> None:
        """Let go of it; may be called twice."""
        ...
