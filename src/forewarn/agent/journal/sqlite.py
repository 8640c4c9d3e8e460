"""The journal in an SQLite file with a write-ahead log: one disk sync per save.

A crash during `save` leaves all of it or nothing, which SQLite ensures when it opens
the file again. A damaged file is set aside under another name, and the memory is
written to a new file. The history is then lost, but the work continues.

Other processes read the file, and write only approval requests.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Collection, Generator, Sequence
from dataclasses import replace

from forewarn.agent.core.model import Memory, Note, Task
from forewarn.agent.core.permits import NO_GATE
from forewarn.agent.journal import codec, schema
from forewarn.agent.journal.file import (
    BUSY_SECONDS,
    BUSY_SECONDS_AGAIN,
    File,
    has_content,
)
from forewarn.agent.journal.port import (
    PAGE_ROWS,
    PURGE_ROWS,
    CreateNotifications,
    JournalDamagedError,
    JournalError,
    JournalRefusedError,
    Limits,
    Outgoing,
    Place,
    Queued,
    create_none,
    new_name,
)
from forewarn.instants import Micros

logger = logging.getLogger("forewarn.agent.journal")

MEMORY, BOOT, DROPPED = "memory", "boot", "dropped"
"""The names of the stored facts."""

ASIDE_MAX = 9
"""Maximum number of damaged files that are kept; then the last one is replaced."""


class SqliteJournal:
    """An implementation of the port in a file."""

    def __init__(
        self,
        path: Place,
        *,
        boot: str = "",
        create_notifications: CreateNotifications = create_none,
        limits: Limits | None = None,
    ) -> None:
        """Open or create the file; raises JournalError. `boot` is the ID of the VM's
        boot.

        `path` is a lock on the file, so that no other agent has it open.
        """
        self._path = os.fspath(path)
        self._boot = boot
        self._name = new_name()
        """The name of the journal, if it is new."""
        self._create_notifications = create_notifications
        self._limits = limits or Limits()
        self._file = File(path, may_make=True)
        self._side: File | None = None
        self._side_lock = threading.Lock()
        self._memory: Memory | None = None
        """The memory in the file, as far as this process knows; None: unknown."""
        self._durable: dict[str, tuple[int, Task]] = {}
        """The place and state of each task in the file."""
        self._facts: dict[str, str] = {}
        self._is_patient = True
        """Whether the last save succeeded, so that the next one may wait longer."""
        self._changes = -1
        self._last_order = 0
        """The last approval request that was taken."""
        self._last_done = 0
        """The last approval request that was removed from the file."""
        self._dropped = 0
        self.boot_before = ""
        """The boot of the VM in which the file was last written; empty: unknown."""

    def load(self) -> Memory:
        """Return the memory as last saved; raises JournalError."""
        self._facts, self._durable, memory = _memory_in(self._file)
        self.boot_before = self._facts.get(BOOT, "")
        self._dropped = int(self._facts.get(DROPPED, "0"))
        if memory is None:
            return Memory(lost_journal=True, journal=self._name)
        self._memory = memory
        return memory

    def save(self, memory: Memory, notes: Sequence[Note] = ()) -> None:
        """Make the memory and the notes durable; raises JournalError."""
        self._see_to_its_place()
        try:
            self._save(memory, notes)
        except JournalDamagedError as error:
            self._restart(error)
            self._save(memory, notes)
        except JournalError:
            self._be_patient(is_patient=False)
            raise
        self._be_patient(is_patient=True)
        self._memory = memory

    def take_orders(self) -> Sequence[str]:
        """Return the new approval requests; raises JournalError."""
        self._see_to_its_place()
        try:
            # This runs every second, so it is cheap: the version changes only when
            # another connection has committed.
            [(changes,)] = self._file.rows("PRAGMA data_version")
            if changes == self._changes:
                return ()
            rows = self._file.rows(schema.ORDERS_AFTER, (self._last_order,))
        except JournalDamagedError as error:
            self._rewrite(error)
            return ()
        self._changes = changes
        if rows:
            self._last_order = rows[-1][0]
        return [json.loads(event_id) for _, event_id in rows]

    def history(self, *, limit: int = PAGE_ROWS, event_id: str = "") -> Sequence[Note]:
        """Return the history, the latest entry first; raises JournalError."""
        with self._beside() as side:
            return _history_in(side, limit=limit, event_id=event_id)

    def queued(self, sink: str, *, limit: int) -> Sequence[Queued]:
        """Return the notifications that wait for a receiver, the oldest first."""
        with self._beside() as side:
            rows = side.rows(schema.OUTGOING_OF_SINK, (sink, limit))
        return [
            Queued(number=number, at=at, sink=of, body=body)
            for number, at, of, body in rows
        ]

    def delivered(self, numbers: Sequence[int]) -> None:
        """Remove notifications; after a power failure, they may be there again."""
        with self._beside() as side, side.transaction():
            for number in numbers:
                side.run(schema.DROP_OUTGOING, (number,))

    def drop_others(self, sinks: Collection[str]) -> int:
        """Remove the notifications for all other receivers, and return their number."""
        with self._beside() as side, side.transaction():
            known = [sink for (sink,) in side.rows(schema.SINKS_OF_OUTGOING)]
            return sum(
                side.run(schema.DROP_OUTGOING_OF_SINK, (sink,))
                for sink in known
                if sink not in sinks
            )

    def dropped(self) -> int:
        """Return how many notifications were dropped because too many waited."""
        return self._dropped

    def close(self) -> None:
        """Close the file; may be called twice."""
        with self._side_lock:
            if self._side is not None:
                self._side.close()
                self._side = None
        self._file.close()

    # Write

    def _save(self, memory: Memory, notes: Sequence[Note]) -> None:
        durable = self._placed(memory)
        facts = {
            # The alert server is asked again after each start.
            MEMORY: codec.dump(replace(memory, tasks=(), gate=NO_GATE)),
            BOOT: self._boot,
            DROPPED: str(self._dropped),
        }
        gone = self._durable.keys() - durable.keys()
        changed = [
            (place, task)
            for event_id, (place, task) in durable.items()
            if self._durable.get(event_id) != (place, task)
        ]
        is_same = not (changed or gone or notes) and facts == self._facts
        if is_same and self._last_order == self._last_done:
            return
        outgoing = [
            (note.at, notification)
            for note in notes
            for notification in self._create_notifications(note, memory)
        ]
        with self._file.transaction():
            for event_id in gone:
                self._file.run(schema.DROP_TASK, (json.dumps(event_id),))
            for place, task in changed:
                row = json.dumps(task.event_id), place, codec.dump(task)
                self._file.run(schema.PUT_TASK, row)
            if notes:
                self._add_history(notes)
            dropped = self._queue(outgoing)
            facts[DROPPED] = str(self._dropped + dropped)
            for name, value in facts.items():
                if self._facts.get(name) != value:
                    self._file.run(schema.PUT_FACT, (name, value))
            self._file.run(schema.DROP_ORDERS, (self._last_order,))
        # The commit has succeeded.
        self._last_done = self._last_order
        self._durable, self._facts = durable, facts
        self._dropped += dropped

    def _be_patient(self, *, is_patient: bool) -> None:
        if self._is_patient is not is_patient:
            self._file.wait_for_others(
                BUSY_SECONDS if is_patient else BUSY_SECONDS_AGAIN
            )
            self._is_patient = is_patient

    def _placed(self, memory: Memory) -> dict[str, tuple[int, Task]]:
        """Return the tasks with increasing places, which change as little as
        possible."""
        placed: dict[str, tuple[int, Task]] = {}
        highest = max((place for place, _ in self._durable.values()), default=0)
        last = 0
        for task in memory.tasks:
            known = self._durable.get(task.event_id)
            if known is not None and known[0] > last:
                last = known[0]
            else:
                last = max(last, highest) + 1
            placed[task.event_id] = last, task
        return placed

    def _add_history(self, notes: Sequence[Note]) -> None:
        for note in notes:
            row = note.at, json.dumps(note.event_id), codec.dump(note)
            self._file.run(schema.ADD_HISTORY, row)
        self._file.run(
            schema.PURGE_HISTORY,
            {
                "few": max(PURGE_ROWS, 2 * len(notes)),
                "oldest": notes[-1].at - self._limits.history_age,
                "rows": self._limits.history_rows,
            },
        )

    def _queue(self, outgoing: Sequence[tuple[Micros, Outgoing]]) -> int:
        """Write notifications; return how many old ones were dropped for them."""
        for at, message in outgoing:
            self._file.run(schema.ADD_OUTGOING, (at, message.sink, message.body))
        dropped = 0
        for sink in {notice.sink for _, notice in outgoing}:
            [(count,)] = self._file.rows(schema.COUNT_OUTGOING, (sink,))
            excess = count - self._limits.queue_rows
            if excess > 0:
                dropped += self._file.run(schema.PURGE_OUTGOING, (sink, excess))
        return dropped

    # Damaged, deleted or replaced files

    def _see_to_its_place(self) -> None:
        """Write a new file if the old one was deleted or replaced.

        An agent that continued would write to a file that no other process can open.
        Raises JournalError.
        """
        if self._file.is_in_place():
            return
        self._rewrite(
            JournalError(
                f"the journal {self._path} was deleted or replaced while the agent "
                "was using it",
                hint="Stop the agent before you move its journal.",
            )
        )

    def _rewrite(self, error: JournalError) -> None:
        """Create a new file, and write the memory to it."""
        self._restart(error)
        if self._memory is not None:
            self._save(self._memory, ())

    def _restart(self, error: JournalError) -> None:
        """Set the file aside and create a new one; raises JournalError."""
        self.close()
        aside = set_aside(self._path)
        if os.path.exists(aside):
            logger.error("%s; it was set aside as %s", error, os.path.basename(aside))
        else:
            logger.error("%s; a new one is created", error)
        self._file, self._is_patient = File(self._path, may_make=True), True
        self._durable, self._facts = {}, {}
        self._changes, self._last_order, self._last_done = -1, 0, 0

    # Read in parallel with the main loop

    @contextlib.contextmanager
    def _beside(self) -> Generator[File]:
        """Yield the connection that the other threads share, one at a time."""
        with self._side_lock:
            if self._side is None:
                side = File(self._path)
                # A power failure may undo its writes. The main loop must not wait for a
                # disk sync of a delivered notification.
                side.run("PRAGMA synchronous = NORMAL")
                side.tune()
                self._side = side
            yield self._side


def _memory_in(
    file: File,
) -> tuple[dict[str, str], dict[str, tuple[int, Task]], Memory | None]:
    """Return the facts, the tasks with their places, and the memory, if any."""
    facts = dict(file.rows("SELECT name, value FROM facts"))
    durable: dict[str, tuple[int, Task]] = {}
    for place, body in file.rows(schema.ALL_TASKS):
        task = codec.load(Task, body)
        durable[task.event_id] = place, task
    if MEMORY not in facts:
        return facts, durable, None
    memory = codec.load(Memory, facts[MEMORY])
    return facts, durable, replace(memory, tasks=tuple(t for _, t in durable.values()))


def _history_in(file: File, *, limit: int, event_id: str) -> list[Note]:
    """Return the history, the latest entry first."""
    if event_id:
        rows = file.rows(schema.LATEST_OF_EVENT, (json.dumps(event_id), limit))
    else:
        rows = file.rows(schema.LATEST, (limit,))
    return [codec.load(Note, body) for (body,) in rows]


def set_aside(path: Place) -> str:
    """Rename the file and its log; return the new name. Raises JournalError."""
    path = os.fspath(path)
    names = [f"{path}.damaged-{number}" for number in range(1, ASIDE_MAX + 1)]
    aside = next((name for name in names if not os.path.exists(name)), names[-1])
    try:
        for ending in ("-wal", "-shm", ""):
            if os.path.exists(path + ending):
                os.replace(path + ending, aside + ending)
    except OSError as error:
        raise JournalError(
            f"the damaged journal {path} cannot be set aside: {error.strerror}",
            hint="Move it away, and start the agent again.",
        ) from error
    return aside


# Access for other processes: the agent may be running or not


def order_approval(path: Place, event_id: str, *, now: Micros) -> None:
    """Request the agent to approve an event, regardless of its rules.

    When this returns, the request is durable. A running agent sees it within a second,
    and a stopped one when it starts. Raises JournalError.
    """
    with _opened(path, read_only=False) as file:
        file.run("PRAGMA synchronous = FULL")
        with file.transaction():
            file.run(schema.ADD_ORDER, (now, json.dumps(event_id)))


def read_memory(path: Place) -> Memory:
    """Return the last memory that the agent stored; raises JournalError."""
    with _opened(path, read_only=True) as file:
        _, _, memory = _memory_in(file)
        return memory or Memory(lost_journal=True)


def read_notes(
    path: Place, *, limit: int = PAGE_ROWS, event_id: str = ""
) -> Sequence[Note]:
    """Return the history, the latest entry first; raises JournalError."""
    with _opened(path, read_only=True) as file:
        return _history_in(file, limit=limit, event_id=event_id)


@contextlib.contextmanager
def _opened(path: Place, *, read_only: bool) -> Generator[File]:
    if not has_content(path):
        raise JournalRefusedError(
            f"there is no journal {path}",
            hint="Check `state`: no agent has run with it yet.",
        )
    with contextlib.closing(File(path, read_only=read_only)) as file:
        if file.version() < len(schema.STEPS):
            raise JournalRefusedError(
                f"the journal {path} was written by an older version of forewarn",
                hint="Start this version of the agent once to upgrade it.",
            )
        yield file
