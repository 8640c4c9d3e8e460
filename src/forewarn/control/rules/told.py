"""The answers of the driver about single hosts and VMs, and the work that they rule out.

The fleet file, the inventory and the driver can all say that something cannot be done,
and the strictest of them decides. A missing answer, and "unknown", rule out nothing.
"""

from collections.abc import Collection, Iterator, Sequence

from forewarn.control.rules.abilities import actions_of
from forewarn.protocol.abilities import Ability, prevented
from forewarn.protocol.blockers import DriverUnable
from forewarn.protocol.host_steps import HostStep
from forewarn.protocol.operations import Action
from forewarn.store import kinds
from forewarn.store.host_abilities import HostAbilities
from forewarn.store.port import Reader, every


def asked_about(action: Action, steps: Sequence[HostStep] = ()) -> tuple[Action, ...]:
    """Return the actions that must be possible: the action, and its calls if it has two."""
    return tuple(dict.fromkeys((action, *actions_of(action, steps))))


def why_unable(
    reader: Reader, host: str, vms: Collection[str], actions: Collection[Action]
) -> tuple[DriverUnable, ...]:
    """Return the answers of the driver against these actions on VMs of a host.

    It reads one row, however many VMs there are.
    """
    record = reader.get(HostAbilities, host)
    if record is None:
        return ()
    return tuple(
        DriverUnable(
            host=host,
            vm=ability.vm,
            action=ability.action or next(iter(actions)),
            said=ability.reason,
        )
        for ability in prevented(record.told, actions, vms)
    )


def not_possible(
    reader: Reader, found: HostAbilities, actions: Collection[Action]
) -> Iterator[Ability]:
    """Yield the answers of the driver against these actions on the VMs of a host.

    The VMs are read only if the driver ruled something out.
    """
    if found.rules_out_something:
        vms = [vm.name for vm in every(reader, kinds.VMS_ON_HOST, found.host)]
        yield from prevented(found.told, actions, vms)


def rules_out_something(reader: Reader, host: str) -> bool:
    """Return whether the driver told that anything is not possible on a host."""
    record = reader.get(HostAbilities, host)
    return record is not None and record.rules_out_something
