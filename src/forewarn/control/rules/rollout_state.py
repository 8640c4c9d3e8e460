"""What a rollout has to know before it announces a host, read as values for `rolling`."""

from collections.abc import Sequence
from dataclasses import replace

from forewarn.control.rules import destinations, rolling, waits
from forewarn.control.rules.rolling import RolloutState, Waiting
from forewarn.fleet.model import Host, HostState, Vm
from forewarn.protocol.blockers import (
    AnyBlocker,
    HostInUse,
    NotItsTurn,
    ScopeInUse,
    ScopeReserved,
)
from forewarn.protocol.operations import (
    MOVING_ACTIONS,
    Move,
    Operation,
    OperationState,
    Request,
)
from forewarn.store import kinds
from forewarn.store.port import Reader, every


def vms_of(reader: Reader, operation: Operation) -> tuple[Vm, ...]:
    """Return the VMs that are on the host of a Planned operation now."""
    return tuple(every(reader, kinds.VMS_ON_HOST, operation.host))


def waiting_host(reader: Reader, operation: Operation, vms: Sequence[Vm]) -> Waiting:
    """Return what decides whether the host of a Planned operation can be announced.

    `vms` are the VMs on the host.
    """
    domains: dict[str, frozenset[int]] = {}
    for vm in vms:
        domains[vm.scope] = domains.get(vm.scope, frozenset()) | {vm.fault_domain}
    obstacles = _at_the_host(reader, operation)
    if not obstacles and operation.action in MOVING_ACTIONS:
        moves = tuple(Move(vm=vm.name) for vm in vms)
        obstacles = destinations.find_places(
            reader, replace(operation, moves=moves)
        ).blockers
    return Waiting(
        operation=operation.operation_id, domains=domains, obstacles=obstacles
    )


def _at_the_host(reader: Reader, operation: Operation) -> tuple[AnyBlocker, ...]:
    name = operation.host
    host = reader.get(Host, name)
    if host is None or host.state is HostState.DOWN:
        return (HostInUse(host=name),)
    for other in every(reader, kinds.OPEN_OPERATIONS_OF_HOST, name):
        if other.is_host_bound and other.state is not OperationState.PLANNED:
            work = other.operation_id
            return (HostInUse(host=name, operation=work, verb=other.verb),)
    for vm in reader.select(kinds.VMS_MOVING_TO, name, limit=1):
        # It would get no notice.
        return (HostInUse(host=name, arriving=vm.name),)
    return ()


def standing_of(reader: Reader, scope: str) -> RolloutState:
    """Return what is announced, in maintenance or down in a scope.

    Of the fault domains, only the lowest and the highest of each are read: whether a
    host may be announced follows from them. So the cost does not depend on the number
    of hosts that are announced.
    """
    domains: dict[int, str] = {}
    for lowest in (True, False):
        vms = reader.ranked(kinds.UNSTEADY_DOMAINS, scope, limit=1, lowest=lowest)
        for vm in vms:
            domains[vm.fault_domain] = next(iter(vm.started), "")
        told = reader.ranked(kinds.ANNOUNCED_DOMAINS, scope, limit=1, lowest=lowest)
        for event in told:
            end = min if lowest else max
            domains.setdefault(end(event.excluding_domains), event.operation)
    first = reader.select(kinds.OPERATIONS_THAT_WAIT, waits.reserved(scope), limit=1)
    return RolloutState(
        domains=domains,
        reserved_by=first[0].operation_id if first else "",
    )


def names_for(
    operation: Operation, waiting: Waiting, blocker: AnyBlocker
) -> tuple[str, ...]:
    """Return what a host that was passed over waits for, the reason first."""
    match blocker:
        case ScopeInUse(scope=scope) | ScopeReserved(scope=scope):
            names = waits.TURNS.names(scope, waiting.domains[scope])
        case HostInUse(host=host):
            names = (waits.for_host(host),)
        case _:
            names = (waits.TURN_ROOM,)
    # Who has reserved its scopes keeps them until it is announced.
    kept = (name for name in operation.waits_for if waits.is_reservation(name))
    return (*names, *kept)


def why_planned(reader: Reader, operation: Operation) -> tuple[AnyBlocker, ...]:
    """Return why the host of a Planned operation is not announced yet.

    Where the rollout has a slot for it, what is in its way is the reason, not its turn.
    """
    request = reader.get(Request, operation.request)
    assert request is not None, f"{operation.operation_id} has no request"
    # What was found in its way may have changed, and it is not looked at yet.
    found = _in_its_way(reader, operation) if operation.held_by else ()
    if found and request.in_flight < request.at_once:
        return found
    turn = NotItsTurn(
        request=request.request_id,
        position=operation.position,
        hosts=request.hosts,
        in_flight=request.in_flight,
        at_once=request.at_once,
    )
    return (turn, *found)


def _in_its_way(reader: Reader, operation: Operation) -> tuple[AnyBlocker, ...]:
    """Return the first thing in the way of a Planned host now."""
    waiting = waiting_host(reader, operation, vms_of(reader, operation))
    decided = rolling.admit(
        [waiting],
        slots=1,
        scopes={scope: standing_of(reader, scope) for scope in waiting.domains},
    )
    return tuple(blocker for _, blocker in decided.passed_over)
