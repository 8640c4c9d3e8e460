"""The contract of stores: single records."""

from dataclasses import replace
from itertools import permutations
from typing import Never

import pytest

from forewarn.fleet.model import Host, HostState, Scope, ScopeKind, Tenant
from forewarn.protocol.actors import operator
from forewarn.protocol.events import Event, EventSource, EventStatus, EventType
from forewarn.protocol.operations import (
    Action,
    Move,
    Operation,
    OperationState,
    TargetKind,
    Verb,
)
from forewarn.store import kinds, questions
from forewarn.store.port import (
    DuplicateError,
    StaleWriteError,
    Store,
    Transaction,
    every,
)
from forewarn.store.records import AuditEntry, AuditKind

HOST = Host(
    name="h1",
    zone="1",
    cluster="c1",
    rack="r7",
    pool="amd",
    capacity=40,
    vcpu=0,
    memory=512 << 10,
    labels=(("model", "r7525"),),
    last=True,
)
DOWN = replace(HOST, state=HostState.DOWN)
OPERATION = Operation(
    operation_id="op-1",
    request="rq-1",
    verb=Verb.MAINTAIN,
    action=Action.REBOOT,
    target_kind=TargetKind.HOST,
    target="h1",
    host="h1",
    state=OperationState.ANNOUNCED,
    routine=True,
    not_before=5,
    moves=(Move(vm="web_0"), Move(vm="web_1", to_host="h2", done=True)),
    scopes=("db", "web"),
    duration_seconds=-1,
    description="kernel",
    created=1,
)
EVENT = Event(
    event_id="C7061BAC-AFDC-4513-B24B-AA5F13A16123",
    operation="op-1",
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


def get_host(store: Store) -> Host | None:
    return store.read(lambda reader: reader.get(Host, "h1"))


def add_host(store: Store) -> Host:
    return store.transact(lambda tx: tx.add(HOST))


def test_unknown_record_is_read_as_none(store: Store) -> None:
    assert get_host(store) is None


def test_record_is_read_back_unchanged(store: Store) -> None:
    assert add_host(store) == HOST
    assert get_host(store) == HOST


def test_kinds_do_not_share_their_keys(store: Store) -> None:
    add_host(store)
    tenant = store.transact(lambda tx: tx.add(Tenant(name="h1")))
    assert store.read(lambda reader: reader.get(Tenant, "h1")) == tenant
    assert get_host(store) == HOST


def test_a_second_record_with_the_same_key_is_refused(store: Store) -> None:
    add_host(store)
    with pytest.raises(DuplicateError, match="Host h1"):
        store.transact(lambda tx: tx.add(DOWN))
    assert get_host(store) == HOST


def test_key_can_be_reused_after_removal(store: Store) -> None:
    old = add_host(store)

    def work(tx: Transaction) -> None:
        tx.remove(old)
        tx.add(DOWN)

    store.transact(work)
    assert get_host(store) == DOWN


def test_replacing_raises_the_revision(store: Store) -> None:
    old = add_host(store)
    new = store.transact(lambda tx: tx.replace(old, DOWN))
    assert new == replace(DOWN, revision=1)
    assert get_host(store) == new
    newer = store.transact(lambda tx: tx.replace(new, replace(new, zone="2")))
    assert newer.revision == 2
    assert get_host(store) == newer


def test_a_record_may_be_replaced_twice_in_one_transaction(store: Store) -> None:
    old = add_host(store)

    def work(tx: Transaction) -> Host:
        return tx.replace(tx.replace(old, DOWN), HOST)

    assert store.transact(work) == replace(HOST, revision=2)
    assert get_host(store) == replace(HOST, revision=2)


def test_replacing_a_changed_record_is_refused(store: Store) -> None:
    old = add_host(store)
    new = store.transact(lambda tx: tx.replace(old, DOWN))
    with pytest.raises(StaleWriteError, match="Host h1"):
        store.transact(lambda tx: tx.replace(old, HOST))
    assert get_host(store) == new


def test_removing_a_changed_record_is_refused(store: Store) -> None:
    old = add_host(store)
    new = store.transact(lambda tx: tx.replace(old, DOWN))
    with pytest.raises(StaleWriteError, match="Host h1"):
        store.transact(lambda tx: tx.remove(old))
    assert get_host(store) == new


def test_writing_to_a_missing_record_is_refused(store: Store) -> None:
    with pytest.raises(StaleWriteError):
        store.transact(lambda tx: tx.replace(HOST, DOWN))
    with pytest.raises(StaleWriteError):
        store.transact(lambda tx: tx.remove(HOST))
    assert get_host(store) is None


def test_key_of_a_record_cannot_be_replaced(store: Store) -> None:
    old = add_host(store)
    with pytest.raises(AssertionError):
        store.transact(lambda tx: tx.replace(old, replace(old, name="h2")))
    assert get_host(store) == HOST


def test_refused_write_leaves_the_transaction_unchanged(store: Store) -> None:
    old = add_host(store)
    stale = replace(old, revision=7)

    def work(tx: Transaction) -> Host:
        tx.add(Tenant(name="shop"))
        with pytest.raises(DuplicateError):
            tx.add(HOST)
        with pytest.raises(StaleWriteError):
            tx.replace(stale, DOWN)
        with pytest.raises(StaleWriteError):
            tx.remove(stale)
        return tx.replace(old, DOWN)

    new = store.transact(work)
    assert get_host(store) == new
    assert store.read(lambda reader: reader.get(Tenant, "shop"))


def test_a_transaction_sees_its_own_writes(store: Store) -> None:
    def work(tx: Transaction) -> None:
        host = tx.add(HOST)
        assert tx.get(Host, "h1") == host
        assert tx.select(kinds.ALL_HOSTS) == [host]
        host = tx.replace(host, DOWN)
        assert tx.get(Host, "h1") == host
        assert tx.select(kinds.ALL_HOSTS) == [host]
        tx.remove(host)
        assert tx.get(Host, "h1") is None
        assert tx.select(kinds.ALL_HOSTS) == []

    store.transact(work)
    assert get_host(store) is None


def test_an_error_forgets_all_writes(store: Store) -> None:
    old = add_host(store)

    def work(tx: Transaction) -> Never:
        tx.replace(old, DOWN)
        tx.add(Tenant(name="shop"))
        tx.lock_safety_rows(["web"])
        raise LookupError("work failed")

    with pytest.raises(LookupError, match="work failed"):
        store.transact(work)
    assert get_host(store) == HOST
    assert store.read(lambda reader: reader.get(Tenant, "shop")) is None


def test_operation_is_indexed_by_its_current_vms_and_scopes(store: Store) -> None:
    def find(query: questions.Query[Operation]) -> list[str]:
        values = ("db", "web", "web_0", "web_1", "web_2")
        return store.read(
            lambda reader: [value for value in values if reader.select(query, value)]
        )

    first = store.transact(lambda tx: tx.add(OPERATION))
    assert find(kinds.OPEN_OPERATIONS_OF_VM) == ["web_0", "web_1"]
    assert find(kinds.OPEN_OPERATIONS_OF_SCOPE) == ["db", "web"]
    changed = replace(first, moves=(Move(vm="web_2"), Move(vm="web_1")))
    second = store.transact(lambda tx: tx.replace(first, changed))
    assert find(kinds.OPEN_OPERATIONS_OF_VM) == ["web_1", "web_2"]
    ended = replace(second, state=OperationState.DONE, ended_at=9)
    third = store.transact(lambda tx: tx.replace(second, ended))
    assert find(kinds.OPEN_OPERATIONS_OF_VM) == []
    assert find(kinds.OPEN_OPERATIONS_OF_SCOPE) == []
    assert find(kinds.OPERATIONS_OF_VM) == ["web_1", "web_2"]
    assert find(kinds.OPERATIONS_OF_SCOPE) == ["db", "web"]
    store.transact(lambda tx: tx.remove(third))
    assert find(kinds.OPERATIONS_OF_VM) == []
    assert find(kinds.OPERATIONS_OF_SCOPE) == []


def test_record_with_a_repeated_value_is_found_once(store: Store) -> None:
    entry = AuditEntry(
        entry_id="1",
        at=1,
        actor=operator("operator"),
        kind=AuditKind.MAINTAIN_ORDERED,
        why="",
        subjects=("vm:web_0", "host:h1", "vm:web_0"),
    )
    store.transact(lambda tx: tx.add(entry))
    stored = store.read(lambda r: r.select(kinds.AUDIT_OF_SUBJECT, "vm:web_0"))
    assert stored == [entry]


def test_entry_about_an_operation_is_found_by_everything_it_names(
    store: Store,
) -> None:
    operation = replace(
        OPERATION, moves=(Move(vm="web_0"),), left_vms=("web_1",), scopes=("web",)
    )
    event = replace(EVENT, operation=operation.operation_id)
    subjects = (
        f"operation:{operation.operation_id}",
        f"request:{operation.request}",
        f"host:{operation.host}",
        f"event:{event.event_id}",
        "scope:web",
        "tenant:shop",
        "vm:web_0",
        "vm:web_1",
    )
    entry = AuditEntry(
        entry_id="1",
        at=1,
        actor=operator("operator"),
        kind=AuditKind.OPERATION_READY,
        why="",
        subjects=subjects,
        operation=operation.operation_id,
    )
    other = replace(entry, entry_id="2", subjects=subjects[:1])
    scope = Scope(name="web", tenant="shop", kind=ScopeKind.SCALE_SET)
    for record in (scope, operation, event, entry, other):
        store.transact(lambda tx, record=record: tx.add(record))

    def found(subject: str) -> list[str]:
        return [
            entry.entry_id
            for entry in store.read(
                lambda reader: reader.select(kinds.AUDIT_OF_SUBJECT, subject)
            )
        ]

    assert found(subjects[0]) == ["1", "2"]
    for subject in subjects[1:]:
        assert found(subject) == ["1"], subject
    assert found("vm:web_2") == found("tenant:bank") == []


def test_texts_with_signs_of_a_database_are_stored_as_they_are(store: Store) -> None:
    signs = (
        "",
        "NULL",
        "null",
        "{}",
        ",",
        '"',
        "\\",
        '\\"',
        "a\nb\t",
        "'",
        "%s",
        "é✓",
        " ",
    )
    texts = [*signs, *("".join(pair) for pair in permutations(signs[3:8], 2))]
    hosts = {f"h{number:03}": text for number, text in enumerate(texts)}
    store.transact(
        lambda tx: [tx.add(Host(name=name, zone=text)) for name, text in hosts.items()]
    )

    def move(tx: Transaction) -> None:
        for host in every(tx, kinds.ALL_HOSTS):
            tx.replace(host, replace(host, rack=host.zone, capacity=None))

    store.transact(move)
    stored = store.read(lambda reader: list(every(reader, kinds.ALL_HOSTS)))
    assert {host.name: (host.zone, host.rack) for host in stored} == {
        name: (text, text) for name, text in hosts.items()
    }
