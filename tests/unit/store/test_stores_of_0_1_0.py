"""A store of version 0.1.0 is migrated, valid, and its operations continue."""

import gzip
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from forewarn.control.redaction import tenant_reader
from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.requests import failures, outcome
from forewarn.control.rules.policy import Policy
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.protocol.actors import Actor, ActorKind, operator, tenant_user, vm_actor
from forewarn.protocol.operations import (
    ENDED_STATES,
    CallState,
    Operation,
    OperationState,
    Request,
)
from forewarn.reporting import accounts, explanations
from forewarn.store import kinds
from forewarn.store.check import check
from forewarn.store.port import Reader, every
from forewarn.store.records import AuditEntry, AuditKind
from forewarn.store.sequence import key_of
from forewarn.store.sqlite import SqliteStore
from forewarn.wording.operators import detail_of
from tests.support.worlds import World

WRITTEN = Path(__file__).parents[2] / "fixtures" / "stores_0_1_0" / "states.sql.gz"
T = TypeVar("T")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file as 0.1.0 left it."""
    path = tmp_path_factory.mktemp("old") / "forewarn.db"
    with sqlite3.connect(path) as database:
        database.executescript(gzip.decompress(WRITTEN.read_bytes()).decode("utf-8"))
    database.close()
    return path


@pytest.fixture
def path(original: Path, tmp_path: Path) -> Path:
    path = tmp_path / "forewarn.db"
    path.write_bytes(original.read_bytes())
    return path


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(path)
    yield opened
    opened.close()


RENAMED = {"operation noticed": "operation announced"}
"""What history calls by another name since 0.1.0."""


def entries(reader: Reader) -> list[AuditEntry]:
    return list(every(reader, kinds.ALL_AUDIT))


def told(entry: AuditEntry) -> str:
    """Return an entry as `history` of 0.1.0 and of today shows it."""
    return (
        f"{entry.at} {entry.actor.text}, {entry.what}: {detail_of(entry)} {entry.why}"
    )


def test_migrated_store_passes_the_check(store: SqliteStore, path: Path) -> None:
    store.close()
    assert check(path) == []


def test_history_shows_the_same_lines_in_the_same_order(
    original: Path, store: SqliteStore
) -> None:
    database = sqlite3.connect(original)
    before = [
        f"{at} {actor}, {RENAMED.get(what, what)}: {detail} {why}"
        for at, actor, what, detail, why in database.execute(
            "SELECT at, actor, what, detail, why FROM audit ORDER BY entry_id"
        )
    ]
    database.close()
    assert [told(entry) for entry in store.read(entries)] == before


def test_history_of_each_subject_has_the_same_entries(
    original: Path, store: SqliteStore
) -> None:
    database = sqlite3.connect(original)
    links = database.execute("SELECT subject, entry_id FROM audit_subjects").fetchall()
    database.close()
    before: dict[str, list[str]] = {}
    for subject, entry_id in sorted(links):
        before.setdefault(subject, []).append(f"000000.{entry_id}")
    assert len(before) > 50

    def ask(reader: Reader) -> dict[str, list[str]]:
        return {
            subject: [e.key for e in every(reader, kinds.AUDIT_OF_SUBJECT, subject)]
            for subject in before
        }

    after = store.read(ask)
    assert after == before


def test_actors_are_migrated_to_values(store: SqliteStore) -> None:
    def ask(reader: Reader) -> tuple[set[Actor], set[Actor | None], set[Actor | None]]:
        operations = list(every(reader, kinds.ALL_OPERATIONS))
        events = [
            event
            for operation in operations
            for event in every(reader, kinds.EVENTS_OF_OPERATION, operation.key)
        ]
        requests = (reader.get(Request, operation.request) for operation in operations)
        return (
            {request.actor for request in requests if request is not None},
            {event.approver for event in events},
            {operation.cancelled_by for operation in operations},
        )

    ordered, approved, cancelled = store.read(ask)
    assert ordered >= {operator("alice"), tenant_user("shop", "ci")}
    assert approved >= {
        None,
        vm_actor("done_0"),
        operator("alice"),
        tenant_user("shop", "ci"),
        Actor(kind=ActorKind.POLICY, name="nobody listens"),
        Actor(kind=ActorKind.POLICY, name="failure"),
    }
    assert cancelled == {None, operator("alice"), tenant_user("shop", "ci")}


def test_creators_of_tokens_are_migrated_to_values(store: SqliteStore) -> None:
    tokens = store.read(lambda reader: list(every(reader, kinds.ALL_TOKENS)))
    assert [token.created_by for token in tokens] == [operator("operator")] * 2


def test_operation_is_found_by_a_vm_that_left_it(store: SqliteStore) -> None:
    stored = store.read(lambda reader: reader.select(kinds.OPERATIONS_OF_VM, "gone_0"))
    assert [operation.left_vms for operation in stored] == [("gone_0",)]


def test_messages_for_receivers_keep_their_order_and_approvers(
    original: Path, store: SqliteStore
) -> None:
    database = sqlite3.connect(original)
    before = database.execute(
        "SELECT public_id, json_extract(body, '$.approved_by') FROM outbox"
        " ORDER BY message_id"
    ).fetchall()
    database.close()
    messages = store.read(lambda reader: list(every(reader, kinds.ALL_OUTBOX)))
    assert [
        (message.public_id, message.approver.as_approver if message.approver else None)
        for message in messages
    ] == before
    assert all(message.message_id < key_of(1, 1) for message in messages)


def test_tenant_sees_only_its_entries_and_no_operator_names(store: SqliteStore) -> None:
    def ask(reader: Reader) -> list[AuditEntry]:
        return entries(TenantReader(reader, "shop"))

    shown = store.read(ask)
    texts = " ".join(f"{told(entry)} {entry.subjects}" for entry in shown)
    # The letters of an alias are random.
    texts = re.sub(r"(?:op|rq|ro)-(?:[0-9a-z]{16}|[0-9a-z]{10})", "ID", texts)
    assert "shop/ci" in texts
    assert "by (shop/ci)" in texts
    for secret in ("alice", "kernel", "-host", "set_0", "bank", "h0"):
        assert secret not in texts
    assert {entry.kind for entry in shown} >= {
        AuditKind.OPERATION_CANCELLED,
        AuditKind.EVENT_APPROVED,
    }


def test_each_operation_can_be_explained_and_accounted(store: SqliteStore) -> None:
    def ask(reader: Reader) -> None:
        now = max(entry.at for entry in entries(reader))
        for operation in every(reader, kinds.ALL_OPERATIONS):
            assert explanations.of_operation(reader, operation, now=now)["status"]
            assert accounts.account(reader, operation, now=now)["phases"]
            own = TenantReader(reader, "shop").get(Operation, operation.key)
            if own is not None:
                tenant_reader.blockers(TenantReader(reader, "shop"), own, now=now)

    store.read(ask)


def test_migrated_operations_continue_to_their_end(path: Path) -> None:
    with sqlite3.connect(path) as database:
        [(last,)] = database.execute("SELECT max(at) FROM audit")
    database.close()
    world = World(
        store=lambda: SqliteStore(path),
        driver=SimulatedDriver(),
        policy=Policy(),
        start=last + 1,
        seed=11,
    )

    def operations(state: OperationState) -> list[Operation]:
        return world.read(
            lambda reader: reader.select(kinds.OPERATIONS_IN_STATE, state.value)
        )

    def order(decide: Callable[..., object]) -> None:
        world.order(decide)

    world.advance("1m")
    [held] = operations(OperationState.READY)
    assert held.held_by
    # The driver has lost its memory: no work is repeated before an operator checks.
    unknown = [
        operation
        for operation in operations(OperationState.IMPACTING)
        if operation.call_state is CallState.UNKNOWN
    ]
    assert unknown
    for operation in unknown:
        order(lambda work, o=operation.key: outcome.resolve(work, o, done=True))
    order(lambda work: failures.restore_host(work, "h0"))
    world.advance("3h")
    rest = [
        operation
        for operation in world.read(lambda reader: reader.select(kinds.ALL_OPERATIONS))
        if operation.state not in ENDED_STATES
    ]
    assert rest == []
    world.store.close()
    assert check(path) == []
    # Later decisions are listed after earlier ones.
    reopened = SqliteStore(path)
    keys = [entry.key for entry in reopened.read(entries)]
    reopened.close()
    assert keys[0].startswith("000000.")
    assert keys[-1].startswith("000001.")
