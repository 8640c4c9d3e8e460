"""How often a tenant has deferred the maintenance of a host, and whether it still can.

The operation of the host has the count of each tenant, whichever of its VMs there were
named, and whichever scopes they are in. An operation that replaces it has them too, so
neither a withdrawal nor an ended deferral sets them back to zero.
"""

from dataclasses import replace

from forewarn.control.rules import campaign_gate, holds
from forewarn.fleet.model import Vm
from forewarn.instants import Micros
from forewarn.protocol.frozen import changed
from forewarn.protocol.operations import WAITING_STATES, Deferrals, Operation
from forewarn.store.port import Reader

DEFERRALS_MAX = 2
"""Maximum deferrals of the maintenance of a host by a tenant: the operator must be able to
end the work."""


def is_left(operation: Operation, tenant: str, until: Micros) -> bool:
    """Return whether a tenant can defer an operation until a time."""
    is_used_up = _of(operation, tenant).count >= DEFERRALS_MAX
    return not (is_used_up and _is_longer(operation, tenant, until))


def counted(operation: Operation, tenant: str, until: Micros) -> Operation:
    """Return the operation with another deferral of a tenant."""
    if not _is_longer(operation, tenant, until):
        return operation
    old = _of(operation, tenant)
    new = replace(old, count=old.count + 1, until=max(old.until, until))
    others = tuple(
        deferral for deferral in operation.deferrals if deferral.tenant != tenant
    )
    return changed(operation, deferrals=(*others, new))


def _of(operation: Operation, tenant: str) -> Deferrals:
    none = Deferrals(tenant=tenant, count=0, until=0)
    return next(
        (deferral for deferral in operation.deferrals if deferral.tenant == tenant),
        none,
    )


def _is_longer(operation: Operation, tenant: str, until: Micros) -> bool:
    """Return whether an operation waits longer because of a deferral.

    For a host that waits until then already, naming another of its VMs changes nothing.
    An announced one is withdrawn.
    """
    is_announced = operation.state in WAITING_STATES
    return is_announced or until > _of(operation, tenant).until


def begins_at(
    reader: Reader, operation: Operation, tenant: str, *, now: Micros
) -> Micros | None:
    """Return from when on announced work can begin without approvals, for one tenant.

    Windows of other tenants do not count, so that its refusals show nothing of them.
    None: its windows have no common opening.
    """
    at = max(now, operation.not_before)
    vms = [vm for name in operation.vms if (vm := reader.get(Vm, name)) is not None]
    all_holds = holds.holds_of(reader, operation, vms)
    own = tuple(hold for hold in all_holds if hold.tenant in {"", tenant})
    times = holds.HeldTimes(own, at)
    return campaign_gate.common_start(reader, operation, times, at)
