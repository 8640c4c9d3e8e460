"""The VMs and hosts of a world, by name."""

from collections.abc import Collection, Iterable
from pathlib import Path

from forewarn.control.requests import fleet_changes
from forewarn.fleet.file import read_fleet
from forewarn.service.listening import StartError
from forewarn.sim import vms as fleet_vms
from forewarn.sim.vms import NewVm
from forewarn.testing.kit import orders
from forewarn.testing.kit.any_core import AnyCore
from forewarn.testing.kit.core import live
from forewarn.testing.kit.files import fleet_text
from forewarn.testing.kit.forms import flat, unknown
from forewarn.testing.kit.vm import Vm


class Roster:
    """The VMs and hosts of a world."""

    def __init__(self, core: AnyCore) -> None:
        """Read the current VMs."""
        self._core = core
        self._vms: dict[str, Vm] = {}
        self._refresh()

    @property
    def vms(self) -> tuple[Vm, ...]:
        """Return all VMs, including deleted ones."""
        return tuple(self._vms.values())

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the names of all hosts."""
        return tuple(live(self._core).read(orders.host_names))

    def vm(self, name: str) -> Vm:
        """Return a VM by its name; raises NotFoundError for an unknown one."""
        found = self._find(name)
        if found is None:
            raise unknown("VM", name, self._vms)
        return found

    def named(self, names: Iterable[str | Collection[str]]) -> tuple[str, ...]:
        """Return names of VMs, given singly or in lists; raises NotFoundError."""
        return tuple(self.vm(name).name for name in flat(names))

    def hosts_named(self, names: Iterable[str | Collection[str]]) -> tuple[str, ...]:
        """Return names of hosts, as `named` does for VMs."""
        found, known = flat(names), self.hosts
        for name in found:
            if name not in known:
                raise unknown("host", name, known)
        return found

    def check_target(self, name: str) -> None:
        """Raise NotFoundError unless a host or VM has this name."""
        hosts = self.hosts
        if name not in hosts and self._find(name) is None:
            raise unknown("host or VM", name, [*hosts, *self._vms])

    def add(self, new: NewVm) -> Vm:
        """Add a VM; raises RefusedError, BadRequestError and StartError."""
        core = live(self._core)
        if new.host:
            self.hosts_named([new.host])
        core.order(lambda work: fleet_vms.add(work, new))
        try:
            core.wait(core.open_all())
        except StartError:
            self.remove(new.name)
            raise
        return self.vm(new.name)

    def remove(self, name: str) -> None:
        """Remove a VM from the fleet; raises NotFoundError for an unknown one."""
        live(self._core).order(lambda work: fleet_vms.remove(work, name))

    def apply(self, fleet: str | Path) -> None:
        """Apply a fleet file; raises FleetFileError, RefusedError and StartError."""
        wanted = read_fleet(fleet_text(fleet), name="fleet")
        core = live(self._core)
        core.order(lambda work: fleet_changes.apply(work, wanted))
        core.wait(core.open_all())
        self._refresh()

    def _find(self, name: str) -> Vm | None:
        if name not in self._vms and not self._core.ending.has_ended:
            # A scenario or the operator API may have added the VM.
            self._refresh()
        return self._vms.get(name)

    def _refresh(self) -> None:
        core = self._core
        for name, (host, port) in core.call(core.addresses).items():
            if name not in self._vms:
                self._vms[name] = Vm(core, name, f"http://{host}:{port}")
