"""The behavior that every journal of the agent shares."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from forewarn.agent.core.model import Memory, Note, Stage
from forewarn.agent.journal.port import Journal, Limits, MemoryJournal, Outgoing
from forewarn.agent.journal.sqlite import SqliteJournal, order_approval
from forewarn.instants import DAY, HOUR
from tests.support.agent_journals import START, is_new, note_of, task_of


class Bench(Protocol):
    """A journal under test, and the other process that orders."""

    @property
    def journal(self) -> Journal: ...

    def order(self, event_id: str) -> None: ...


def tell(note: Note, memory: Memory) -> Sequence[Outgoing]:
    body = ascii(f"{note.event_id} on {memory.name}")[1:-1]
    return [Outgoing(sink="hook", body=body), Outgoing(sink="file", body=body)]


LIMITS = Limits(history_rows=10, history_age=DAY, queue_rows=3)


class InMemory:
    def __init__(self, _directory: Path) -> None:
        self.journal = MemoryJournal(create_notifications=tell, limits=LIMITS)

    def order(self, event_id: str) -> None:
        self.journal.order(event_id)


class OnDisk:
    def __init__(self, directory: Path) -> None:
        self._path = directory / "agent.db"
        self.journal = SqliteJournal(
            self._path, create_notifications=tell, limits=LIMITS
        )

    def order(self, event_id: str) -> None:
        order_approval(self._path, event_id, now=START)


MAKERS: Mapping[str, Callable[[Path], Bench]] = {
    "memory": InMemory,
    "sqlite": OnDisk,
}


@pytest.fixture(params=MAKERS)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    bench = MAKERS[request.param](tmp_path)
    yield bench
    bench.journal.close()
    bench.journal.close()


@pytest.fixture
def journal(bench: Bench) -> Journal:
    return bench.journal


def test_journal_is_new_before_its_first_save(journal: Journal) -> None:
    new = journal.load()
    assert is_new(new)
    assert journal.load() == new
    journal.save(Memory(name="web_1"))
    assert journal.load() == Memory(name="web_1")


@pytest.mark.parametrize("kind", MAKERS)
def test_journal_names_are_unique(kind: str, tmp_path: Path) -> None:
    names: set[str] = set()
    for number in range(20):
        directory = tmp_path / str(number)
        directory.mkdir()
        new_journal = MAKERS[kind](directory).journal
        names.add(new_journal.load().journal)
        new_journal.close()
    assert len(names) == 20


@pytest.mark.clause("8.8")
def test_saved_memory_is_loaded(journal: Journal) -> None:
    memory = Memory(
        tasks=(task_of("E1"), task_of("e2")),
        name="web_1",
        lost_journal=True,
        restored=task_of().steps,
    )
    journal.save(memory)
    assert journal.load() == memory


def test_tasks_keep_their_order_when_some_are_removed_or_added(
    journal: Journal,
) -> None:
    a, b, c, d = (task_of(name) for name in "abcd")
    for tasks in ((a, b, c), (a, c), (a, c, b), (c, b, a), (d, a), (), (b,)):
        journal.save(Memory(tasks=tasks))
        assert journal.load().tasks == tasks


def test_changed_task_keeps_its_position(journal: Journal) -> None:
    tasks = [task_of(name) for name in "abc"]
    journal.save(Memory(tasks=tuple(tasks)))
    tasks[1] = replace(tasks[1], stage=Stage.RECOVERING, gone=START)
    journal.save(Memory(tasks=tuple(tasks)))
    assert journal.load().tasks == tuple(tasks)


@pytest.mark.parametrize("event_id", ["", "'; --", "\ud800", "\x00", "é", "E" * 9_000])
def test_event_id_can_be_any_text(bench: Bench, event_id: str) -> None:
    journal = bench.journal
    memory = Memory(tasks=(task_of(event_id),))
    journal.save(memory, [note_of(event_id, detail="\udcff")])
    bench.order(event_id)
    assert journal.load() == memory
    assert journal.take_orders() == [event_id]
    assert list(journal.history(event_id=event_id)) == [
        note_of(event_id, detail="\udcff")
    ]


def test_history_returns_the_latest_first(journal: Journal) -> None:
    notes = [note_of("E1", detail="1"), note_of("E2"), note_of("E1", detail="3")]
    journal.save(Memory(), notes[:2])
    journal.save(Memory(), notes[2:])
    assert list(journal.history()) == notes[::-1]
    assert list(journal.history(limit=1)) == notes[2:]
    assert list(journal.history(event_id="E1")) == [notes[2], notes[0]]
    assert not journal.history(event_id="E3")


def test_the_history_is_bounded_by_rows(journal: Journal) -> None:
    for number in range(30):
        journal.save(Memory(), [note_of(detail=str(number))])
    assert [note.detail for note in journal.history()] == [
        str(number) for number in range(29, 19, -1)
    ]


def test_the_history_is_bounded_by_age(journal: Journal) -> None:
    journal.save(Memory(), [note_of(detail="old")])
    journal.save(Memory(), [note_of(detail="young", at=START + HOUR)])
    journal.save(Memory(), [note_of(detail="now", at=START + HOUR + DAY)])
    assert [note.detail for note in journal.history()] == ["now", "young"]


def test_saved_note_is_queued_for_each_sink(journal: Journal) -> None:
    journal.save(Memory(name="web_1"), [note_of("E1"), note_of("E2")])
    first, second = journal.queued("hook", limit=9)
    assert (first.body, second.body) == ("E1 on web_1", "E2 on web_1")
    assert (first.at, first.sink) == (START, "hook")
    assert first.number < second.number
    journal.delivered([first.number])
    assert list(journal.queued("hook", limit=9)) == [second]
    assert len(journal.queued("file", limit=9)) == 2
    assert len(journal.queued("file", limit=1)) == 1
    assert not journal.queued("other", limit=9)


def test_notification_number_is_never_reused(journal: Journal) -> None:
    numbers_used: set[int] = set()
    for _ in range(3):
        journal.save(Memory(), [note_of()])
        numbers = [
            message.number
            for sink in ("hook", "file")
            for message in journal.queued(sink, limit=9)
        ]
        assert not numbers_used & set(numbers)
        numbers_used.update(numbers)
        journal.delivered(numbers)


def test_too_many_notifications_drop_the_oldest(journal: Journal) -> None:
    assert journal.dropped() == 0
    journal.save(Memory(), [note_of(f"E{number}") for number in range(5)])
    assert [message.body[:2] for message in journal.queued("hook", limit=9)] == [
        "E2",
        "E3",
        "E4",
    ]
    assert journal.dropped() == 4


def test_notes_of_removed_sinks_are_dropped(journal: Journal) -> None:
    journal.save(Memory(), [note_of("E1"), note_of("E2")])
    assert journal.drop_others({"hook", "file"}) == 0
    assert journal.drop_others({"hook", "fresh"}) == 2
    assert not journal.queued("file", limit=9)
    assert len(journal.queued("hook", limit=9)) == 2
    assert journal.drop_others(()) == 2
    # They were not dropped since too many waited.
    assert journal.dropped() == 0


def test_each_order_is_returned_once(bench: Bench) -> None:
    journal = bench.journal
    assert not journal.take_orders()
    bench.order("E1")
    bench.order("E2")
    assert list(journal.take_orders()) == ["E1", "E2"]
    assert not journal.take_orders()
    bench.order("E3")
    assert list(journal.take_orders()) == ["E3"]
