"""The writer's cache equals the stored records: compared with a store without it."""

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.blackouts import Blackout
from forewarn.fleet.model import Span, SpanKind, Vm, VmState
from forewarn.protocol.actors import operator, vm_actor
from forewarn.protocol.events import Event, EventSource, EventStatus, EventType
from forewarn.protocol.notes import Said
from forewarn.protocol.operations import (
    Action,
    Operation,
    OperationState,
    TargetKind,
    Verb,
)
from forewarn.protocol.views import View
from forewarn.store import cache, kinds, questions
from forewarn.store.memory import MemoryStore
from forewarn.store.port import (
    ConflictError,
    DuplicateError,
    StaleWriteError,
    Store,
    Transaction,
    every,
)
from forewarn.store.questions import Record
from forewarn.store.records import AuditEntry, AuditKind
from forewarn.store.relay_links import RelayLink
from forewarn.store.sqlite import SqliteStore
from forewarn.store.wide_blackouts import WideBlackout

T = TypeVar("T")

KEYS = [f"E{number}" for number in range(6)]
STEPS = 600

EVENT = Event(
    event_id="E0",
    operation="op-0",
    scope="web",
    tenant="shop",
    status=EventStatus.SCHEDULED,
    event_type=EventType.REBOOT,
    source=EventSource.PLATFORM,
    resources=(),
    not_before=5,
    description="",
    duration_seconds=-1,
    created=1,
)
OPERATION = Operation(
    operation_id="op-0",
    request="ro-0",
    verb=Verb.MAINTAIN,
    action=Action.REBOOT,
    target_kind=TargetKind.HOST,
    target="h1",
    host="h1",
    state=OperationState.PLANNED,
    routine=True,
    not_before=5,
    moves=(),
    scopes=(),
    duration_seconds=-1,
    description="",
    created=1,
)
VM = Vm(
    name="web_0",
    wire_name="web_0",
    host="h1",
    scope="web",
    tenant="shop",
    view="web",
    fault_domain=0,
    update_domain=0,
    vm_id="11111111-2222-3333-4444-555555555555",
)
SPAN = Span(
    span_id="web_0/1",
    vm="web_0",
    scope="web",
    tenant="shop",
    fault_domain=0,
    kind=SpanKind.REBOOT,
    began=1,
)
VIEW = View(view_id="web", scope="web", enabling="web")
BLACKOUT = WideBlackout(
    name="quarter",
    time=Blackout(name="quarter", begins="2026-12-28T00:00", ends="2027-01-04T00:00"),
    by=operator("ada"),
    reason="the books are closed",
    since=1,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(path)
    yield opened
    opened.close()


def entry(number: int) -> AuditEntry:
    return AuditEntry(
        entry_id=str(number),
        at=1,
        actor=operator("test"),
        kind=AuditKind.HOST_FAILED,
        why="",
        subjects=("a",),
    )


def step(tx: Transaction, chance: random.Random) -> list[Any]:
    """Do or ask one thing at random; return what was seen."""
    key = chance.choice(KEYS)
    event = tx.get(Event, key)
    match chance.randrange(6):
        case 0 if event is None:
            operation = f"op-{chance.randrange(2)}"
            return [tx.add(replace(EVENT, event_id=key, operation=operation))]
        case 1 if event is not None and not chance.randrange(3):
            tx.remove(event)
            return []
        case 2 if event is not None:
            status = chance.choice([*EventStatus])
            return [tx.replace(event, replace(event, status=status))]
        case 3 if event is not None:
            return [tx.replace(event, replace(event, approver=vm_actor("web_0")))]
        case 4:
            return list(every(tx, kinds.LIVE_EVENTS_OF_SCOPE, "web", page=3))
        case _:
            query = kinds.EVENTS_OF_OPERATION
            return tx.select(query, f"op-{chance.randrange(2)}")


def live(store: Store, seed: int) -> list[Any]:
    """Live a random life of transactions, some of which fail; tell all of it."""
    chance = random.Random(seed)
    all_seen: list[Any] = []
    while len(all_seen) < STEPS:
        step_results: list[Any] = []

        def work(tx: Transaction, seen: list[Any] = step_results) -> None:
            seen += [step(tx, chance) for _ in range(chance.randrange(1, 8))]
            if not chance.randrange(5):
                raise LookupError

        try:
            store.transact(work)
        except LookupError:
            step_results.append("rolled back")
        all_seen += step_results
        all_seen.append(store.read(lambda reader: [reader.get(Event, k) for k in KEYS]))
    return all_seen


@pytest.mark.parametrize("seed", range(8))
def test_store_with_cache_returns_the_same_as_without(
    store: SqliteStore, seed: int
) -> None:
    assert live(store, seed) == live(MemoryStore(), seed)


def test_long_query_results_are_queried_again(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "ANSWER_KEYS_MAX", 2)
    monkeypatch.setattr(cache, "ANSWERS_KEPT", 1)
    monkeypatch.setattr(cache, "RECORDS_KEPT", 1)
    assert live(store, 99) == live(MemoryStore(), 99)


def test_record_replaced_repeatedly_is_written_once(store: SqliteStore) -> None:
    store.transact(lambda tx: tx.add(VM))
    written: list[str] = []
    original = store._writer
    assert original

    def work(tx: Transaction) -> None:
        vm = tx.get(Vm, "web_0")
        for number in range(3):
            assert vm
            vm = tx.replace(vm, replace(vm, started=(*vm.started, f"op-{number}")))

    original._sqlite.set_trace_callback(written.append)
    store.transact(work)
    updates = [sql for sql in written if sql.startswith("UPDATE")]
    assert len(updates) == 1
    assert "revision = 3" in updates[0]
    assert "addresses" not in updates[0]
    stored = store.read(lambda reader: reader.get(Vm, "web_0"))
    assert stored == replace(VM, started=("op-0", "op-1", "op-2"), revision=3)


def changed_behind(store: SqliteStore) -> Callable[[str], object]:
    """Return what changes the file as no other program may."""
    assert store._writer
    return store._writer.run


def test_record_changed_by_another_connection_is_read_again(store: SqliteStore) -> None:
    store.transact(lambda tx: tx.add(VM))
    run = changed_behind(store)
    run("UPDATE vms SET revision = 7")

    def work(tx: Transaction) -> Vm:
        vm = tx.get(Vm, "web_0")
        assert vm
        return tx.replace(vm, replace(vm, started=("op-1",)))

    assert store.transact(work).revision == 8


def test_file_that_another_program_changed_is_read_anew(
    store: SqliteStore, path: Path
) -> None:
    """As by a restore into the open file: all records can be others."""
    store.transact(lambda tx: tx.add(VM))
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE vms SET host = 'h9'")
        other.commit()
    vm = store.transact(lambda tx: tx.get(Vm, "web_0"))
    assert vm is not None
    assert vm.host == "h9"


def test_removed_records_take_no_room_in_the_cache(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "RECORDS_KEPT", 10)
    store.transact(lambda tx: tx.add(VM))
    events = [replace(EVENT, event_id=f"E{number}") for number in range(20)]
    store.transact(lambda tx: [tx.add(event) for event in events])
    store.transact(lambda tx: tx.get(Vm, "web_0"))

    def purge(tx: Transaction) -> None:
        for event in every(tx, kinds.EVERYTHING[Event]):
            tx.remove(event)

    store.transact(purge)
    assert store._committed.find((Vm, "web_0"))
    assert all(store._committed.find((Event, it.event_id)) is None for it in events)
    assert store.transact(lambda tx: tx.get(Event, "E0")) is None


def test_audit_entry_is_never_written_twice(store: SqliteStore) -> None:
    store.transact(lambda tx: tx.add(entry(1)))

    def work(tx: Transaction) -> None:
        tx.add(VM)
        tx.add(entry(2))
        tx.add(entry(1))

    with pytest.raises(DuplicateError, match="one of 2 AuditEntry exists already"):
        store.transact(work)
    assert store.read(lambda reader: reader.get(Vm, "web_0")) is None
    assert store.read(lambda reader: reader.get(AuditEntry, "2")) is None


def test_operations_are_sent_in_bulk_and_never_written_twice(
    store: SqliteStore,
) -> None:
    first = replace(OPERATION, operation_id="op-1")
    store.transact(lambda tx: tx.add(first))
    store._committed.forget()

    def work(tx: Transaction) -> None:
        added = tx.add(replace(OPERATION, operation_id="op-2"))
        tx.replace(added, replace(added, note=Said(text="changed before it was sent")))
        tx.add(first)

    with pytest.raises(DuplicateError, match="one of 2 Operation exists already"):
        store.transact(work)
    assert store.read(lambda reader: reader.get(Operation, "op-2")) is None


def test_a_cached_record_is_not_added_again(store: SqliteStore) -> None:
    store.transact(lambda tx: tx.add(VM))
    with pytest.raises(DuplicateError, match="Vm web_0 exists already"):
        store.transact(lambda tx: tx.add(VM))
    removed = store.transact(lambda tx: tx.remove(VM))
    assert removed is None
    assert store.transact(lambda tx: tx.add(VM)) == VM


def test_pending_record_cannot_be_added_again(store: SqliteStore) -> None:
    def work(tx: Transaction) -> None:
        tx.add(OPERATION)
        with pytest.raises(DuplicateError, match="Operation op-0 exists already"):
            tx.add(OPERATION)
        raise ConflictError("seen")

    with pytest.raises(ConflictError, match="seen"):
        store.transact(work)


def test_operation_changed_before_it_is_sent_is_sent_once(
    store: SqliteStore,
) -> None:
    def work(tx: Transaction) -> Operation:
        added = tx.add(OPERATION)
        return tx.replace(added, replace(added, waits_for=("room",)))

    written = store.transact(work)
    assert store.read(lambda reader: reader.get(Operation, written.key)) == written
    waiting = store.read(
        lambda reader: reader.select(kinds.OPERATIONS_THAT_WAIT, "room")
    )
    assert waiting == [written]
    ended = store.transact(
        lambda tx: tx.replace(written, replace(written, waits_for=()))
    )
    assert not store.read(
        lambda reader: reader.select(kinds.OPERATIONS_THAT_WAIT, "room")
    )
    assert ended.revision == written.revision + 1


def test_stale_write_raises_at_once_and_names_the_record(store: SqliteStore) -> None:
    old = store.transact(lambda tx: tx.add(VM))
    store.transact(lambda tx: tx.replace(old, old))

    def work(tx: Transaction) -> None:
        with pytest.raises(StaleWriteError, match="Vm web_0"):
            tx.replace(old, old)
        raise ConflictError("seen")

    with pytest.raises(ConflictError, match="seen"):
        store.transact(work)


class Looked:
    """Stands for a record, and remembers which of its fields were looked at."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.fields: set[str] = set()

    def __getattr__(self, name: str) -> object:
        attribute = getattr(type(self.record), name)
        if isinstance(attribute, property):
            assert attribute.fget is not None
            return attribute.fget(self)
        self.fields.add(name)
        return getattr(self.record, name)


def _campaign(*, ended: int) -> CampaignRecord:
    """Return a campaign that has no other field."""
    campaign = object.__new__(CampaignRecord)
    object.__setattr__(campaign, "ended", ended)
    return campaign


@pytest.mark.parametrize("query", cache.REMEMBERED, ids=lambda query: query.name)
@pytest.mark.parametrize("is_live", [True, False])
def test_query_result_depends_only_on_the_declared_fields(
    query: questions.Query[Any], is_live: bool
) -> None:
    records: dict[type, Record] = {
        Event: EVENT if is_live else replace(EVENT, status=EventStatus.REMOVED),
        Vm: VM if is_live else replace(VM, state=VmState.DELETED),
        Span: SPAN if is_live else replace(SPAN, ended=SPAN.began),
        View: VIEW,
        Operation: OPERATION if is_live else replace(OPERATION, ended_at=1),
        CampaignRecord: _campaign(ended=0 if is_live else 1),
        WideBlackout: BLACKOUT,
        RelayLink: RelayLink(host="h1", term=1),
    }
    looked: Any = Looked(records[query.kind])
    list(query.values(looked))
    assert looked.fields <= set(cache.RELEVANT_FIELDS[query.kind])
