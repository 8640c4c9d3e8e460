"""A journal without a file: for dry runs, tests, and full disks."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Sequence

from forewarn.agent.core.model import Memory, Note
from forewarn.agent.journal.port import (
    PAGE_ROWS,
    Limits,
    Outgoing,
    Queued,
    Teller,
    new_name,
    tell_nobody,
)


class MemoryJournal:
    """An implementation of the port in memory."""

    def __init__(
        self, *, teller: Teller = tell_nobody, limits: Limits | None = None
    ) -> None:
        """Start with an empty journal."""
        self._teller = teller
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
                for outgoing in self._teller(note, memory):
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
            found = [
                note
                for note in reversed(self._history)
                if not event_id or note.event_id == event_id
            ]
        return found[:limit]

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
                    each for each in queue if each.number not in gone
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
