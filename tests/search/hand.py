"""A hypervisor that ends its calls when a test says so, and remembers them all."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from forewarn.drivers.port import (
    NOWHERE,
    Call,
    Expected,
    HostVms,
    Observation,
    Observations,
    Probe,
    ProbeState,
    Report,
    Sighting,
    Verdict,
)
from forewarn.instants import Micros
from forewarn.protocol.abilities import Ability
from forewarn.protocol.host_steps import NO_STEPS, StepRules
from forewarn.protocol.operations import Action


@dataclass(slots=True)
class HandCall:
    """A call, and what has become of it."""

    call: Call
    report: Report | None = None
    stopped: bool = False
    forgotten: bool = False


class HandDriver:
    """The driver port, with every report released by hand."""

    def __init__(self) -> None:
        self.begun: Counter[tuple[str, int]] = Counter()
        """How often each call was really started."""
        self._calls: dict[str, HandCall] = {}
        self._queue: list[Report] = []
        self._seen: dict[str, Observation] = {}
        self.told: list[Report] = []
        """Every report that was given, to be given again."""
        self.probe_commits = 0
        """Transactions of the world that only ask after a call and take its answer:
        the model has none of them, since they change nothing that it knows."""

    # By hand

    def under_way(self) -> set[str]:
        """Return the operations whose last call has not ended."""
        return {
            key
            for key, call in self._calls.items()
            if call.report is None and not call.stopped and not call.forgotten
        }

    def end(self, operation_id: str, verdict: Verdict, down: Sequence[str]) -> None:
        """Have the last call of an operation end, and report it."""
        call = self._calls[operation_id]
        assert call.report is None, operation_id
        call.report = Report(
            operation_id=operation_id,
            generation=call.call.generation,
            verdict=verdict,
            reason="it was told to",
            down=tuple(down),
        )
        self._queue.append(call.report)
        self.told.append(call.report)
        if verdict is Verdict.DONE:
            for vm in call.call.vms:
                self._seen[vm.vm] = Observation(host=vm.to_host or None)

    def repeat(self, report: Report) -> None:
        """Give an old report again."""
        self._queue.append(report)

    def forget(self, operation_id: str) -> None:
        """Forget what became of a call."""
        self._calls[operation_id].forgotten = True

    # The port

    @property
    def kind(self) -> str:
        return "hand"

    @property
    def memory(self) -> str:
        return "hand"

    def actions(self) -> frozenset[Action]:
        return frozenset(Action) - {Action.NONE}

    def host_steps(self) -> StepRules:
        return NO_STEPS

    @property
    def tells_abilities(self) -> bool:
        return False

    def abilities(self, hosts: Sequence[HostVms]) -> Mapping[str, tuple[Ability, ...]]:
        return {}

    def begin(self, call: Call, *, now: Micros) -> None:
        known = self._calls.get(call.operation_id)
        if known is not None and known.call.generation >= call.generation:
            return
        self.begun[call.operation_id, call.generation] += 1
        self._calls[call.operation_id] = HandCall(call)
        for vm in call.vms:
            self._seen.pop(vm.vm, None)

    def probe(self, call: Call, *, now: Micros, memory: str) -> Probe:
        probe = self._probed(*call.name)
        self.probe_commits += 1
        if probe.state in {ProbeState.RUNNING, ProbeState.NOT_STARTED}:
            self.probe_commits += 1
        return probe

    def _probed(self, operation_id: str, generation: int) -> Probe:
        known = self._calls.get(operation_id)
        if known is None or known.call.generation < generation:
            return Probe(state=ProbeState.NOT_STARTED)
        if known.forgotten:
            return Probe(state=ProbeState.UNKNOWN)
        if known.report is None:
            return Probe(state=ProbeState.RUNNING)
        done = known.report.verdict is Verdict.DONE
        state = ProbeState.DONE if done else ProbeState.FAILED
        return Probe(state=state, report=known.report)

    def abort(self, operation_id: str, generation: int, *, now: Micros) -> bool:
        known = self._calls.get(operation_id)
        if known is not None and known.call.generation == generation:
            known.stopped = True
        return True

    def observe(self, vms: Sequence[str], expected: Expected = NOWHERE) -> Observations:
        return {vm: self._seen.get(vm, Observation()) for vm in vms}

    def reports(self, *, now: Micros) -> Sequence[Report]:
        given, self._queue = self._queue, []
        return given

    def sightings(self, *, now: Micros) -> Sequence[Sighting]:
        return ()

    def next_report_at(self) -> Micros | None:
        return None

    def on_report(self, wake: Callable[[], None]) -> None:
        pass

    def close(self) -> None:
        pass
