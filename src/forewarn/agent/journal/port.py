"""The journal port: durable storage for the agent's memory, and an in-memory substitute.

Every implementation keeps these promises, which one contract suite tests:

* `save` makes all of its input durable or nothing: the memory, the notes, their
  notifications, and the removal of the approval requests that it answers.
* `load` returns the memory as last saved. Before the first save, it returns an empty
  memory with `lost_journal` set, however often it is called. That memory has a random
  name (`Memory.journal`), which no other journal has.
* A `save` that failed has changed nothing. The next one may succeed, and writes every
  difference from the durable state.
* The history and the notifications are bounded. The oldest entries are removed first,
  and each save removes only a few.
* Only the main loop's thread calls `load`, `save` and `take_orders`. Any thread may
  call the other methods.

Code above this port does not depend on files or SQL.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Protocol, Union

from forewarn.agent.core.model import Memory, Note
from forewarn.instants import DAY, Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.frozen import frozen_dataclass

Place = Union[str, os.PathLike[str]]
"""The path of a file."""

HISTORY_ROWS_MAX = 50_000
"""Maximum number of history entries: about 6,000 events, and 20 MiB on the disk."""

HISTORY_AGE_MAX: Micros = 400 * DAY
"""How long history entries are kept: more than a year, so that years can be
compared."""

PURGE_ROWS = 50
"""Maximum number of history entries that one save removes. A save must not delay a
decision, and one that adds three entries still keeps up."""

QUEUE_ROWS_MAX = 1_000
"""Maximum number of notifications that wait for one receiver, about 500 KiB. The oldest
are dropped first."""

PAGE_ROWS = 200
"""Default number of history entries to return."""


NAME_BYTES = 5
"""Length of a journal's random name. Two journals of a VM have the same name once in
10^12 cases."""


def new_name() -> str:
    """Return a random name for a journal: letters and digits."""
    return os.urandom(NAME_BYTES).hex()


class JournalError(ForewarnError):
    """The journal cannot be read or written. The agent continues without it."""


class JournalDamagedError(JournalError):
    """The file's content is unreadable, so a new file is needed."""


class JournalRefusedError(JournalError):
    """The file cannot be this agent's journal, and an operator must act: it is in use,
    from a newer version, another program's, or not writable."""


@frozen_dataclass
class Outgoing:
    """A notification for one sink."""

    sink: str
    """The receiver's name."""
    body: str
    """Content of the entry: a JSON object on one line, in ASCII."""


@frozen_dataclass
class Queued:
    """A notification that waits for delivery."""

    number: int
    """Number of the entry. It is never reused in the file, so that receivers can
    recognize duplicates."""
    at: Micros
    sink: str
    body: str


CreateNotifications = Callable[[Note, Memory], Sequence[Outgoing]]
"""Creates the notifications of a note, within the same transaction."""


def create_none(_note: Note, _memory: Memory) -> Sequence[Outgoing]:
    """Create no notification."""
    return ()


@frozen_dataclass
class Limits:
    """The limits of the history and of the notifications."""

    history_rows: int = HISTORY_ROWS_MAX
    history_age: Micros = HISTORY_AGE_MAX
    queue_rows: int = QUEUE_ROWS_MAX


class Journal(Protocol):
    """The durable memory of one agent."""

    def load(self) -> Memory:
        """Return the memory as last saved; raises JournalError."""
        ...

    def save(self, memory: Memory, notes: Sequence[Note] = ()) -> None:
        """Make the memory and the notes durable; raises JournalError.

        This also removes the approval requests that were taken. If nothing has changed,
        nothing is written.
        """
        ...

    def take_orders(self) -> Sequence[str]:
        """Return the events that an operator requested to approve, each once.

        After a crash before the next `save`, they are returned again. Raises
        JournalError.
        """
        ...

    def history(self, *, limit: int = PAGE_ROWS, event_id: str = "") -> Sequence[Note]:
        """Return the history of one event or of all events, the latest entry first."""
        ...

    def queued(self, sink: str, *, limit: int) -> Sequence[Queued]:
        """Return the notifications that wait for a receiver, the oldest first."""
        ...

    def delivered(self, numbers: Sequence[int]) -> None:
        """Remove notifications; after a power failure, they may be there again."""
        ...

    def drop_others(self, sinks: Collection[str]) -> int:
        """Remove the notifications for all other receivers, and return their number."""
        ...

    def dropped(self) -> int:
        """Return how many notifications were dropped because too many waited."""
        ...

    def close(self) -> None:
        """Close the journal; may be called twice."""
        ...


class MemoryJournal:
    """A journal without a file: for dry runs, tests, and full disks."""

    def __init__(
        self,
        *,
        create_notifications: CreateNotifications = create_none,
        limits: Limits | None = None,
    ) -> None:
        """Start with an empty journal."""
        self._create_notifications = create_notifications
        self._limits = limits or Limits()
        self._lock = threading.Lock()
        self._memory = Memory(lost_journal=True, journal=new_name())
        self._history: deque[Note] = deque(maxlen=self._limits.history_rows)
        self._queues: dict[str, deque[Queued]] = {}
        self._number = 0
        self._dropped = 0
        self._orders: list[str] = []

    def load(self) -> Memory:
        """Return the memory as last saved."""
        return self._memory

    def save(self, memory: Memory, notes: Sequence[Note] = ()) -> None:
        """Store the memory and the notes."""
        with self._lock:
            self._memory = memory
            self._history.extend(notes)
            for note in notes:
                oldest = note.at - self._limits.history_age
                while self._history and self._history[0].at < oldest:
                    self._history.popleft()
                for outgoing in self._create_notifications(note, memory):
                    self._put(note, outgoing)

    def order(self, event_id: str) -> None:
        """Request an approval, as another process would."""
        with self._lock:
            self._orders.append(event_id)

    def take_orders(self) -> Sequence[str]:
        """Return the new approval requests."""
        if not self._orders:
            return ()
        with self._lock:
            taken, self._orders = self._orders, []
        return taken

    def history(self, *, limit: int = PAGE_ROWS, event_id: str = "") -> Sequence[Note]:
        """Return the history, the latest entry first."""
        with self._lock:
            notes = [
                note
                for note in reversed(self._history)
                if not event_id or note.event_id == event_id
            ]
        return notes[:limit]

    def queued(self, sink: str, *, limit: int) -> Sequence[Queued]:
        """Return the notifications that wait for a receiver, the oldest first."""
        with self._lock:
            return list(self._queues.get(sink, ()))[:limit]

    def delivered(self, numbers: Sequence[int]) -> None:
        """Remove notifications."""
        gone = set(numbers)
        with self._lock:
            for sink, queue in self._queues.items():
                self._queues[sink] = deque(
                    message for message in queue if message.number not in gone
                )

    def drop_others(self, sinks: Collection[str]) -> int:
        """Remove the notifications for all other receivers, and return their number."""
        with self._lock:
            gone = self._queues.keys() - set(sinks)
            return sum(len(self._queues.pop(sink)) for sink in gone)

    def dropped(self) -> int:
        """Return how many notifications were dropped."""
        return self._dropped

    def close(self) -> None:
        """Do nothing."""

    def _put(self, note: Note, outgoing: Outgoing) -> None:
        self._number += 1
        queue = self._queues.setdefault(outgoing.sink, deque())
        queue.append(
            Queued(
                number=self._number,
                at=note.at,
                sink=outgoing.sink,
                body=outgoing.body,
            )
        )
        if len(queue) > self._limits.queue_rows:
            queue.popleft()
            self._dropped += 1
