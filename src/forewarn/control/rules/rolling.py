"""Decide which waiting hosts of rollouts can be announced now, and why not the others.

A host uses a *slot* of its rollout from its announcement to the end of its operation. At
most one fault domain of a scope is announced, in maintenance or down at a time, for any
rollout or failure. The budget `overlap_notice` of a campaign lets it announce further
ones, and the guard lets them start one after the other. A host that cannot be announced
is skipped. A host that has waited for long *reserves* its scopes, so that it is not
skipped indefinitely: no host after it is announced in these scopes. It has no reservation
while it waits for something that work under way does not end, and while its own rollout
announces no host.

`why_not_announced` is a pure function of values. The functions after it read them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.rules import (
    campaign_gate,
    destinations,
    holds,
    reserves,
    shared_limit,
    waits,
    wide_blackouts,
)
from forewarn.control.rules.brake import why_braked
from forewarn.control.rules.guard import shared_hosts
from forewarn.fleet.model import Host, HostState, Vm, VmState
from forewarn.instants import Micros, round_up_to_second
from forewarn.protocol.blockers import (
    HOLD_KINDS,
    AnyBlocker,
    BudgetUsed,
    Deferred,
    DrainFailed,
    HostInUse,
    InBlackout,
    NoCommonWindow,
    NotItsTurn,
    ScopeInUse,
    ScopeReserved,
    SharedHost,
    WindowClosed,
    bounded,
)
from forewarn.protocol.operations import (
    MOVING_ACTIONS,
    Action,
    Move,
    Operation,
    OperationState,
    Promise,
    Request,
)
from forewarn.protocol.turn_blockers import BudgetKind
from forewarn.protocol.verbs import Verb
from forewarn.protocol.visits import Visit
from forewarn.settings.amounts import Amount
from forewarn.store import kinds
from forewarn.store.port import Reader, every

RESERVATIONS_READ_MAX = 4
"""Maximum reservations of a scope that are read: few rollouts meet in a scope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A host that waits for its announcement."""

    operation: str
    """ID of the host's operation. The IDs of a rollout are in the order of its list."""
    domains: Mapping[str, frozenset[int]]
    """Fault domains of the VMs on it, by scope."""
    overlap: int = 0
    """Further fault domains of a scope that its campaign may announce."""
    holds: tuple[AnyBlocker, ...] = ()
    """Why its maintenance could not start after a notice from now on. They come first: a
    held host reserves no scope."""
    obstacles: tuple[AnyBlocker, ...] = ()
    """Blockers other than scopes: the host is in use, it has two fault domains of a scope,
    its VMs would use the reserve, or they have no destination."""
    look_at: Micros = 0
    """When a held host can be announced; 0: never, or it is not held."""
    promises: tuple[Promise, ...] = ()
    """The openings that a held host is promised."""


class Usage(NamedTuple):
    """Why a fault domain of a scope is in use."""

    operation: str
    """The operation that announced it or works on it; empty: a VM is down without one."""
    down: str = ""
    """The host or VM that is down until an operator restores it; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutState:
    """Fault domains of a scope that are in use, and the reservation of the scope."""

    domains: Mapping[int, Usage] = field(default_factory=dict[int, Usage])
    """Fault domains that are announced, in maintenance or down, each with the cause. The
    caller may give only as many as decide."""
    reserved_by: str = ""
    """Operation of the host that has reserved the scope; empty: none."""


def why_not_announced(
    host: Waiting, scopes: Mapping[str, RolloutState]
) -> AnyBlocker | None:
    """Return the first reason why a host must wait; None: it can be announced now.

    A scope that `scopes` lacks is not in use.
    """
    return next(in_the_way(host, scopes), None)


def in_the_way(
    host: Waiting, scopes: Mapping[str, RolloutState]
) -> Iterator[AnyBlocker]:
    """Yield everything that keeps a host waiting; the first one is stored."""
    yield from host.holds
    for scope in sorted(host.domains):
        standing = scopes.get(scope, RolloutState())
        # A host with VMs of several fault domains needs a scope without any other.
        own = host.domains[scope] if len(host.domains[scope]) == 1 else frozenset[int]()
        others = standing.domains.keys() - own
        if others and len(host.domains[scope] | others) > host.overlap + 1:
            for other in sorted(others):
                yield ScopeInUse(
                    scope=scope,
                    fault_domain=other,
                    operation=standing.domains[other].operation,
                    at_once=host.overlap + 1,
                    down=standing.domains[other].down,
                )
        if standing.reserved_by and standing.reserved_by < host.operation:
            yield ScopeReserved(scope=scope, operation=standing.reserved_by)
    yield from host.obstacles


def vms_of(reader: Reader, operation: Operation) -> tuple[Vm, ...]:
    """Return the VMs that a Planned operation would affect now.

    Maintenance without impact affects none of the VMs on its host.
    """
    if operation.action is Action.NONE:
        return ()
    return tuple(every(reader, kinds.VMS_ON_HOST, operation.host))


def waiting_host(
    reader: Reader, operation: Operation, vms: Sequence[Vm], *, reserve: Amount
) -> Waiting:
    """Return the data that decides whether the host of a Planned operation is announced.

    `vms` are the VMs on the host, and `reserve` is the capacity that stays free.
    """
    obstacles = (
        _at_the_host(reader, operation, vms)
        or reserves.why_kept(reader, operation, vms, reserve)
        or _no_place(reader, operation, vms)
    )
    return _waiting(reader, operation, vms, obstacles=obstacles)


def _waiting(
    reader: Reader,
    operation: Operation,
    vms: Sequence[Vm],
    *,
    obstacles: tuple[AnyBlocker, ...],
) -> Waiting:
    return Waiting(
        operation=operation.operation_id,
        domains=_domains_of(vms),
        overlap=campaign_gate.overlap_of(reader, operation.request),
        holds=stored_holds(operation),
        obstacles=obstacles,
    )


def stored_holds(operation: Operation) -> tuple[AnyBlocker, ...]:
    """Return the holds of the last check of a Planned operation.

    They are checked again when they end, and when a window changes.
    """
    return tuple(blocker for blocker in operation.held_by if blocker.kind in HOLD_KINDS)


def _domains_of(vms: Sequence[Vm]) -> dict[str, frozenset[int]]:
    domains: dict[str, frozenset[int]] = {}
    for vm in vms:
        domains[vm.scope] = domains.get(vm.scope, frozenset()) | {vm.fault_domain}
    return domains


def _no_place(
    reader: Reader, operation: Operation, vms: Sequence[Vm]
) -> tuple[AnyBlocker, ...]:
    """Return why VMs on the host have no destination, after a search of the fleet."""
    if operation.action not in MOVING_ACTIONS:
        return ()
    moves = tuple(Move(vm=vm.name) for vm in vms)
    return destinations.find_places(reader, replace(operation, moves=moves)).blockers


def _at_the_host(
    reader: Reader, operation: Operation, vms: Sequence[Vm]
) -> tuple[AnyBlocker, ...]:
    name = operation.host
    host = reader.get(Host, name)
    if host is None or host.state is HostState.DOWN:
        return (HostInUse(host=name),)
    for other in every(reader, kinds.OPEN_OPERATIONS_OF_HOST, name):
        if other.is_host_bound and (
            other.state is not OperationState.PLANNED
            or _is_urgent(reader, other, operation)
        ):
            work = other.operation_id
            return (HostInUse(host=name, operation=work, verb=other.verb),)
    for visit in every(reader, kinds.OPEN_VISITS_OF_HOST, name):
        if visit.holds_slot and visit.visit_id != operation.visit:
            work = visit.operation
            return (HostInUse(host=name, operation=work, verb=operation.verb),)
    # For an emergency repair, reserved places move to other hosts.
    coming = (
        destinations.arrivals(reader, name)
        if operation.is_emergency
        else every(reader, kinds.VMS_MOVING_TO, name)
    )
    for vm in coming:
        # The VM would get no notice.
        return (HostInUse(host=name, arriving=vm.name),)
    return shared_hosts(operation, vms) or tuple(
        campaign_gate.why_over_budget(reader, operation, vms)
    )


def _is_urgent(reader: Reader, other: Operation, operation: Operation) -> bool:
    """Return whether an emergency campaign has the host that waits for `operation` too.

    Before its release, an emergency holds up no other work.
    """
    if not other.is_emergency or operation.is_emergency:
        return False
    request = reader.get(Request, other.request)
    campaign = campaign_gate.campaign_of(reader, request)
    return campaign is not None and campaign.is_released


def standing_of(
    reader: Reader, scope: str, rollout: str, *, overlap: int, now: Micros
) -> RolloutState:
    """Return what the hosts of a rollout find in a scope."""
    return RolloutState(
        domains=domains_in_use(reader, scope, overlap),
        reserved_by=_reserved_by(reader, scope, rollout, now=now),
    )


def _reserved_by(reader: Reader, scope: str, rollout: str, *, now: Micros) -> str:
    """Return the first host that has reserved a scope and whose rollout announces hosts.

    Another campaign can be paused, soak, or wait for its windows for days.
    """
    for operation in reader.select(
        kinds.OPERATIONS_THAT_WAIT, waits.reserved(scope), limit=RESERVATIONS_READ_MAX
    ):
        if operation.request == rollout or announces(
            reader, operation.request, now=now
        ):
            return operation.operation_id
    return ""


def announces(reader: Reader, request_id: str, *, now: Micros) -> bool:
    """Return whether a rollout announces hosts now, or as soon as others are done."""
    request = reader.get(Request, request_id)
    assert request is not None, f"{request_id} is not stored"
    campaign = campaign_gate.gate_record(reader, request)
    blocker = campaign_gate.ask(reader, request, campaign, now=now).blocker
    if isinstance(blocker, BudgetUsed):
        return blocker.budget is BudgetKind.IN_FLIGHT
    return blocker is None


def domains_in_use(reader: Reader, scope: str, overlap: int = 0) -> dict[int, Usage]:
    """Return the fault domains of a scope that are announced, in maintenance or down.

    Only as many are read as are sufficient for the decision: the lowest and the highest
    one, or with an overlap the lowest ones. The cost therefore does not depend on the
    number of announced hosts.
    """
    return _lowest(reader, scope, overlap + 2) if overlap else _ends(reader, scope)


def _ends(reader: Reader, scope: str) -> dict[int, Usage]:
    """Return the lowest and the highest fault domain of each kind."""
    domains: dict[int, Usage] = {}
    for lowest in (True, False):
        for vm in reader.ranked(kinds.UNSTEADY_DOMAINS, scope, limit=1, lowest=lowest):
            domains[vm.fault_domain] = _usage_by(reader, vm)
        for event in reader.ranked(
            kinds.ANNOUNCED_DOMAINS, scope, limit=1, lowest=lowest
        ):
            end = min if lowest else max
            domains.setdefault(end(event.excluding_domains), Usage(event.operation))
    return domains


def _usage_by(reader: Reader, vm: Vm) -> Usage:
    """Return how a VM on which an operation has started, or which is down, uses its domain."""
    first = next(iter(vm.started), "")
    if vm.state is not VmState.DOWN:
        return Usage(first)
    for started in vm.started:
        operation = reader.get(Operation, started)
        if operation is not None and operation.verb is not Verb.FAIL:
            # It can run the VM again, such as a redeploy.
            return Usage(started)
    host = reader.get(Host, vm.host)
    is_up = host is not None and host.state is HostState.UP
    return Usage(first, down=vm.name if is_up else vm.host)


def _lowest(reader: Reader, scope: str, limit: int) -> dict[int, Usage]:
    """Return the lowest fault domains, up to a number of them."""
    domains: dict[int, Usage] = {}
    above = -1
    while len(domains) < limit:
        by_domain: dict[int, Usage] = {}
        for event in reader.ranked(
            kinds.ANNOUNCED_DOMAINS, scope, limit=1, lowest=True, above=above
        ):
            announced = min(
                domain for domain in event.excluding_domains if domain > above
            )
            by_domain[announced] = Usage(event.operation)
        for vm in reader.ranked(
            kinds.UNSTEADY_DOMAINS, scope, limit=1, lowest=True, above=above
        ):
            by_domain[vm.fault_domain] = _usage_by(reader, vm)
        if not by_domain:
            break
        above = min(by_domain)
        domains[above] = by_domain[above]
    return domains


def names_for(
    operation: Operation, waiting: Waiting, blocker: AnyBlocker
) -> tuple[str, ...]:
    """Return the names of the waits of a skipped host, its reason first.

    A held host waits for each of its holds: without one of them, it can begin earlier.
    """
    if waiting.holds:
        names = tuple(
            dict.fromkeys(name for hold in waiting.holds for name in _of_hold(hold))
        )
        # It gives up its reservations.
        return (
            *names,
            waits.by_terms(operation.request),
            *filter(waits.is_first_turn, operation.waits_for),
        )
    match blocker:
        case ScopeInUse(scope=scope) | ScopeReserved(scope=scope):
            turns = waits.OVERLAPPING_TURNS if waiting.overlap else waits.TURNS
            names = (
                *turns.names(scope, waiting.domains[scope]),
                waits.passed_over(operation.request, waiting.overlap),
            )
        case HostInUse(host=host) | SharedHost(host=host):
            names = (waits.for_host(host),)
        case BudgetUsed(budget=budget, subject=subject):
            names = (
                waits.for_budget(budget.value, subject),
                waits.by_terms(operation.request),
            )
        case _:
            names = (waits.TURN_ROOM,)
    # A host keeps its reservations until it is announced, or work no longer helps it.
    return (*names, *filter(waits.is_kept, operation.waits_for))


def _of_hold(blocker: AnyBlocker) -> tuple[str, ...]:
    """Return the names of the waits of a host for the end of a hold."""
    match blocker:
        case WindowClosed(scope=scope) | Deferred(scope=scope):
            return (waits.turn_for_window(scope),)
        case NoCommonWindow(scopes=scopes):
            return (*map(waits.turn_for_window, scopes), waits.NO_WINDOW)
        case InBlackout(blackout=blackout):
            return (waits.turn_for_blackout(blackout),)
        case _:
            return ()


def why_planned(
    reader: Reader, operation: Operation, *, now: Micros
) -> tuple[AnyBlocker, ...]:
    """Return why the host of a Planned operation is not announced yet.

    If the rollout has a free slot, the reason is the blocker and not the order. If it has
    none, no destinations are searched: they will have changed when its turn comes.
    """
    request = reader.get(Request, operation.request)
    assert request is not None, f"{operation.operation_id} has no request"
    if braked := why_braked(reader, operation.verb):
        return braked
    if paused := tuple(e for e in operation.held_by if isinstance(e, DrainFailed)):
        return paused
    visit = reader.get(Visit, operation.visit) if operation.visit else None
    if visit is not None and visit.holds_slot:
        # Its step `needed` runs: the host itself is one of those in flight.
        return ()
    banned = wide_blackouts.in_force(reader, operation, now=now)
    if banned is not None and not request.campaign:
        return (banned,)
    campaign = campaign_gate.gate_record(reader, request)
    shut = campaign_gate.why_planned(reader, request, campaign, operation, now=now)
    is_again = waits.again_turn(request.request_id) in operation.waits_for
    if is_again and campaign_gate.is_used_up(shut):
        shut = campaign_gate.ask(
            reader, request, campaign, now=now, is_away=True
        ).blocker
    shared = None if shut else shared_limit.why_shared(reader, campaign, now=now)
    shut = shut or shared
    has_slot = shut is None
    # The order of the hosts says the same about a rollout without a campaign.
    is_said = request.campaign or shared is not None
    first = (shut,) if shut is not None and is_said else ()
    if operation.held_by:
        # The stored blocker can be outdated until the next check.
        blockers = _in_its_way(reader, operation, searches=has_slot, now=now)
    else:
        blockers = (
            () if has_slot else _holds_ahead(reader, operation, campaign, now=now)
        )
    if blockers and has_slot:
        return blockers
    if first:
        # A blackout of the whole fleet closes the gate, and holds the host too.
        return tuple(dict.fromkeys((*first, *blockers)))
    turn = NotItsTurn(
        request=request.request_id,
        position=operation.position,
        hosts=request.hosts,
        in_flight=request.in_flight,
        at_once=request.at_once,
    )
    return (turn, *blockers)


def _holds_ahead(
    reader: Reader, operation: Operation, campaign: CampaignRecord, *, now: Micros
) -> tuple[AnyBlocker, ...]:
    """Return the windows, deferrals and blackouts that would hold a host in its turn now.

    Its turn has not come, so no hold is stored. A tenant asks for its own.
    """
    start = round_up_to_second(max(operation.given_time, now + campaign.notice))
    current_holds = holds.holds_of(reader, operation, vms_of(reader, operation))
    if not current_holds:
        return ()
    return bounded(holds.HeldTimes(current_holds, start, now=now).why_not_announced())


def _in_its_way(
    reader: Reader, operation: Operation, *, searches: bool, now: Micros
) -> tuple[AnyBlocker, ...]:
    """Return everything that keeps a Planned host waiting now, except its turn.

    Scopes come first, as in a turn, so most hosts need no search for destinations.
    """
    vms = vms_of(reader, operation)
    obstacles = _at_the_host(reader, operation, vms)
    waiting = _waiting(reader, operation, vms, obstacles=obstacles)
    scopes = {
        scope: standing_of(
            reader, scope, operation.request, overlap=waiting.overlap, now=now
        )
        for scope in waiting.domains
    }
    blockers = tuple(in_the_way(waiting, scopes))
    if blockers or not searches:
        return blockers
    reserve_blockers = reserves.why_kept(
        reader, operation, vms, reserves.stored_amount(operation)
    )
    return reserve_blockers or _no_place(reader, operation, vms)
