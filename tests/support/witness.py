"""A driver that asks, at each call, whether the call may be made (S10, S11)."""

from collections.abc import Callable, Mapping, Sequence

from forewarn.drivers.port import (
    NOWHERE,
    Call,
    Driver,
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


class WitnessDriver:
    """Passes everything on to the hypervisor that stands behind it."""

    def __init__(
        self,
        inner: Driver,
        check: Callable[[Call], None],
        told: Callable[[Report], None] = lambda _report: None,
        *,
        is_blind: bool = False,
    ) -> None:
        """Speak for `inner`; `told` hears each report, and a blind driver sees no VM."""
        self.inner = inner
        self.check = check
        self.told = told
        self.is_blind = is_blind
        self.process = 0
        """The number of the process of the service; each restart raises it."""
        self._begun: dict[tuple[str, int], int] = {}

    @property
    def kind(self) -> str:
        return self.inner.kind

    @property
    def memory(self) -> str:
        return self.inner.memory

    def actions(self) -> frozenset[Action]:
        return self.inner.actions()

    def host_steps(self) -> StepRules:
        return self.inner.host_steps()

    @property
    def tells_abilities(self) -> bool:
        return self.inner.tells_abilities

    def abilities(self, hosts: Sequence[HostVms]) -> Mapping[str, tuple[Ability, ...]]:
        return self.inner.abilities(hosts)

    def begin(self, call: Call, *, now: Micros) -> None:
        name = call.operation_id, call.generation
        assert self._begun.get(name, -1) < self.process, f"S11: {name} was called twice"
        later = [
            generation
            for operation, generation in self._begun
            if operation == call.operation_id and generation > call.generation
        ]
        assert not later, f"S11: {name} comes after {later}"
        self._begun[name] = self.process
        self.check(call)
        self.inner.begin(call, now=now)

    def probe(self, call: Call, *, now: Micros, memory: str) -> Probe:
        return self.inner.probe(call, now=now, memory=memory)

    def abort(self, operation_id: str, generation: int, *, now: Micros) -> bool:
        return self.inner.abort(operation_id, generation, now=now)

    def observe(self, vms: Sequence[str], expected: Expected = NOWHERE) -> Observations:
        return {} if self.is_blind else self.inner.observe(vms, expected)

    def reports(self, *, now: Micros) -> Sequence[Report]:
        reports = self.inner.reports(now=now)
        for report in reports:
            self.told(report)
        return reports

    def sightings(self, *, now: Micros) -> Sequence[Sighting]:
        return self.inner.sightings(now=now)

    def next_report_at(self) -> Micros | None:
        return self.inner.next_report_at()

    def on_report(self, wake: Callable[[], None]) -> None:
        self.inner.on_report(wake)

    def close(self) -> None:
        self.inner.close()
