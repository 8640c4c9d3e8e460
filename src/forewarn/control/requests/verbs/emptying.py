"""Refuse work that is certainly not possible on a host or a VM."""

from collections.abc import Sequence

from forewarn.control.rules import destinations, reserves, told
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import UNLIMITED_PLACES, Capacity, Vm
from forewarn.fleet.sources import fixing_source
from forewarn.problems import listed
from forewarn.protocol.actors import ActorKind
from forewarn.protocol.blockers import AnyBlocker, HinderedError, bounded
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.host_steps import HostStep
from forewarn.protocol.operations import MOVING_ACTIONS, Action, Request
from forewarn.settings.amounts import Amount
from forewarn.store import kinds
from forewarn.store.port import PAGE_ROWS, every

PLACES = "capacity"
"""Key of the places of a host."""

TRIED_MAX = 4
"""Maximum hosts for which destinations are searched. If more hosts remain, the request is
accepted: a search for a thousand hosts would block the service."""


AGAIN = (
    "The driver is asked again now: if the reason has ended, repeat the command in a "
    "minute."
)


def fit_host(
    work: Work, name: str, action: Action, steps: Sequence[HostStep] = ()
) -> str:
    """Return the host; raises RefusedError if the maintenance is not possible there.

    A person, an inventory or the driver can have said so; the strictest one decides.
    """
    if action is Action.NONE:
        return name
    if action in MOVING_ACTIONS:
        _check_movable(work, name)
    if not told.rules_out_something(work.tx, name):
        return name
    vms = [vm.name for vm in every(work.tx, kinds.VMS_ON_HOST, name)]
    needed = told.asked_about(action, steps)
    if vms and (blockers := told.why_unable(work.tx, name, vms, needed)):
        raise HinderedError(
            f"host {name} cannot be maintained with the impact {action.value}",
            because=bounded(blockers),
            hint=f"Use another impact. {AGAIN}",
        )
    return name


def _check_movable(work: Work, name: str) -> None:
    """Raise RefusedError if a VM on a host cannot be moved."""
    fixed = work.tx.select(kinds.FIXED_VMS_ON_HOST, name, limit=1)
    if fixed:
        raise RefusedError(
            f"host {name} cannot be emptied: VM {fixed[0].name} cannot be moved",
            hint="Use another impact, or delete the VM first. It has movable = false in "
            f"the {fixing_source(fixed[0]).value}.",
        )


def check_able(work: Work, vm: Vm, action: Action) -> None:
    """Raise RefusedError if an action on a VM is not possible.

    A tenant does not get the text of the driver, which can name hosts.
    """
    if action is Action.REDEPLOY and not vm.movable:
        raise RefusedError(
            f"VM {vm.name} cannot be moved to another host",
            hint=f"Run `forewarn reboot {vm.name}` to restart it on its host.",
        )
    blockers = told.why_unable(work.tx, vm.host, [vm.name], [action])
    if not blockers:
        return
    if work.who.actor.kind is ActorKind.TENANT:
        blockers = ()
    raise HinderedError(
        f"{action.value} of VM {vm.name} is not possible",
        because=blockers[:1],
        hint=AGAIN if blockers else "Ask the operator of the platform.",
    )


def check_can_be_emptied(
    work: Work, request: Request, hosts: Sequence[str], *, reserve: Amount
) -> None:
    """Raise RefusedError if it is certain that none of the hosts can be emptied.

    The hosts are emptied one after the other, so capacity for the VMs of one host is
    sufficient. Refused: too little free capacity in the pool, or no destination that the
    rules for fault domains, zones and sizes allow. Running work on hosts is ignored,
    because it ends. `reserve` is the capacity that must stay free.
    """
    rooms = [
        found
        for name in hosts
        if (found := work.tx.get(Capacity, name)) is not None and found.used
    ]
    if not rooms:
        return
    # One page of hosts with free capacity is sufficient. A full page has at least one
    # place per host, which is enough for a host with no more VMs than that. The message
    # shows the sums of this page.
    spaces = {
        pool: work.tx.ranked(kinds.ROOMS_WITH_SPACE, pool, limit=PAGE_ROWS)
        for pool in {room.pool for room in rooms}
    }
    free = {pool: sum(room.free for room in space) for pool, space in spaces.items()}
    own = {room.host: room.free for space in spaces.values() for room in space}
    reserved = {
        pool: _places_kept(work, pool, reserve) if len(space) < PAGE_ROWS else 0
        for pool, space in spaces.items()
    }
    # A VM that moves uses capacity on two hosts until it has moved.
    moving = len(work.tx.select(kinds.VMS_MOVING, limit=PAGE_ROWS))
    fitting = [
        room
        for room in rooms
        if room.used + reserved[room.pool]
        <= free[room.pool] - own.get(room.host, 0) + moving
    ]
    if len(fitting) > TRIED_MAX:
        return
    reasons: dict[str, AnyBlocker] = {}
    for room in fitting:
        vms = list(every(work.tx, kinds.VMS_ON_HOST, room.host))
        blockers = destinations.find_in_time(work.tx, vms, request=request.request_id)
        if not blockers:
            return
        reasons[room.host] = blockers[0]
    least = min(fitting or rooms, key=lambda room: (room.used, room.host))
    because = reasons.get(least.host)
    raise HinderedError(
        f"none of these {len(hosts)} hosts can be emptied: "
        + _sums(least, spaces[least.pool], reserve, reserved[least.pool]),
        because=() if because is None else (because,),
        hint="Empty one host first, or add a host. The hosts of a request are emptied one "
        "after the other.",
    )


def _places_kept(work: Work, pool: str, reserve: Amount) -> int:
    """Return how many places of a pool the reserve keeps; 0: not all hosts have a limit."""
    sums = reserves.pool_sums(work.tx, pool) if reserve.value else ()
    return next((sum_.reserve(reserve) for sum_ in sums if sum_.key == PLACES), 0)


def _sums(
    least: Capacity, space: Sequence[Capacity], reserve: Amount, kept: int
) -> str:
    others = [room for room in space if room.host != least.host]
    unlimited = any(room.places == UNLIMITED_PLACES for room in others)
    free = "enough" if unlimited else str(sum(room.free for room in others))
    where = listed(
        [room.host if unlimited else f"{room.host} {room.free}" for room in others]
    )
    places = "1 place" if least.used == 1 else f"{least.used} places"
    whose = f"other hosts of pool {least.pool}" if least.pool else "other hosts"
    return (
        f"{least.host} needs {places}, and {whose} have {free} free"
        + (f" ({where})" if where else "")
        + (f", of which policy.reserve ({reserve}) keeps {kept}" if kept else "")
    )
