"""Plan the changes of an inventory: bounded removals, and no wait for running work.

An inventory is applied again and again by a program, so nothing in it may need a person
each time:

* A change that running work forbids is left out. The object stays as it is, the plan has a
  note, and the next run tries again.
* A run that would remove more hosts or VMs than it may is refused as a whole: a source that
  lost a part of its data is more likely than the loss of many hosts. Only what came from an
  inventory counts, and VMs that were deleted by requests do not.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from forewarn.control.requests import fleet_conflicts
from forewarn.fleet import merge, sources
from forewarn.fleet.errors import Kind
from forewarn.fleet.file import WantedFleet
from forewarn.fleet.merge import Action, Change, MergePlan
from forewarn.fleet.model import Host, Vm
from forewarn.protocol.errors import RefusedError
from forewarn.settings.amounts import Amount
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.texts import count


def plan(reader: Reader, wanted: WantedFleet, removals_max: Amount) -> MergePlan:
    """Return the changes that can be made now; raises FleetFileError and RefusedError."""
    tenants = tuple(every(reader, kinds.ALL_TENANTS))
    scopes = tuple(every(reader, kinds.ALL_SCOPES))
    hosts = tuple(every(reader, kinds.ALL_HOSTS))
    vms = tuple(every(reader, kinds.ALL_VMS))
    by_name = {vm.name: vm for vm in vms}
    later: dict[tuple[Kind, str], Change] = {}
    while True:
        names: defaultdict[Kind, set[str]] = defaultdict(set)
        for kind, name in later:
            names[kind].add(name)
        planned = merge.plan(
            wanted,
            tenants=tenants,
            scopes=scopes,
            hosts=hosts,
            vms=vms,
            kept=sources.kept_with(names, by_name, wanted),
        )
        # A kept object has no change, so each pass finds others, or ends.
        found = {
            (change.kind, change.name): replace(
                change, action=Action.NOTE, fields=(), reason=error.message
            )
            for change, error in fleet_conflicts.find(reader, planned)
        }
        if not found:
            break
        later |= found
    _check_removals(planned, hosts, vms, removals_max)
    return MergePlan(changes=(*planned.changes, *later.values()))


def _check_removals(
    planned: MergePlan, hosts: Sequence[Host], vms: Sequence[Vm], most: Amount
) -> None:
    """Raise RefusedError if more is removed than the inventory may remove."""
    removed = [
        change.before for change in planned.changes if change.action is Action.REMOVE
    ]
    for kind, every_ in ((Host, hosts), (Vm, vms)):
        total = sum(_counts(each) for each in every_)
        lost = sum(isinstance(each, kind) and _counts(each) for each in removed)
        if lost > (allowed := most.of(total)):
            noun = "host" if kind is Host else "VM"
            raise RefusedError(
                f"the inventory would remove {lost:,} of {count(total, noun)}; one run may "
                f"remove {allowed:,} ({most})",
                hint="Check that the inventory is complete. To remove them, use "
                f"`fleet apply --inventory --removals-max {lost}`.",
            )


def _counts(record: object) -> bool:
    """Return whether an object came from an inventory, and was not deleted since."""
    return (
        isinstance(record, Host | Vm)
        and bool(record.found)
        and not sources.is_deleted(record)
    )
