"""Access to the journal for other processes: read it, and request approvals.

The agent may be running or not. Only approval requests are written.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Generator, Sequence

from forewarn.agent.core.model import Memory, Note
from forewarn.agent.journal import schema, sqlite
from forewarn.agent.journal.file import File
from forewarn.agent.journal.port import PAGE_ROWS, JournalRefusedError, Place
from forewarn.instants import Micros


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
        _, _, memory = sqlite.read_memory(file)
        return memory or Memory(lost_journal=True)


def read_notes(
    path: Place, *, limit: int = PAGE_ROWS, event_id: str = ""
) -> Sequence[Note]:
    """Return the history, the latest entry first; raises JournalError."""
    with _opened(path, read_only=True) as file:
        return sqlite.read_history(file, limit=limit, event_id=event_id)


@contextlib.contextmanager
def _opened(path: Place, *, read_only: bool) -> Generator[File]:
    try:
        is_there = os.path.getsize(path) > 0
    except PermissionError:
        is_there = True
    except OSError:
        is_there = False
    if not is_there:
        raise JournalRefusedError(
            f"there is no journal {path}",
            hint="Check `state`: no agent has run with it yet.",
        )
    file = File(path, read_only=read_only)
    try:
        if file.version() < len(schema.STEPS):
            raise JournalRefusedError(
                f"the journal {path} was written by an older version of forewarn",
                hint="Start this version of the agent once to upgrade it.",
            )
        yield file
    finally:
        file.close()
