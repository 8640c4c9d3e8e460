"""The problems of VMs that do not run, and that are not recorded as failed."""

from collections.abc import Iterator

from forewarn.control.rules.sightings import Seen
from forewarn.drivers.port import Sighting
from forewarn.fleet.model import Vm, VmState
from forewarn.reporting.problem import Problem, ProblemKind
from forewarn.store.port import Reader
from forewarn.wording import explained


def problems(reader: Reader, seen: Seen) -> Iterator[Problem]:
    """Yield what drivers saw of VMs, and control did not act on."""
    if (withheld := seen.withheld) is not None:
        yield Problem(
            kind=ProblemKind.VMS_STOPPED,
            name="sightings",
            text=explained.vms_stopped(withheld.vms, withheld.host),
            since=withheld.since,
            hosts=(withheld.host,) if withheld.host else (),
            actions=("fail",),
        )
    for sighting in seen.not_running:
        vm = reader.get(Vm, sighting.vm)
        if vm is not None and _is_recorded_as_running(vm, sighting):
            yield Problem(
                kind=ProblemKind.VM_NOT_RUNNING,
                name=vm.name,
                text=explained.vm_not_running(vm.name, vm.host, sighting.text),
                since=sighting.at,
                target=vm.name,
                tenants=(vm.tenant,),
                scopes=(vm.scope,),
                vms=(vm.name,),
                hosts=(vm.host,),
                actions=("fail",),
            )


def _is_recorded_as_running(vm: Vm, sighting: Sighting) -> bool:
    is_up = vm.state is VmState.RUNNING and not vm.is_off
    return is_up and sighting.host in {"", vm.host}
