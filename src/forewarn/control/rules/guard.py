"""The guard at Started: the only barrier that keeps fault domains apart (6.3).

Routine operations pass it or are held. It never holds user operations, evictions,
deletions and failures, but the VMs that these take down hold routine operations. The
caller holds the safety rows of all affected scopes, in the transaction that makes
Started durable. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from forewarn.fleet.model import Vm
from forewarn.protocol.blockers import (
    NAMED_MAX,
    AnyBlocker,
    Cause,
    DomainMember,
    FaultDomainDown,
    MigrationUnderWay,
    SharedHost,
)
from forewarn.protocol.operations import Action, Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsteady:
    """A VM that is down or on which an operation has started."""

    vm: str
    fault_domain: int
    causes: tuple[Cause, ...]


def guard(
    operation: Operation,
    *,
    own: Mapping[str, frozenset[int]],
    unsteady: Mapping[str, Sequence[Unsteady]],
) -> tuple[AnyBlocker, ...]:
    """Return all reasons why the operation must not start now.

    `own` has the fault domains that it would take down, by scope. `unsteady` has the VMs
    of these scopes that are down or have a started operation.
    """
    if not operation.routine:
        return ()
    blockers: list[AnyBlocker] = []
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


def shared_hosts(operation: Operation, vms: Iterable[Vm]) -> tuple[SharedHost, ...]:
    """Return the scopes of which the operation would take down several fault domains.

    `vms` are its VMs. A live migration is not held: its VMs move one after the other, and
    it separates the fault domains.
    """
    if not operation.routine or operation.action is Action.LIVE_MIGRATE:
        return ()
    return shares(operation.host, vms)


def shares(host: str, vms: Iterable[Vm]) -> tuple[SharedHost, ...]:
    """Return the scopes of which a host with these VMs has several fault domains."""
    members: dict[str, dict[int, str]] = {}
    for vm in vms:
        domains = members.setdefault(vm.scope, {})
        domains[vm.fault_domain] = min(domains.get(vm.fault_domain, vm.name), vm.name)
    return tuple(
        SharedHost(
            host=host,
            scope=scope,
            vms=tuple(
                DomainMember(vm=domains[domain], fault_domain=domain)
                for domain in sorted(domains)[:NAMED_MAX]
            ),
            more=max(0, len(domains) - NAMED_MAX),
        )
        for scope, domains in sorted(members.items())
        if len(domains) > 1
    )


def _others(operation: Operation, unsteady: Sequence[Unsteady]) -> list[Unsteady]:
    """Return the unsteady VMs without the operation itself as a cause."""
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
) -> list[AnyBlocker]:
    causes: dict[int, dict[Cause, None]] = {}
    for vm in others:
        if own != frozenset({vm.fault_domain}):
            causes.setdefault(vm.fault_domain, {}).update(dict.fromkeys(vm.causes))
    return [
        FaultDomainDown(
            scope=scope,
            fault_domain=fault_domain,
            causes=tuple(causes[fault_domain])[:NAMED_MAX],
            more=max(0, len(causes[fault_domain]) - NAMED_MAX),
        )
        for fault_domain in sorted(causes)
    ]
