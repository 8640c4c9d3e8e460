"""Single fields of all records, which plans of campaigns read."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.fleet.model import Host, HostState, Scope, ScopeKind, Vm, VmState
from forewarn.protocol.operations import (
    Action,
    Move,
    Operation,
    OperationState,
    TargetKind,
    Verb,
)
from forewarn.store import kinds, questions
from forewarn.store.memory import MemoryStore
from forewarn.store.port import (
    ColumnReader,
    Reader,
    Store,
    StoreError,
    columns,
    columns_of,
    every,
    those_found,
)
from forewarn.store.snapshot import snapshots_of
from forewarn.store.sqlite import SqliteStore

NAMES = ("name", "state", "fault_domain", "movable", "memory", "addresses")


OPERATION = Operation(
    operation_id="op-1",
    request="req-1",
    verb=Verb.MAINTAIN,
    action=Action.LIVE_MIGRATE,
    target_kind=TargetKind.HOST,
    target="h1",
    host="h1",
    state=OperationState.DONE,
    routine=True,
    not_before=2,
    moves=(),
    scopes=(),
    duration_seconds=5,
    description="",
    created=1,
    ended_at=3,
)


def vm(number: int) -> Vm:
    return Vm(
        name=f"vm_{number:04}",
        wire_name=f"vm_{number:04}",
        host="h1",
        scope="web",
        tenant="shop",
        view="web",
        vm_id=f"00000000-0000-4000-8000-{number:012}",
        fault_domain=number % 3,
        state=list(VmState)[number % 3],
        movable=number % 2 == 0,
        memory=None if number % 5 else number,
        addresses=("10.0.0.1",) if number % 7 else (),
    )


def rows_of(
    reader: Reader, query: questions.Query[Any], names: Sequence[str]
) -> list[tuple[Any, ...]]:
    return [
        row for page in columns(reader, query, names) for row in zip(*page, strict=True)
    ]


def test_fields_are_those_of_the_records(store: Store) -> None:
    store.transact(lambda tx: [tx.add(vm(number)) for number in range(1_203)])
    rows = store.read(lambda reader: rows_of(reader, kinds.ALL_VMS, NAMES))
    assert rows == [
        tuple(getattr(record, name) for name in NAMES)
        for record in store.read(lambda reader: list(every(reader, kinds.ALL_VMS)))
    ]
    assert len(rows) == 1_203


def test_snapshot_of_a_file_reads_only_the_fields(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    store.transact(
        lambda tx: tx.add(
            Host(name="h1", state=HostState.DOWN, labels=(("model", "r7525"),))
        )
    )
    snapshot = snapshots_of(tmp_path / "store.db")
    assert snapshot.read(lambda reader: isinstance(reader, ColumnReader))
    names = ("name", "state", "labels", "last")
    assert snapshot.read(lambda r: rows_of(r, kinds.ALL_HOSTS, names)) == [
        ("h1", HostState.DOWN, (("model", "r7525"),), False)
    ]
    assert snapshot.read(lambda r: rows_of(r, kinds.ALL_VMS, NAMES)) == []
    snapshot.close()
    store.close()


def test_fields_of_a_query_are_in_the_order_of_its_values(tmp_path: Path) -> None:
    """A snapshot answers as the memory store does, for each query that plans read."""
    store = SqliteStore(tmp_path / "store.db")
    memory = MemoryStore()
    hosts = ("h2", "h1", "h3")
    vms = [replace(vm(number), host=hosts[number % 3]) for number in range(20)]
    vms[4] = replace(vms[4], moving_to="h9")
    scopes = [
        Scope(name="web", tenant="shop", kind=ScopeKind.SCALE_SET),
        Scope(name="vm", tenant="shop", kind=ScopeKind.STANDALONE, implied=True),
        Scope(name="db", tenant="shop", kind=ScopeKind.AVAILABILITY_SET),
    ]
    for each_store in (store, memory):
        each_store.transact(lambda tx: [tx.add(record) for record in [*vms, *scopes]])
    snapshot = snapshots_of(tmp_path / "store.db")
    for query, names in (
        (kinds.VMS_ON_HOST, ("host", "name", "state", "memory")),
        (kinds.FIXED_VMS_ON_HOST, ("host", "name")),
        (kinds.EXPLICIT_SCOPES, ("name", "kind")),
    ):
        stored = snapshot.read(lambda r: rows_of(r, query, names))  # noqa: B023
        assert stored == memory.read(lambda r: rows_of(r, query, names))  # noqa: B023
        assert stored == sorted(stored, key=lambda row: row[:2])
        assert len(stored) > 1
    stored = snapshot.read(lambda r: rows_of(r, kinds.VMS_ON_HOST, NAMES[:2]))
    assert {state for _, state in stored} == {VmState.RUNNING, VmState.DOWN}
    snapshot.close()
    store.close()


def test_fields_between_two_values_are_those_of_the_records(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    memory = MemoryStore()
    vms = [replace(vm(number), host=f"h{number % 5}") for number in range(20)]
    for each_store in (store, memory):
        each_store.transact(lambda tx: [tx.add(one) for one in vms])
    snapshot = snapshots_of(tmp_path / "store.db")

    def rows(reader: Reader, *between: str) -> list[tuple[Any, ...]]:
        first, last = between
        pages = columns(
            reader, kinds.VMS_ON_HOST, ("host", "name"), between=(first, last)
        )
        return [row for page in pages for row in zip(*page, strict=True)]

    for between in (("h1", "h3"), ("h2", "h2"), ("h4", "z"), ("x", "z"), ("", "")):
        stored = snapshot.read(lambda reader, span=between: rows(reader, *span))
        assert stored == memory.read(lambda reader, span=between: rows(reader, *span))
        assert stored == sorted(
            (record.host, record.name)
            for record in vms
            if between[0] <= record.host <= between[1]
            and record.state is not VmState.DELETED
        )
    snapshot.close()
    store.close()


def test_fields_among_some_values_are_those_of_the_records(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    memory = MemoryStore()
    vms = [replace(vm(number), host=f"h{number % 5}") for number in range(20)]
    for store_ in (store, memory):
        store_.transact(lambda tx: [tx.add(one) for one in vms])
    snapshot = snapshots_of(tmp_path / "store.db")

    def rows(reader: Reader, hosts: Sequence[str]) -> list[tuple[Any, ...]]:
        pages = columns(reader, kinds.VMS_ON_HOST, ("host", "name"), among=hosts)
        return [row for page in pages for row in zip(*page, strict=True)]

    for hosts in (["h3", "h1", "h1"], ["h2", "none"], ["none"], []):
        stored = snapshot.read(lambda reader, hosts=hosts: rows(reader, hosts))
        assert stored == memory.read(lambda reader, hosts=hosts: rows(reader, hosts))
        assert stored == sorted(
            (record.host, record.name)
            for record in vms
            if record.host in hosts and record.state is not VmState.DELETED
        )
    snapshot.close()
    store.close()


def test_fields_of_some_keys_are_those_of_their_records(tmp_path: Path) -> None:
    """A snapshot answers as the memory store does, also for keys that no record has."""
    store = SqliteStore(tmp_path / "store.db")
    memory = MemoryStore()
    vms = [vm(number) for number in range(1_203)]
    for each_store in (store, memory):
        each_store.transact(lambda tx: [tx.add(one) for one in vms])
    snapshot = snapshots_of(tmp_path / "store.db")

    def rows(reader: Reader, keys: Sequence[str]) -> list[tuple[Any, ...]]:
        pages = columns_of(reader, Vm, NAMES, keys)
        return [row for page in pages for row in zip(*page, strict=True)]

    some = [record.name for record in vms[::2]]
    for keys in ([*reversed(some), "none", some[0]], ["vm_0001"], ["none"], []):
        stored = snapshot.read(lambda reader, keys=keys: rows(reader, keys))
        assert stored == memory.read(lambda reader, keys=keys: rows(reader, keys))
        assert stored == [
            tuple(getattr(record, name) for name in NAMES)
            for record in vms
            if record.name in keys
        ]
    snapshot.close()
    store.close()


def test_values_that_are_found_are_those_with_a_record(store: Store) -> None:
    vms = [vm(number) for number in range(9)]
    moved = replace(vm(9), host="h2", moving_to="h3")
    store.transact(lambda tx: [tx.add(one) for one in [*vms, moved]])
    for query, values, found in (
        (kinds.VMS_ON_HOST, ("h1", "h2", "h3", ""), {"h1", "h2"}),
        (kinds.VMS_MOVING_TO, ("h1", "h2", "h3", ""), {"h3"}),
        (kinds.VMS_OF_SCOPE, ("web", "db"), {"web"}),
        (kinds.VMS_ON_HOST, (), set[str]()),
    ):
        for read in (store.read, store.transact):
            assert read(lambda tx: those_found(tx, query, values)) == found  # noqa: B023


def test_fields_of_the_members_of_lists_are_those_of_the_records(
    tmp_path: Path,
) -> None:
    moves = (
        Move(vm="web_0", to_host="h2", done=True),
        Move(vm="web_1", is_down=True),
        Move(vm="web_2"),
    )
    operations = [
        replace(OPERATION, operation_id=f"op-{number}", moves=moves[:number])
        for number in range(4)
    ]
    names = ("host", "moves.vm", "moves.to_host", "operation_id", "moves.is_down")
    store = SqliteStore(tmp_path / "store.db")
    memory = MemoryStore()
    for each_store in (store, memory):
        each_store.transact(lambda tx: [tx.add(one) for one in operations])
    snapshot = snapshots_of(tmp_path / "store.db")
    query = kinds.OPERATIONS_OF_REQUEST
    stored = snapshot.read(lambda reader: rows_of(reader, query, names))
    assert stored == memory.read(lambda reader: rows_of(reader, query, names))
    assert stored[0] == ("h1", (), (), "op-0", ())
    last = ("web_0", "web_1", "web_2"), ("h2", "", ""), "op-3", (False, True, False)
    assert stored[3] == ("h1", *last)
    snapshot.close()
    store.close()


def test_members_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    store = SqliteStore(file)
    store.transact(lambda tx: tx.add(replace(OPERATION, moves=(Move(vm="web_0"),))))
    store.close()
    names = ("host", "moves.vm")
    for text in ("[1]", "nothing"):
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("UPDATE operations SET moves = ?", [text])
        snapshot = snapshots_of(file)
        with pytest.raises(StoreError, match="a row of Operation cannot be read"):
            snapshot.read(
                lambda reader: rows_of(reader, kinds.OPERATIONS_OF_REQUEST, names)
            )
        snapshot.close()
