"""Reads for the relay of a host: the texts that it gets, and the statements and rows."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.control import relays
from forewarn.control.transactions.publishing import events_for, guest_of, snapshot_of
from forewarn.fleet import instance_json
from forewarn.fleet.instance import InstanceFacts
from forewarn.fleet.model import Host, Scope, ScopeKind, Vm, VmState
from forewarn.protocol import relayed
from forewarn.protocol.events import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    Resource,
)
from forewarn.protocol.lifecycle import ViewState
from forewarn.protocol.views import View
from forewarn.store.connection import Connection
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Reader, Store, Transaction
from forewarn.store.snapshot import SnapshotReader
from forewarn.store.sqlite import SqliteStore

VMS = 20
"""VMs of each host; each is in a scope of its own."""

UNREAD = ("movable", "started", "left_views", "down_for", "last_seen", "digest")
"""Some columns that no relay gets."""

_MANY = r" FROM (scopes|views|vms WHERE state)\b"
"""The statements that read a row for each VM."""


class CountedConnection(Connection):
    """A connection to a file that counts its statements and the rows of the results."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, read_only=True)
        self.statements: list[str] = []
        self.rows_read: Counter[str] = Counter()

    def rows(self, sql: str, parameters: Any = ()) -> list[Any]:
        return self._counted(sql, super().rows(sql, parameters))

    def pages(self, sql: str, rows: int, parameters: Any = ()) -> Iterator[list[Any]]:
        pages = [*super().pages(sql, rows, parameters)]
        self._counted(sql, [row for page in pages for row in page])
        return iter(pages)

    def _counted(self, sql: str, rows: list[Any]) -> list[Any]:
        self.statements.append(sql)
        self.rows_read[sql.partition(" FROM ")[2].split()[0]] += len(rows)
        return rows


def vm(number: int, host: str) -> Vm:
    return Vm(
        name=f"vm_{number:03}",
        wire_name=f"vm_{number:03}",
        host=host,
        scope=f"scope-{number:03}",
        tenant="shop",
        view=f"scope-{number:03}",
        vm_id=f"00000000-0000-4000-8000-{number:012}",
        size="" if number % 3 else "general-4",
        spot=number % 5 == 0,
        tags=(("role", 'a "b" é'),) if number % 4 == 0 else (),
        fault_domain=number % 3,
        addresses=(f"10.0.0.{number}", "2001:db8::1")[: 1 + number % 2],
    )


def view(record: Vm, *, is_enabled: bool = True) -> View:
    return View(
        view_id=record.view,
        scope=record.scope,
        enabling=record.scope,
        state=ViewState.ENABLED if is_enabled else ViewState.DISABLED,
        epoch=2,
        incarnation=3,
    )


def scope(number: int) -> Scope:
    return Scope(
        name=f"scope-{number:03}",
        tenant="shop",
        kind=ScopeKind.STANDALONE if number % 6 else ScopeKind.SCALE_SET,
        scale_set="web" if number % 12 == 0 else "",
    )


def event(record: Vm, number: int) -> Event:
    return Event(
        event_id=f"E-{number}",
        operation="op-1",
        scope=record.scope,
        tenant="shop",
        status=EventStatus.SCHEDULED,
        event_type=EventType.REBOOT,
        source=EventSource.PLATFORM,
        resources=(Resource(vm=record.name, name=record.wire_name, fault_domain=0),),
        not_before=1_893_456_000_000_000,
        description="",
        duration_seconds=5,
        created=number,
    )


def fill(tx: Transaction) -> None:
    """Two hosts with VMs, one of which has events, and one that moves to the first."""
    tx.add(Host(name="h1", zone="3"))
    tx.add(Host(name="h2"))
    vms = [vm(number, "h1" if number < VMS else "h2") for number in range(2 * VMS)]
    vms[3] = replace(vms[3], state=VmState.DELETED)
    vms[VMS] = replace(vms[VMS], moving_to="h1")
    vms[VMS + 1] = replace(vms[VMS + 1], state=VmState.DELETED, moving_to="h1")
    for number, record in enumerate(vms):
        tx.add(scope(number))
        tx.add(record)
        stored = view(record, is_enabled=number % 7 != 1)
        tx.add(replace(stored, events_from=9 if number == 2 else 0))
    for number, record in enumerate((vms[0], vms[0], vms[2], vms[VMS])):
        tx.add(event(record, number))


def by_records(
    reader: Reader, names: list[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the texts of VMs and of their views, made from whole records."""
    guests: dict[str, str] = {}
    views: dict[str, str] = {}
    for name in names:
        record = reader.get(Vm, name)
        assert record is not None
        its_scope, host = reader.get(Scope, record.scope), reader.get(Host, record.host)
        stored = reader.get(View, record.view)
        assert its_scope is not None
        assert host is not None
        assert stored is not None
        facts = InstanceFacts(vm=record, scope=its_scope, host=host)
        members = instance_json.members_of(facts)
        guests[name] = relayed.guest_text(guest_of(record), members)
        snapshot = snapshot_of(stored, events_for(reader, stored))
        views[stored.view_id] = relayed.view_text(snapshot)
    return guests, views


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_relay_gets_the_vms_of_its_host_as_their_records_say(
    tmp_path: Path, kind: str
) -> None:
    store: Store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "db")
    store.transact(fill)

    def compare(reader: Reader) -> None:
        served = relays.served(reader, "h1", relays.Texts(reader))
        names = [f"vm_{number:03}" for number in range(VMS + 1) if number != 3]
        guests, views = by_records(reader, names)
        assert served.guests == guests
        assert served.views == views
        assert served.view_of == {name: f"scope-{name[3:]}" for name in names}
        assert sum('"events":[]' not in text for text in views.values()) == 2

    store.read(compare)
    store.close()


def counted(path: Path, host: str) -> CountedConnection:
    """Read what the relay of a host gets; return what was read for it."""
    connection = CountedConnection(path)
    connection.begin_snapshot()
    reader = SnapshotReader(connection)
    relays.served(reader, host, relays.Texts(reader))
    connection.close()
    return connection


def test_relay_that_comes_back_costs_few_statements_whatever_its_vms(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    store.transact(lambda tx: tx.add(Host(name="h0")))
    store.transact(fill)
    quiet = counted(path, "h2")
    assert quiet.rows_read == {
        "vms": VMS - 1,
        "scopes": VMS - 1,
        "views": VMS - 1,
        "hosts": 1,
        "tokens": 0,
        # Those with a live event, of the VM that moves.
        "json_each(?)": 1,
        "events": 1,
    }
    of_many = [sql for sql in quiet.statements if re.search(_MANY, sql)]
    assert len(of_many) == 3
    for sql in of_many:
        assert not set(UNREAD) & set(re.findall(r"\w+", sql)), sql
    # One more for the VM that moves to it, and its host; the scope with two events is
    # read once, and no scope without an event.
    busy = counted(path, "h1")
    assert len(quiet.statements) == 8
    assert len(busy.statements) == len(quiet.statements) + 2
    # Without VMs, only its VMs and its tokens are asked for.
    assert len(counted(path, "h0").statements) == 3
    store.close()


def test_changed_views_are_read_together(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    store.transact(fill)
    connection = CountedConnection(path)
    connection.begin_snapshot()
    texts = relays.Texts(SnapshotReader(connection))
    names = [f"scope-{number:03}" for number in range(4, VMS)]
    assert [*texts.views([*names, "none"])] == names
    assert connection.rows_read["views"] == len(names)
    assert len(connection.statements) == 2
    connection.close()
    store.close()
