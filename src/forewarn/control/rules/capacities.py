"""Update the stored capacity of hosts, once per host and transaction."""

from collections import Counter

from forewarn.fleet.model import Capacity, Host, Vm, capacity_of, taken_by
from forewarn.protocol.frozen import changed
from forewarn.protocol.operations import Operation, OperationState, TargetKind
from forewarn.store.port import Transaction


class Capacities:
    """Changes of a transaction to the capacity of hosts."""

    def __init__(self) -> None:
        """Start without changes."""
        self._used: Counter[str] = Counter()
        self._works: Counter[str] = Counter()
        self._done_in: dict[str, str] = {}
        self._hosts: dict[str, None] = {}

    def change_host(self, name: str) -> None:
        """Note that a host was added, changed or removed."""
        self._hosts[name] = None

    def change_vm(self, old: Vm | None, new: Vm | None) -> None:
        """Note that a VM was added, changed or removed."""
        before, after = taken_by(old), taken_by(new)
        if before != after:
            self._used.update(after - before)
            self._used.subtract(before - after)

    def change_operation(self, old: Operation | None, new: Operation) -> None:
        """Note that an operation was added or changed."""
        before = old.host if old is not None and old.occupies_host else ""
        after = new.host if new.occupies_host else ""
        if before != after:
            self._works.update([after])
            self._works.subtract([before])
        if (
            new.state is OperationState.DONE
            and (old is None or old.state is not OperationState.DONE)
            and new.target_kind is TargetKind.HOST
        ):
            self._done_in[new.host] = new.request

    def write(self, tx: Transaction) -> None:
        """Store the changes."""
        names = {**self._used, **self._works, **self._done_in, **self._hosts}
        for name in sorted(names.keys() - {""}):
            self._write(tx, name)

    def _write(self, tx: Transaction, name: str) -> None:
        host, kept = tx.get(Host, name), tx.get(Capacity, name)
        if host is None:
            if kept is not None:
                tx.remove(kept)
            return
        room = capacity_of(
            host,
            used=self._used[name] + (kept.used if kept else 0),
            works=self._works[name] + (kept.works if kept else 0),
            done_in=self._done_in.get(name, kept.done_in if kept else ""),
        )
        if kept is None:
            tx.add(room)
        elif changed(room, revision=kept.revision) != kept:
            tx.replace(kept, room)
