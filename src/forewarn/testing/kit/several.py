"""The VMs and hosts of a world by name, and requests about several of them."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from forewarn.control.requests import fleet_changes
from forewarn.fleet.file import read_fleet
from forewarn.protocol.operations import Action, Verb
from forewarn.service.listening import StartError
from forewarn.sim import vms as fleet_vms
from forewarn.sim.vms import NewVm
from forewarn.testing.kit import orders
from forewarn.testing.kit.calls import checked
from forewarn.testing.kit.core import AnyCore, live
from forewarn.testing.kit.durations import Length
from forewarn.testing.kit.event import Event
from forewarn.testing.kit.files import fleet_text
from forewarn.testing.kit.forms import flat, unknown
from forewarn.testing.kit.orders import Decide, RequestOptions
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
        vm_ = self._find(name)
        if vm_ is None:
            raise unknown("VM", name, self._vms)
        return vm_

    def named(self, names: Iterable[str | Collection[str]]) -> tuple[str, ...]:
        """Return names of VMs, given singly or in lists; raises NotFoundError."""
        return tuple(self.vm(name).name for name in flat(names))

    def hosts_named(self, names: Iterable[str | Collection[str]]) -> tuple[str, ...]:
        """Return names of hosts; raises NotFoundError for an unknown one."""
        names_flat, known = flat(names), self.hosts
        for name in names_flat:
            if name not in known:
                raise unknown("host", name, known)
        return names_flat

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


class Several:
    """The methods of a world for requests about several hosts or VMs."""

    _core: AnyCore
    _roster: Roster

    @checked
    def maintain(
        self,
        *hosts: str | Collection[str],
        impact: orders.Impact,
        duration: Length | None = None,
        description: str | None = None,
        at_once: int | None = None,
    ) -> list[Event]:
        """Maintain hosts, at most `at_once` at a time; return the first hosts' events.

        The maintenance of the other hosts is announced later.
        """
        wanted = RequestOptions(
            duration=duration, description=description, at_once=at_once
        )
        action = Action(impact)
        return self._made(
            orders.maintain(self._roster.hosts_named(hosts), action, wanted)
        )

    @checked
    def terminate(
        self,
        *vms: str | Collection[str],
        notice: Length | None = None,
        description: str | None = None,
    ) -> list[Event]:
        """Delete VMs in one request: one NotBefore, and all at once (3.6)."""
        return self._changed(
            Verb.TERMINATE, vms, RequestOptions(notice=notice, description=description)
        )

    @checked
    def preempt(
        self,
        *vms: str | Collection[str],
        notice: Length | None = None,
        description: str | None = None,
    ) -> list[Event]:
        """Evict VMs like Spot VMs, even if they are not Spot VMs (5.6)."""
        return self._changed(
            Verb.EVICT, vms, RequestOptions(notice=notice, description=description)
        )

    evict = preempt
    """The name of the operator's verb."""

    @checked
    def inject(
        self,
        *vms: str | Collection[str],
        type: str,  # noqa: A002 - the protocol's word
        notice: Length = 0.0,
        source: str | None = None,
        duration: Length | None = None,
        description: str | None = None,
        migrates: bool = False,
    ) -> list[Event]:
        """Inject events of any type and notice: one for each host and scope."""
        wanted = RequestOptions(
            notice=notice, duration=duration, description=description
        )
        kind = orders.event_type_of(type)
        origin = orders.source_of(source, kind)
        named = self._roster.named(vms)
        return self._made(
            orders.staging(kind, origin, named, wanted, migrates=migrates)
        )

    @checked
    def fail(self, name: str) -> list[Event]:
        """Make a host or VM fail without notice (5.5)."""
        self._roster.check_target(name)
        return self._made(orders.ordering("fail", [name], RequestOptions()))

    @checked
    def restore(self, name: str) -> None:
        """Make a host or VM run again, and remove the events of its failure."""
        self._roster.check_target(name)
        live(self._core).order(orders.ordering("restore", [name], RequestOptions()))

    @checked
    def withhold(self, *vms: str | Collection[str]) -> None:
        """Withhold the approvals of these VMs; see `Vm.withhold`."""
        for name in self._roster.named(vms):
            self._roster.vm(name).withhold()

    @checked
    def release(self, *vms: str | Collection[str]) -> None:
        """Release the approvals of these VMs; see `Vm.release`."""
        for name in self._roster.named(vms):
            self._roster.vm(name).release()

    @checked
    def order(
        self,
        *targets: str | Collection[str],
        verb: str,
        arguments: Mapping[str, object] = MappingProxyType({}),
    ) -> list[Event]:
        """Use any verb about hosts or VMs, such as `upgrade-os`.

        `arguments` are as in a step of a scenario: `{"not_before": "+1h"}`.
        """
        return self._made(orders.written(verb, flat(targets), arguments))

    def _changed(
        self, verb: Verb, vms: Iterable[str | Collection[str]], wanted: RequestOptions
    ) -> list[Event]:
        core, named = live(self._core), self._roster.named(vms)
        return self._made(orders.change_vms(core, named, verb, wanted))

    def _made(self, decide: Decide) -> list[Event]:
        core = live(self._core)

        def make() -> list[str]:
            return [event.event_id for event in orders.made(core, decide)]

        return [Event(core, event_id) for event_id in core.call(make)]
