"""Where a VM can go: the host that a move, or a redeploy, chooses.

A pure choice between candidates as they are now; the caller keeps the place in
the same transaction. A host never gets a second fault domain of a scope, so
that what happens to one host happens to one fault domain (clause 6.3).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from forewarn.fleet.model import Host, HostState, Scope, ScopeKind, Vm
from forewarn.protocol.blockers import NoPlace, Unfit, unfit_hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A host, and what there is on it now."""

    host: Host
    load: int
    """VMs on it, and places kept for VMs on their way to it."""
    domains: frozenset[int]
    """Fault domains of the VM's scope on it, the VM itself left out."""
    busy: bool = False
    """Whether it is being maintained, or will be."""
    turn: int = 0
    """The place that the host has in the rollout that the move is part of. Hosts that
    are done have DONE, those that are not in it 0, those that are to come their place
    from the end of the list, above 0."""


DONE = -1
"""The turn of a host that is done: what is put there is not moved again."""


def choose_host(
    vm: Vm, scope: Scope, *, zone: str, candidates: Sequence[Candidate]
) -> str | None:
    """Return the name of the best host for `vm`, or None if there is no place.

    `zone` is that of the host it is on. Rather the same zone, then a host that is done
    in the rollout or far from its turn, then a host that holds its own fault domain,
    then an empty one, then the one with most room.
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
    """Return why there is no place among the candidates; None if there is one."""
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
    """Return why another host than its own cannot take a VM; None: it can."""
    host = candidate.host
    if host.state is HostState.DOWN:
        return Unfit.DOWN
    if candidate.busy:
        return Unfit.BUSY
    if scope.kind is ScopeKind.SCALE_SET and host.zone != zone:
        # Its view, and what enables it, belong to the zone (7.2).
        return Unfit.ZONE
    if candidate.domains - {vm.fault_domain}:
        return Unfit.DOMAIN
    if _room(candidate) < 1:
        return Unfit.FULL
    return None
