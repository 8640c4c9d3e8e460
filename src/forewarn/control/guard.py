"""The guard at Started: the one barrier that keeps fault domains apart (6.3).

Routine operations pass it or are held. User operations, evictions, deletions
and failures are never held by it, but what they take down holds others. It is
asked under the safety rows of all scopes concerned, in the transaction that
makes Started durable. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forewarn.control.blockers import Blocker, FaultDomainDown, MigrationUnderWay
from forewarn.protocol.operations import Action, Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why a VM is unsteady."""

    operation: str
    """The operation that started on it; empty if it just is down."""
    action: Action
    because: str
    """For a sentence: `host h7 failed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsteady:
    """A VM that is down, or that something has started on."""

    vm: str
    fault_domain: int
    causes: tuple[Cause, ...]


def guard(
    operation: Operation,
    *,
    own: Mapping[str, frozenset[int]],
    unsteady: Mapping[str, Sequence[Unsteady]],
) -> tuple[Blocker, ...]:
    """Return every reason why the operation must not start now.

    `own` are the fault domains that it would take down, by scope; `unsteady`
    are the VMs of those scopes that are down or under an operation.
    """
    if not operation.routine:
        return ()
    blockers: list[Blocker] = []
    for scope in sorted(own):
        others = _others(operation, unsteady.get(scope, ()))
        blockers += _other_domains(scope, own[scope], others)
        if operation.action is Action.LIVE_MIGRATE:
            migrations = {
                cause.operation
                for vm in others
                for cause in vm.causes
                if cause.action is Action.LIVE_MIGRATE
            }
            blockers += [
                MigrationUnderWay(scope=scope, operation=migration)
                for migration in sorted(migrations)
            ]
    return tuple(blockers)


def _others(operation: Operation, unsteady: Sequence[Unsteady]) -> list[Unsteady]:
    """Return the unsteady VMs without what the operation itself does to them."""
    others: list[Unsteady] = []
    for vm in unsteady:
        causes = tuple(
            cause for cause in vm.causes if cause.operation != operation.operation_id
        )
        if causes:
            others.append(
                Unsteady(vm=vm.vm, fault_domain=vm.fault_domain, causes=causes)
            )
    return others


def _other_domains(
    scope: str, own: frozenset[int], others: Sequence[Unsteady]
) -> list[Blocker]:
    because: dict[int, dict[str, None]] = {}
    for vm in others:
        if own != frozenset({vm.fault_domain}):
            reasons = because.setdefault(vm.fault_domain, {})
            reasons.update(dict.fromkeys(cause.because for cause in vm.causes))
    return [
        FaultDomainDown(
            scope=scope, fault_domain=fault_domain, because=tuple(because[fault_domain])
        )
        for fault_domain in sorted(because)
    ]
