"""A fleet under examination: what `checks` needs to look things up and complain.

Names may be doubled and references may lead nowhere; the first object of a name
is the one that others mean.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Generic, TypeVar

from forewarn.fleet.errors import Kind, Place
from forewarn.fleet.fields import Record
from forewarn.fleet.model import Host, Scope, Tenant, Vm, VmState
from forewarn.problems import Problem, did_you_mean, listed, quoted

_Named = TypeVar("_Named", Tenant, Scope, Host, Vm)


class Group(Generic[_Named]):
    """The objects of one kind: all of them, and the first of each name."""

    def __init__(self, kind: Kind, records: Iterable[_Named]) -> None:
        self.kind = kind
        self.records: Sequence[_Named] = tuple(records)
        self.named: dict[str, _Named] = {}
        for record in self.records:
            self.named.setdefault(record.name, record)

    def unknown(self, name: str, *, note: str = "") -> str:
        """Return the sentence about a name that nothing of this kind has."""
        kind = self.kind.value
        names = [
            record.name
            for record in self.named.values()
            if not (isinstance(record, Scope) and record.implied)
        ]
        there = f"{kind}s are {listed(names)}" if names else f"there are no {kind}s"
        return (
            f"there is no {kind} {quoted(name)}{note}; {there}"
            f"{did_you_mean(name, names)}"
        )


class Fleet:
    """A fleet under examination."""

    def __init__(
        self,
        *,
        tenants: Group[Tenant],
        scopes: Group[Scope],
        hosts: Group[Host],
        vms: Group[Vm],
        place: Place,
    ) -> None:
        self.tenants = tenants
        self.scopes = scopes
        self.hosts = hosts
        self.vms = vms
        self.place = place
        self.live = tuple(
            vm for vm in vms.named.values() if vm.state is not VmState.DELETED
        )
        """A deleted VM takes no place and no address."""

    def problem(
        self, kind: Kind, record: Record, key: str, message: str, *, occurrence: int = 0
    ) -> Problem:
        """Return a problem with its place in the file."""
        name = record.name
        if isinstance(record, Scope) and record.implied:
            kind = Kind.VM
        spot = self.place(kind, name, key, occurrence=occurrence)
        return Problem(
            file=spot.file,
            line=spot.line,
            key=f"{kind.value}.{key}",
            message=message,
            name=name,
        )

    def line_of(self, kind: Kind, record: Record, key: str) -> str:
        """Return ` of line 12`, or nothing where there is no line."""
        line = self.place(kind, record.name, key).line
        return f" of line {line}" if line else ""

    def unique(
        self,
        key: str,
        keys_of: Callable[[Vm], Iterable[tuple[str, ...]]],
        message: str,
    ) -> Iterator[Problem]:
        """Yield a problem for each VM that has what another has already."""
        # Nearly always nothing is there twice, which is quick to see.
        each = list(chain.from_iterable(map(keys_of, self.live)))
        if len(set(each)) == len(each):
            return
        owners: dict[tuple[str, ...], Vm] = {}
        for vm in self.live:
            for value in keys_of(vm):
                owner = owners.setdefault(value, vm)
                if owner is not vm:
                    whose = f"vm {owner.name}{self.line_of(Kind.VM, owner, key)}"
                    sentence = message.format(*value, whose=whose)
                    yield self.problem(Kind.VM, vm, key, sentence)
