"""Update the stored capacity of hosts, once per host and transaction."""

from collections import Counter

from forewarn.control.rules import tallies
from forewarn.fleet.model import (
    NO_USE,
    Capacity,
    Host,
    Vm,
    capacity_of,
    taken_by,
    use_of,
)
from forewarn.fleet.room_tallies import tallied
from forewarn.protocol.frozen import changed
from forewarn.protocol.operations import Operation, OperationState, TargetKind
from forewarn.protocol.visits import Visit
from forewarn.store.port import Transaction
from forewarn.store.records import FLEET_HOSTS


class Capacities:
    """Changes of a transaction to the capacity of hosts."""

    def __init__(self) -> None:
        """Start without changes."""
        self._uses = (Counter[str](), Counter[str](), Counter[str]())
        """Changes of the used places, vCPUs and memory, by host."""
        self.arrivals: dict[str, None] = {}
        """Hosts to which VMs have come."""
        self._works: Counter[str] = Counter()
        self._done_in: dict[str, str] = {}
        self._hosts: dict[str, None] = {}
        self._sums = Counter[str]()
        """Changes of the tallies: the hosts of the fleet and of its places, and the sums of
        pools."""

    def change_host(self, name: str) -> None:
        """Note that a host was added, changed or removed."""
        self._hosts[name] = None

    def change_vm(self, old: Vm, new: Vm | None) -> None:
        """Note that a VM was changed or removed."""
        if new is not None and old.host != new.host:
            self.arrivals[new.host] = None
        if taken_by(old) == taken_by(new) and (
            new is None or use_of(old) == use_of(new)
        ):
            return
        self._count(old, -1)
        if new is not None:
            self._count(new, 1)

    def add_vm(self, vm: Vm) -> None:
        """Note that a VM was added, as all VMs of a new fleet are."""
        self.arrivals[vm.host] = None
        self._count(vm, 1)

    def _count(self, vm: Vm, sign: int) -> None:
        amounts = use_of(vm)
        for host in taken_by(vm):
            for counter, amount in zip(self._uses, amounts, strict=True):
                counter[host] += sign * amount

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

    def change_visit(self, old: Visit, new: Visit) -> None:
        """Note that a visit was changed."""
        self._works[new.host] += new.occupies_host - old.occupies_host

    def write(self, tx: Transaction) -> None:
        """Store the changes."""
        names = {**self._uses[0], **self._works, **self._done_in, **self._hosts}
        for name in sorted(names.keys() - {""}):
            self._write(tx, name)
        for name, by in sorted(self._sums.items()):
            tallies.count(tx, name, by)

    def _write(self, tx: Transaction, name: str) -> None:
        host, kept = tx.get(Host, name), tx.get(Capacity, name)
        if host is None:
            if kept is not None:
                tx.remove(kept)
                self._sums[FLEET_HOSTS] -= 1
                self._sums.subtract(dict(tallied(kept)))
            return
        before = (kept.used, kept.vcpu_used, kept.memory_used) if kept else NO_USE
        places, vcpu, memory = (
            counter[name] + amount
            for counter, amount in zip(self._uses, before, strict=True)
        )
        room = capacity_of(
            host,
            use=(places, vcpu, memory),
            works=self._works[name] + (kept.works if kept else 0),
            done_in=self._done_in.get(name, kept.done_in if kept else ""),
        )
        if kept is None:
            tx.add(room)
            self._sums[FLEET_HOSTS] += 1
            self._sums.update(dict(tallied(room)))
        elif changed(room, revision=kept.revision) != kept:
            tx.replace(kept, room)
            self._sums.update(dict(tallied(room)))
            self._sums.subtract(dict(tallied(kept)))
