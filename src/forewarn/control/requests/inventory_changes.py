"""Plan the changes of an inventory: bounded removals, and no wait for running work.

An inventory is applied again and again by a program, so nothing in it may need a person
each time:

* A change that running work forbids is left out. The object stays as it is, the plan has a
  note, and the next run tries again.
* A VM is removed only by the second run in a row that lacks it. The first one stores that
  it is missing, and says so.
* If the program could not read all hosts, the hosts that the inventory lacks are kept with
  their VMs. Which of them could not be read does not matter: nothing is known of a host
  that is in no list, and the program may know it by another name.
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
    unread = sources.unread(hosts, vms, wanted)
    unread_vms = set(unread.get(Kind.VM, ()))
    missed = [
        vm for vm in sources.first_misses(vms, wanted) if vm.name not in unread_vms
    ]
    later = {(Kind.VM, vm.name): _missed(vm) for vm in missed}
    while True:
        names: defaultdict[Kind, set[str]] = defaultdict(set)
        for kind, kept in unread.items():
            names[kind].update(kept)
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
        changes = {
            (change.kind, change.name): replace(
                change, action=Action.NOTE, fields=(), reason=error.message
            )
            for change, error in fleet_conflicts.find(reader, planned)
        }
        if not changes:
            break
        later |= changes
    removed = [
        change.before for change in planned.changes if change.action is Action.REMOVE
    ]
    # Each VM counts in the run that misses it and in the one that removes it.
    for lost in (missed, removed):
        _check_removals(lost, hosts, vms, removals_max)
    notes = (
        merge.unread(host, wanted.unknown_hosts)
        for host in hosts
        if host.name in unread[Kind.HOST]
    )
    return MergePlan(changes=(*planned.changes, *later.values(), *notes))


def _missed(vm: Vm) -> Change:
    return Change(
        kind=Kind.VM,
        action=Action.MISS,
        name=vm.name,
        before=vm,
        after=replace(vm, is_missing=True),
    )


def _check_removals(
    removed: Sequence[object], hosts: Sequence[Host], vms: Sequence[Vm], most: Amount
) -> None:
    """Raise RefusedError if more is removed than the inventory may remove."""
    for kind, present in ((Host, hosts), (Vm, vms)):
        total = sum(_counts(record) for record in present)
        lost = sum(isinstance(record, kind) and _counts(record) for record in removed)
        if lost > (allowed := most.of(total)):
            noun = "host" if kind is Host else "VM"
            raise RefusedError(
                f"the inventory would remove {lost:,} of {count(total, noun)}; one run may "
                f"remove {allowed:,} ({most})",
                hint="Check that the inventory is complete. To remove them, apply it twice "
                f"with `fleet apply --inventory --removals-max {lost}`.",
            )


def _counts(record: object) -> bool:
    """Return whether an object came from an inventory, and was not deleted since."""
    return (
        isinstance(record, Host | Vm)
        and bool(record.found)
        and not sources.is_deleted(record)
    )
