"""Single fields of all records, which plans of campaigns read."""

from pathlib import Path

from forewarn.fleet.model import Host, HostState, Vm, VmState
from forewarn.store import kinds
from forewarn.store.port import FieldReader, Store, every, fields
from forewarn.store.snapshot import SnapshotStore
from forewarn.store.sqlite import SqliteStore

NAMES = ("name", "state", "fault_domain", "movable", "memory", "addresses")


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


def test_fields_are_those_of_the_records(store: Store) -> None:
    store.transact(lambda tx: [tx.add(vm(number)) for number in range(1_203)])
    rows = store.read(lambda reader: list(fields(reader, kinds.ALL_VMS, NAMES)))
    assert rows == [
        tuple(getattr(each, name) for name in NAMES)
        for each in store.read(lambda reader: list(every(reader, kinds.ALL_VMS)))
    ]
    assert len(rows) == 1_203


def test_snapshot_of_a_file_reads_only_the_fields(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    store.transact(
        lambda tx: tx.add(
            Host(name="h1", state=HostState.DOWN, labels=(("model", "r7525"),))
        )
    )
    snapshot = SnapshotStore(tmp_path / "store.db")
    assert snapshot.read(lambda reader: isinstance(reader, FieldReader))
    names = ("name", "state", "labels", "last")
    assert snapshot.read(lambda r: list(fields(r, kinds.ALL_HOSTS, names))) == [
        ("h1", HostState.DOWN, (("model", "r7525"),), False)
    ]
    assert snapshot.read(lambda r: list(fields(r, kinds.ALL_VMS, NAMES))) == []
    snapshot.close()
    store.close()
