"""Where a VM can go: the host that a move, or a redeploy, chooses.

A pure choice between candidates as they are now; the caller keeps the place in
the same transaction. A host never gets a second fault domain of a scope, so
that what happens to one host happens to one fault domain (clause 6.3).
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forewarn.fleet.model import Host, HostState, Scope, ScopeKind, Vm
from forewarn.problems import listed


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


class _Obstacle(enum.Enum):
    """Why a host cannot take the VM; the value begins a part of a sentence."""

    SAME = "it is on"
    DOWN = "down"
    BUSY = "under maintenance, or soon to be"
    FULL = "full"
    DOMAIN = "holding another fault domain of its scope"
    ZONE = "in another zone than its scale set's VMs there"


def choose_host(
    vm: Vm, scope: Scope, *, zone: str, candidates: Sequence[Candidate]
) -> str | None:
    """Return the name of the best host for `vm`, or None if there is no place.

    `zone` is that of the host it is on. Rather the same zone, then a host that
    holds its own fault domain, then an empty one, then the one with most room.
    """
    possible = [each for each in candidates if _obstacle(vm, scope, zone, each) is None]
    if not possible:
        return None

    def rank(candidate: Candidate) -> tuple[bool, bool, bool, float, str]:
        return (
            candidate.host.zone != zone,
            vm.fault_domain not in candidate.domains,
            candidate.load > 0,
            -_room(candidate),
            candidate.host.name,
        )

    return min(possible, key=rank).host.name


def why_none(
    vm: Vm, scope: Scope, *, zone: str, candidates: Sequence[Candidate]
) -> str:
    """Return a sentence that says why there is no place; empty if there is one."""
    obstacles: dict[_Obstacle, list[str]] = {each: [] for each in _Obstacle}
    for candidate in candidates:
        obstacle = _obstacle(vm, scope, zone, candidate)
        if obstacle is None:
            return ""
        obstacles[obstacle].append(candidate.host.name)
    reasons = _reasons(obstacles)
    return f"there is no place for {vm.name}: {'; '.join(reasons)}"


def _reasons(obstacles: Mapping[_Obstacle, Sequence[str]]) -> list[str]:
    here = obstacles[_Obstacle.SAME]
    reasons = [
        f"{obstacle.value}: {listed(names)}"
        for obstacle, names in obstacles.items()
        if names and obstacle is not _Obstacle.SAME
    ]
    if not reasons:
        reasons = ["there are no other hosts"]
    return [f"{_Obstacle.SAME.value} {here[0]}", *reasons] if here else reasons


def _room(candidate: Candidate) -> float:
    if candidate.host.capacity is None:
        return float("inf")
    return candidate.host.capacity - candidate.load


def _obstacle(
    vm: Vm, scope: Scope, zone: str, candidate: Candidate
) -> _Obstacle | None:
    host = candidate.host
    if host.name == vm.host:
        return _Obstacle.SAME
    if host.state is HostState.DOWN:
        return _Obstacle.DOWN
    if candidate.busy:
        return _Obstacle.BUSY
    if scope.kind is ScopeKind.SCALE_SET and host.zone != zone:
        # Its view, and what enables it, belong to the zone (7.2).
        return _Obstacle.ZONE
    if candidate.domains - {vm.fault_domain}:
        return _Obstacle.DOMAIN
    if _room(candidate) < 1:
        return _Obstacle.FULL
    return None
