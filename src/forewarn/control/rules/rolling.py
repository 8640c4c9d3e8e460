"""Which of the waiting hosts may be announced now, and why not the others. Pure.

A rollout works through its hosts. A host takes a *slot* of its rollout from its
announcement to the end of its operation. Of a scope, at most one fault domain is
announced, in maintenance or down at a time, whichever rollout or failure is the cause. A
host that cannot be announced is passed over. So that it is not passed over for ever,
a host that has waited long *reserves* its scopes: no host behind it is announced there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from forewarn.protocol.blockers import (
    AnyBlocker,
    ScopeInUse,
    ScopeReserved,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A host whose turn may have come."""

    operation: str
    """Its operation. The ids of a rollout are in the order of its list."""
    domains: Mapping[str, frozenset[int]]
    """The fault domains of the VMs on it, by scope."""
    obstacles: tuple[AnyBlocker, ...] = ()
    """What was found in its way beside scopes: the host is in use, or there is no
    place for its VMs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutState:
    """What is under way in a scope."""

    domains: Mapping[int, str] = field(default_factory=dict[int, str])
    """The fault domains that are announced, in maintenance or down, each with an
    operation that is the cause; the lowest and the highest of them are enough."""
    reserved_by: str = ""
    """The operation of a host that has waited long; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What was decided about the waiting hosts, in their order."""

    announced: tuple[str, ...] = ()
    """Operations of hosts that are announced now."""
    passed_over: tuple[tuple[str, AnyBlocker], ...] = ()
    """Operations of hosts that must wait, each with the first thing in its way."""


def admit(
    waiting: Sequence[Waiting], *, slots: int, scopes: Mapping[str, RolloutState]
) -> Admission:
    """Decide about the hosts in their order, until the slots are taken.

    Each host that is announced counts for those behind it. A host that is in neither
    list was not looked at, since no slot was left.
    """
    standings = dict(scopes)
    announced: list[str] = []
    passed_over: list[tuple[str, AnyBlocker]] = []
    for host in waiting:
        if len(announced) >= slots:
            break
        blocker = _first_in_the_way(host, standings)
        if blocker is not None:
            passed_over.append((host.operation, blocker))
            continue
        announced.append(host.operation)
        for scope, domains in host.domains.items():
            standing = standings.get(scope, RolloutState())
            taken = {**dict.fromkeys(domains, host.operation), **standing.domains}
            standings[scope] = replace(standing, domains=taken)
    return Admission(announced=tuple(announced), passed_over=tuple(passed_over))


def _first_in_the_way(
    host: Waiting, scopes: Mapping[str, RolloutState]
) -> AnyBlocker | None:
    for scope in sorted(host.domains):
        standing = scopes.get(scope, RolloutState())
        # A host with VMs of several fault domains goes where nothing else does.
        own = host.domains[scope] if len(host.domains[scope]) == 1 else frozenset[int]()
        others = standing.domains.keys() - own
        if others:
            first = min(others)
            return ScopeInUse(
                scope=scope, fault_domain=first, operation=standing.domains[first]
            )
        if standing.reserved_by and standing.reserved_by < host.operation:
            return ScopeReserved(scope=scope, operation=standing.reserved_by)
    return host.obstacles[0] if host.obstacles else None
