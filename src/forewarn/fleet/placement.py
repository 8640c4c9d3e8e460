"""Choose the destination host of a VM that moves or is redeployed.

The choice is pure and uses the current candidates. The caller reserves the capacity in
the same transaction. A host never gets a second fault domain of a scope, so that an
impact on one host affects one fault domain (clause 6.3).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from forewarn.fleet.model import Host, HostState, Scope, ScopeKind, Vm
from forewarn.protocol.blockers import NoPlace, Unfit, unfit_hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A host with its current load."""

    host: Host
    load: int
    """Number of VMs on it, plus capacity reserved for VMs that are moving to it."""
    domains: frozenset[int]
    """Fault domains of the VM's scope on it, without the VM itself."""
    busy: bool = False
    """Whether the host has announced or running maintenance."""
    turn: int = 0
    """Position of the host in the rollout of the move. DONE: its maintenance is done. 0: it
    is not in the rollout. Above 0: it comes later; the position counts from the end of
    the list."""


DONE = -1
"""Turn of a host whose maintenance is done: VMs placed there are not moved again."""


def choose_host(
    vm: Vm, scope: Scope, *, zone: str, candidates: Sequence[Candidate]
) -> str | None:
    """Return the name of the best host for `vm`; None: no host can take it.

    `zone` is the zone of its host. The order of preference is: the same zone; a host
    that is done in the rollout or comes late in it; a host with VMs of the same fault
    domain; an empty host; the host with the most free capacity.
    """
    possible = [
        each
        for each in candidates
        if each.host.name != vm.host and _why_unfit(vm, scope, zone, each) is None
    ]
    if not possible:
        return None

    def rank(candidate: Candidate) -> tuple[bool, int, bool, bool, float, str]:
        return (
            candidate.host.zone != zone,
            candidate.turn,
            vm.fault_domain not in candidate.domains,
            candidate.load > 0,
            -_room(candidate),
            candidate.host.name,
        )

    return min(possible, key=rank).host.name


def why_none(
    vm: Vm, scope: Scope, *, zone: str, candidates: Sequence[Candidate]
) -> NoPlace | None:
    """Return why no candidate can take the VM; None: one can."""
    unfit: dict[Unfit, list[str]] = {}
    on_host = ""
    for candidate in candidates:
        name = candidate.host.name
        if name == vm.host:
            on_host = name
            continue
        why = _why_unfit(vm, scope, zone, candidate)
        if why is None:
            return None
        unfit.setdefault(why, []).append(name)
    return NoPlace(on_host=on_host, unfit=unfit_hosts(unfit))


def _room(candidate: Candidate) -> float:
    if candidate.host.capacity is None:
        return float("inf")
    return candidate.host.capacity - candidate.load


def _why_unfit(vm: Vm, scope: Scope, zone: str, candidate: Candidate) -> Unfit | None:
    """Return why a host that the VM is not on cannot take it; None: it can."""
    host = candidate.host
    if host.state is HostState.DOWN:
        return Unfit.DOWN
    if host.cordons:
        return Unfit.CORDONED
    if candidate.busy:
        return Unfit.BUSY
    if scope.kind is ScopeKind.SCALE_SET and host.zone != zone:
        # The view and the enabling key of the VM are those of the zone (7.2).
        return Unfit.ZONE
    if candidate.domains - {vm.fault_domain}:
        return Unfit.DOMAIN
    if _room(candidate) < 1:
        return Unfit.FULL
    return None
