"""`kill -9` before every statement that the journal gives to SQLite, one by one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from forewarn.agent.core.model import Memory, Note
from forewarn.agent.journal.port import Outgoing
from forewarn.agent.journal.sqlite import SqliteJournal, order_approval
from tests.support.agent_journals import START, is_new, note_of, task_of

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.clause("8.8")]

STATEMENTS_MIN = 60
"""In the life below; fewer would mean that the test does not see them."""


def make(_note: Note, _memory: Memory) -> list[Outgoing]:
    return [Outgoing(sink="hook", body="{}")]


def states() -> list[Memory]:
    """Return what is saved, one after the other; each differs in several rows."""
    a, b, c = (task_of(name) for name in "abc")
    return [
        Memory(name="web_1", lost_journal=True),
        Memory(name="web_1", tasks=(a,)),
        Memory(name="web_1", tasks=(a, b, c)),
        Memory(name="web_2", tasks=(c, a)),
        Memory(name="web_2", tasks=(task_of("c", seen=START + 1),)),
        Memory(name="web_2"),
    ]


def live(path: Path, kill_at: int) -> None:
    """Live through all states in this process, which dies at a statement."""
    count = 0

    def count_down(_statement: str) -> None:
        nonlocal count
        count += 1
        if count == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    journal = SqliteJournal(path, create_notifications=make)
    journal._file._sqlite.set_trace_callback(count_down)
    journal.load()
    stream = path.with_name("said").open("ab", buffering=0)
    for index, memory in enumerate(states()):
        if index == 2:
            order_approval(path, "a", now=START)
        taken = journal.take_orders()
        stream.write(b"o" * len(taken))
        journal.save(memory, [note_of(detail=str(index))])
        stream.write(b"s")
    os.write(1, f"{count}\n".encode())


def live_in_a_child(path: Path, kill_at: int) -> int:
    """Return how the process ended that lived through it."""
    path.parent.mkdir()
    child = os.fork()
    if not child:
        try:
            live(path, kill_at)
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


def judge(path: Path) -> None:
    """Look at what a killed process has left."""
    file = path.with_name("said")
    text = file.read_text() if file.exists() else ""
    acknowledged = text.count("s")
    journal = SqliteJournal(path, create_notifications=make)
    memory = journal.load()
    if is_new(memory):
        memory = Memory(lost_journal=True)
    all_of_them = [Memory(lost_journal=True), *states()]
    # All acknowledged entries exist, and at most one more, complete.
    possible = all_of_them[acknowledged : acknowledged + 2]
    assert memory in possible, (text, memory)
    saves = acknowledged + possible.index(memory)
    # The entries of the same transaction exist too, and no others.
    details = [note.detail for note in journal.history()]
    assert details == [str(n) for n in range(saves - 1, -1, -1)], (saves, details)
    assert len(journal.queued("hook", limit=99)) == saves
    # The order is there until the save after it was taken.
    orders = list(journal.take_orders())
    if saves >= 3:
        assert not orders
    elif "o" in text:
        assert orders == ["a"]
    # The life continues.
    journal.save(states()[-1], [note_of()])
    assert journal.load() == states()[-1]
    journal.close()


def live_and_judge(directory: Path) -> None:
    """Kill at the first statement, the second, and so on until the life ends."""
    kill_at = 0
    while True:
        kill_at += 1
        path = directory / str(kill_at) / "agent.db"
        status = live_in_a_child(path, kill_at)
        judge(path)
        if not os.WIFSIGNALED(status):
            break
    assert kill_at > STATEMENTS_MIN, kill_at


SCRIPT = """
import sys
from pathlib import Path
from tests.system.test_agent_journal_kills import live_and_judge
live_and_judge(Path(sys.argv[1]))
"""


def test_crash_at_any_statement_leaves_no_partial_change(tmp_path: Path) -> None:
    # In a process without threads, which may fork.
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
