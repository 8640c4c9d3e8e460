"""The input of an invariant: the rows after a commit, and the changes of the commit."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from forewarn.control.rules.policy import Policy
from forewarn.fleet.model import ScopeKind, Vm
from forewarn.instants import Micros
from forewarn.protocol.events import Event
from forewarn.protocol.operations import ENDED_STATES, STARTED_STATES, Operation
from tests.support.watched import Change, Mirror


@dataclass(slots=True, kw_only=True)
class Moment:
    """The input of an invariant: the rows after a commit, and the changes."""

    mirror: Mirror
    policy: Policy
    now: Micros
    changes: list[Change]
    relabelled: frozenset[str] = field(default_factory=frozenset[str])
    """Scopes whose author changed fault domains while something was started."""
    crowded: frozenset[str] = field(default_factory=frozenset[str])
    """Hosts to which a hypervisor moved VMs without a request."""

    def changed(self) -> Iterator[tuple[Operation | None, Operation]]:
        """Yield the operations that changed, with how they were."""
        for change in self.changes:
            if isinstance(change.after, Operation):
                before = change.before
                assert before is None or isinstance(before, Operation)
                yield before, change.after

    def started(self) -> Iterator[Operation]:
        """Yield the operations that this commit has started."""
        for before, after in self.changed():
            was = before is not None and before.state in STARTED_STATES
            if after.started_at and not was and (before is None or not before.ended_at):
                yield after

    def events(self) -> Iterator[tuple[Event | None, Event | None]]:
        """Yield the events that changed, with how they were."""
        for change in self.changes:
            if isinstance(change.before or change.after, Event):
                assert change.before is None or isinstance(change.before, Event)
                assert change.after is None or isinstance(change.after, Event)
                yield change.before, change.after

    def members(self, scope: str) -> list[Vm]:
        """Return the VMs of a scope that are not deleted."""
        return [vm for vm in self.mirror.live_vms if vm.scope == scope]

    def open(self) -> Iterator[Operation]:
        """Yield the operations that have not ended."""
        for operation in self.mirror.operations.values():
            if operation.state not in ENDED_STATES:
                yield operation


# The events that each VM sees, derived again and independently (6.1, 6.2, 7.2)


def is_alone(mirror: Mirror, scope: str) -> bool:
    """Return whether each VM of the scope sees its own events only (6.2)."""
    record = mirror.scopes[scope]
    domains = {vm.fault_domain for vm in mirror.vms.values() if vm.scope == scope}
    return record.kind is ScopeKind.SCALE_SET and record.gpu and len(domains) == 1


def seen_by(mirror: Mirror, vm: Vm) -> list[Event]:
    """Return the live events that the VM's document must show, in order (2.1)."""
    alone = is_alone(mirror, vm.scope)
    events = [
        event
        for event in mirror.live_events
        if event.scope == vm.scope
        and (not alone or vm.name in [resource.vm for resource in event.resources])
    ]
    return sorted(events, key=lambda event: event.place)
