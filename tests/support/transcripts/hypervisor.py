"""A driver that reports its calls to the story."""

from collections.abc import Callable, Mapping, Sequence

from forewarn.drivers.port import (
    NOWHERE,
    Call,
    Driver,
    DriverError,
    Expected,
    HostVms,
    Observations,
    Probe,
    Report,
    Sighting,
)
from forewarn.instants import Micros
from forewarn.protocol.abilities import Ability
from forewarn.protocol.host_steps import StepRules
from forewarn.protocol.operations import Action
from tests.support.transcripts.names import Names


class ToldDriver:
    """Passes everything to `driver`, and reports calls, stops and probes."""

    def __init__(
        self, driver: Driver, names: Names, tell: Callable[[str], None]
    ) -> None:
        """Stand before `driver`; give each line to `tell`."""
        self._driver = driver
        self._names = names
        self._tell = tell

    @property
    def kind(self) -> str:
        """Return which kind of driver it is."""
        return self._driver.kind

    @property
    def memory(self) -> str:
        """Return the identity of the driver's memory."""
        return self._driver.memory

    def actions(self) -> frozenset[Action]:
        """Return what the driver can do."""
        return self._driver.actions()

    def host_steps(self) -> StepRules:
        """Return the host steps of the driver."""
        return self._driver.host_steps()

    @property
    def tells_abilities(self) -> bool:
        """Return whether the driver tells anything."""
        return self._driver.tells_abilities

    def abilities(self, hosts: Sequence[HostVms]) -> Mapping[str, tuple[Ability, ...]]:
        """Return what the driver tells."""
        return self._driver.abilities(hosts)

    def begin(self, call: Call, *, now: Micros) -> None:
        """Make the call; raises DriverError."""
        vms = ", ".join(
            f"{vm.vm} to {vm.to_host}" if vm.to_host else vm.vm for vm in call.vms
        )
        number = self._number(call.operation_id, call.generation)
        description = f"{call.action.value} {vms} on {call.host} ({number})"
        try:
            self._driver.begin(call, now=now)
        except DriverError:
            self._tell(f"driver: refuses to {description}")
            raise
        self._tell(f"driver: {description}")

    def probe(self, call: Call, *, now: Micros, memory: str) -> Probe:
        """Ask what became of a call."""
        probe = self._driver.probe(call, now=now, memory=memory)
        number = self._number(*call.name)
        self._tell(f"driver: asked after {number}: {probe.state.value}")
        return probe

    def abort(self, operation_id: str, generation: int, *, now: Micros) -> bool:
        """Stop a call if possible; return whether it was."""
        stopped = self._driver.abort(operation_id, generation, now=now)
        if stopped:
            self._tell(f"driver: stops {self._number(operation_id, generation)}")
        return stopped

    def observe(self, vms: Sequence[str], expected: Expected = NOWHERE) -> Observations:
        """Look at VMs."""
        return self._driver.observe(vms, expected)

    def reports(self, *, now: Micros) -> Sequence[Report]:
        """Return the reports that have come."""
        return self._driver.reports(now=now)

    def sightings(self, *, now: Micros) -> Sequence[Sighting]:
        """Return what was seen unasked."""
        return self._driver.sightings(now=now)

    def next_report_at(self) -> Micros | None:
        """Return when the next report is expected."""
        return self._driver.next_report_at()

    def on_report(self, wake: Callable[[], None]) -> None:
        """Have `wake` called when a report comes unasked."""
        self._driver.on_report(wake)

    def close(self) -> None:
        """Let go of it."""
        self._driver.close()

    def _number(self, operation_id: str, generation: int) -> str:
        return f"{self._names.meet(operation_id)}, call {generation}"
