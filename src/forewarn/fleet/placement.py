"""Choose the destination host of a VM that moves or is redeployed.

The choice is pure and uses the current candidates. The caller reserves the capacity in
the same transaction. A host never gets a second fault domain of a scope, so that an
impact on one host affects one fault domain (clause 6.3).
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from forewarn.fleet.model import Host, HostState, Scope, ScopeKind, Vm
from forewarn.protocol.no_place import NoPlace, Unfit, unfit_hosts

CANDIDATES_MAX = 64
"""Maximum hosts that are checked for a VM by their free places, by their memory and by
their vCPUs. Each check reads the VMs of a host, and an iteration of the control thread
must stay short."""

NEAR_MAX = 16
"""Maximum VMs of the same fault domain whose hosts are checked first."""

SPREAD_VMS_MAX = 50
"""Maximum VMs of a scope whose racks are compared. The racks of a larger scope would take
too many reads, and its fault domains keep it apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A host with its current load."""

    host: Host
    load: int
    """Number of VMs on it, plus capacity reserved for VMs that are moving to it."""
    vcpu: int = 0
    """Number of vCPUs of these VMs."""
    memory: int = 0
    """MiB of memory of these VMs."""
    domains: frozenset[int]
    """Fault domains of the VM's scope on it, without the VM itself."""
    rack_excess: int = 0
    """How many more VMs of the scope are in its rack than in the rack of the VM's host,
    without the VM itself. Above 0, the move would make the spread over racks worse."""
    busy: bool = False
    """Whether the host has announced or running maintenance."""
    turn: int = 0
    """Position of the host in the rollout of the move. DONE: its maintenance is done. 0: it
    is not in the rollout. Above 0: it comes later; the position counts from the end of
    the list."""
    silent: bool = False
    """Whether its relay is silent, so that VMs would not get their documents there."""
    needs_relay: bool = False
    """Whether the VM must not be moved to a host with a silent relay."""


DONE = -1
"""Turn of a host whose maintenance is done: VMs placed there are not moved again."""


class _Phase(enum.IntEnum):
    """The likelihood that a VM is moved again, lowest first."""

    DONE = 0
    OUTSIDE = 1
    """The host is not in the rollout."""
    EMPTY = 2
    """It waits, and no VM is on it."""
    WAITING = 3


def _phase(candidate: Candidate) -> _Phase:
    if candidate.turn == DONE:
        return _Phase.DONE
    if not candidate.turn:
        return _Phase.OUTSIDE
    return _Phase.EMPTY if not candidate.load else _Phase.WAITING


def choose_host(
    vm: Vm, scope: Scope, *, origin: Host, candidates: Sequence[Candidate]
) -> str | None:
    """Return the name of the best host for `vm`; None: no host can take it.

    `origin` is its host. The order of preference is: a relay that is heard; the same
    zone; a host that is done in the rollout, then one outside of it, an empty one that
    waits, and the one that comes latest; a host with VMs of the same fault domain; an
    empty host; the host with the most free capacity: the largest free part of its
    scarcest limit on vCPUs or memory, then the most free places.
    """
    possible = [
        candidate
        for candidate in candidates
        if candidate.host.name != vm.host
        and _why_unfit(vm, scope, origin, candidate) is None
    ]
    if not possible:
        return None

    def rank(
        candidate: Candidate,
    ) -> tuple[bool, bool, _Phase, int, bool, bool, float, float, str]:
        return (
            candidate.silent,
            candidate.host.zone != origin.zone,
            _phase(candidate),
            candidate.turn,
            vm.fault_domain not in candidate.domains,
            candidate.load > 0,
            -_free_part(candidate),
            -_room(candidate),
            candidate.host.name,
        )

    return min(possible, key=rank).host.name


def why_none(
    vm: Vm,
    scope: Scope,
    *,
    origin: Host,
    candidates: Sequence[Candidate],
    too_small: Mapping[str, Unfit] = MappingProxyType({}),
) -> NoPlace | None:
    """Return why no candidate can take the VM; None: one can.

    `too_small` are more hosts that cannot, by name.
    """
    unfit: dict[Unfit, list[str]] = {}
    for name, why in too_small.items():
        unfit.setdefault(why, []).append(name)
    on_host = ""
    for candidate in candidates:
        name = candidate.host.name
        if name == vm.host:
            on_host = name
            continue
        why = _why_unfit(vm, scope, origin, candidate)
        if why is None:
            return None
        unfit.setdefault(why, []).append(name)
    return NoPlace(on_host=on_host, unfit=unfit_hosts(unfit))


def _room(candidate: Candidate) -> float:
    if candidate.host.capacity is None:
        return float("inf")
    return candidate.host.capacity - candidate.load


def _free_part(candidate: Candidate) -> float:
    """Return the free part, from 0 to 1, of the scarcest limit on vCPUs or memory.

    A host without such a limit has the most.
    """
    host = candidate.host
    limits = ((host.vcpu, candidate.vcpu), (host.memory, candidate.memory))
    parts = [(limit - used) / limit for limit, used in limits if limit]
    return min(parts, default=float("inf"))


def _why_unfit(
    vm: Vm, scope: Scope, origin: Host, candidate: Candidate
) -> Unfit | None:
    """Return why a host that the VM is not on cannot take it; None: it can."""
    host = candidate.host
    if host.state is HostState.DOWN:
        return Unfit.DOWN
    if host.cordons:
        return Unfit.CORDONED
    if candidate.busy:
        return Unfit.BUSY
    if host.pool != origin.pool:
        return Unfit.POOL
    if scope.kind is ScopeKind.SCALE_SET and host.zone != origin.zone:
        # The view and the enabling key of the VM are those of the zone (7.2).
        return Unfit.ZONE
    if candidate.domains - {vm.fault_domain}:
        return Unfit.DOMAIN
    if candidate.rack_excess > 0:
        return Unfit.RACK
    if _room(candidate) < 1:
        return Unfit.FULL
    if host.vcpu is not None and candidate.vcpu + (vm.vcpu or 0) > host.vcpu:
        return Unfit.VCPU
    if host.memory is not None and candidate.memory + (vm.memory or 0) > host.memory:
        return Unfit.MEMORY
    if candidate.silent and candidate.needs_relay:
        return Unfit.RELAY
    return None
