"""Where VMs are after moves whose destinations the driver chose.

Control asks for no host then, and the report, or an observation, must name it. The VM is
recorded there whatever forewarn would have chosen, because it is there. If that host is
announced, its events do not name the VM: the maintenance is withdrawn without impact, and
the host gets its turn again, with a full notice for all of its VMs.
"""

from collections.abc import Iterable, Mapping

from forewarn.control.execution import calls
from forewarn.control.execution.withdrawal import withdraw
from forewarn.control.transactions.work import Work
from forewarn.drivers.port import Observation
from forewarn.fleet.model import Host, Vm
from forewarn.problems import listed
from forewarn.protocol.blockers import Contradiction, Landing, VmEnd
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.frozen import changed
from forewarn.protocol.notes import VmArrived
from forewarn.protocol.operations import (
    WAITING_STATES,
    Action,
    Move,
    Operation,
    Verb,
)
from forewarn.store import kinds
from forewarn.store.port import Reader, every


def why_not_recorded(
    reader: Reader, origin: str, vm: str, seen: Observation
) -> VmEnd | None:
    """Return why a VM that was moved cannot be recorded on its new host; None: it can.

    A VM that has not left its host is moved again. Without a known host the outcome is
    unknown: to move the VM again could do harm.
    """
    host = seen.host or ""
    if host == origin:
        why = Landing.NOT_LEFT
    elif not host:
        why = Landing.NOT_TOLD
    elif reader.get(Host, host) is None:
        why = Landing.NOT_IN_FLEET
    else:
        return None
    return VmEnd(
        vm=vm,
        is_unknown=why is not Landing.NOT_LEFT,
        wrong=(Contradiction(vm=vm, host=host, landing=why),),
    )


def hosts_told(
    work: Work, operation: Operation, told: Iterable[str], *, done: bool
) -> dict[str, str]:
    """Return the hosts of the VMs of a call that an operator reports as VM=HOST.

    Raises RefusedError if one cannot be right, or if one is missing that only the
    operator can know.
    """
    hosts: dict[str, str] = {}
    waiting = {
        move.vm for move in calls.current_moves(operation) if not move.has_failed
    }
    for text in told:
        vm, _, host = text.partition("=")
        if vm not in waiting or not host:
            raise RefusedError(
                f"{text} is not a VM and its host",
                hint=f"Write VM=HOST. Use its VMs: {listed(sorted(waiting))}.",
            )
        if not operation.driver_chooses or not done:
            raise RefusedError(
                "the driver does not choose the hosts of this operation's VMs"
                if done
                else "VMs that have moved need the outcome done",
                hint="Leave out --moved.",
            )
        if work.host(host).name == operation.host:
            raise RefusedError(
                f"VM {vm} has not left host {host}",
                hint="Use the outcome failed.",
            )
        hosts[vm] = host
    missing = sorted(waiting - hosts.keys())
    if done and operation.driver_chooses and missing:
        raise RefusedError(
            f"the host that VM {missing[0]} is on now is not known",
            hint=f"Add --moved {missing[0]}=HOST.",
        )
    return hosts


def record(
    work: Work, operation: Operation, hosts: Mapping[str, str | None]
) -> Operation:
    """Store the hosts that the driver chose as the destinations of the VMs."""
    if not hosts:
        return operation
    moves = tuple(
        changed(move, to_host=hosts.get(move.vm) or move.to_host)
        if not move.done
        else move
        for move in operation.moves
    )
    return work.save_operation(operation, changed(operation, moves=moves))


def renew_notices(work: Work, moves: Iterable[Move]) -> None:
    """Withdraw announced maintenance of the hosts to which VMs came without a notice."""
    first: dict[str, str] = {}
    for move in moves:
        vm = work.tx.get(Vm, move.vm)
        if vm is not None:
            first.setdefault(vm.host, vm.name)
    for host, vm in first.items():
        for operation in list(every(work.tx, kinds.OPEN_OPERATIONS_OF_HOST, host)):
            if (
                operation.verb is Verb.MAINTAIN
                and operation.is_host_bound
                and operation.state in WAITING_STATES
                and operation.action is not Action.NONE
            ):
                work.lock_scopes(operation.scopes)
                withdraw(work, operation, VmArrived(vm=vm))
