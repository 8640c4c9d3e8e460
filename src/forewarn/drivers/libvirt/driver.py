"""The driver for libvirt: our own programs for work, and workers that watch the hosts.

Work on a VM is a process that outlives the service, as with operators' programs, so its
records, crashes and deadlines are theirs. Questions and sightings come from workers, which
keep a connection to each host of the fleet.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from forewarn.clock import Clock
from forewarn.drivers.command import RETENTION, CommandDriver
from forewarn.drivers.libvirt.answers import abilities_of, observation_of, reading_of
from forewarn.drivers.libvirt.commands import (
    Connections,
    worker_words,
)
from forewarn.drivers.libvirt.workers import Workers
from forewarn.drivers.marks import Reading
from forewarn.drivers.port import (
    NOWHERE,
    Call,
    Expected,
    HostVms,
    Observations,
    expected_of,
)
from forewarn.drivers.programs import Programs, VmObserver
from forewarn.instants import Micros
from forewarn.protocol.abilities import Ability


class _HostObserver(VmObserver):
    """Asks workers about VMs, and the program `probe` about lost work."""

    def __init__(self, workers: Workers, *, programs: Programs, clock: Clock) -> None:
        super().__init__(programs=programs, clock=clock)
        self._workers = workers

    def reads_marks(self) -> bool:
        return True

    def observe(self, vms: Sequence[str], expected: Expected = NOWHERE) -> Observations:
        answers = self._workers.ask(vms, expected=expected)
        return {
            vm: observation_of(vm, answers.hosts, missing=answers.missing) for vm in vms
        }

    def tells_abilities(self) -> bool:
        return True

    def abilities(self, hosts: Sequence[HostVms]) -> Mapping[str, tuple[Ability, ...]]:
        answers = self._workers.ask_abilities({host.host: host.vms for host in hosts})
        return {
            host.host: tuple(abilities_of(host.vms, answers.hosts[host.host]))
            for host in hosts
            if host.host in answers.hosts
        }

    def read_marks(self, call: Call) -> dict[str, Reading]:
        if call.step is not None:
            # libvirt keeps no mark for a host.
            return {}
        vms = [vm.vm for vm in call.vms]
        answers = self._workers.ask(vms, expected=expected_of(call), with_marks=True)
        readings = {
            vm.vm: reading_of(vm.vm, answers.hosts, missing=answers.missing)
            for vm in call.vms
        }
        return {vm: reading for vm, reading in readings.items() if reading is not None}


class LibvirtDriver(CommandDriver):
    """The driver port over the libvirts of hosts."""

    def __init__(
        self,
        programs: Programs,
        *,
        python: str,
        connections: Connections,
        records: Path,
        clock: Clock,
        retention: Micros = RETENTION,
    ) -> None:
        """Resume the calls in the directory `records`; raises DriverError.

        Until `watch_hosts`, the driver knows no host.
        """
        self._workers = Workers(
            (*worker_words(python), connections.text, "serve"),
            clock=clock,
            wake=self._wake_control,
        )
        super().__init__(
            programs,
            records=records,
            clock=clock,
            retention=retention,
            kind="libvirt",
            observer=_HostObserver(self._workers, programs=programs, clock=clock),
            watch=self._workers,
        )

    def watch_hosts(self, hosts: Collection[str]) -> None:
        """Connect to these hosts, and to no others."""
        self._workers.watch_hosts(hosts)

    def troubles(self) -> Sequence[str]:
        """Return the hosts that cannot be reached, for operators."""
        return self._workers.troubles()

    def unreachable(self) -> Mapping[str, str]:
        """Return why hosts cannot be reached now, for operators."""
        return self._workers.unreachable()
