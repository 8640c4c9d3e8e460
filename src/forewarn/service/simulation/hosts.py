"""The hypervisor of a simulation: work takes time, and fails on some hosts."""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from forewarn.campaigns.durations import Measured
from forewarn.campaigns.model import Campaign, Expectation, Step
from forewarn.campaigns.simulated import Chances
from forewarn.control.rules.policy import Policy
from forewarn.drivers.journal import Note
from forewarn.drivers.port import Call
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.instants import MILLISECOND, SECOND, Micros
from forewarn.protocol.host_steps import StepKind, StepRule, StepRules
from forewarn.protocol.operations import HALVES, Action

SHORT_STEP: Micros = SECOND
"""Duration of each step of a host but its work, which takes what is left of the time of
the host."""

SHORT_PART = 20
"""A step takes at most this part of the time of a typical host, so that the steps do not
become longer than the whole in a service that is sped up."""

SHORTEST: Micros = MILLISECOND
"""Minimum duration of a call."""

MOVING_PART = 2
"""The moves of VMs take at most this part of the time of a host with a step `work`, if
they were not measured."""

_RESTORED_BY = dict(HALVES.values())
"""The second half of each first half of an action."""

_HALVES = frozenset([*_RESTORED_BY, *_RESTORED_BY.values()])


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTimes:
    """The durations of the parts of the work on a host."""

    expect: Expectation
    """The whole, from the start to the end of the last step."""
    steps: AbstractSet[StepKind] = frozenset()
    """The host steps; empty: there are only calls for VMs."""
    needed: Micros = 0
    """Time of the step `needed`, before the notice; 0: it was not measured."""
    moving: Micros | None = None
    """Time until the VMs have moved away, on a typical host; None: it was not measured."""
    verify_times: int = 1
    verify_settle: Micros = 0
    """Time between the first and the last run of `verify`."""

    @property
    def short(self) -> Micros:
        """Return the duration of a short step."""
        return max(SHORTEST, min(SHORT_STEP, self.expect.typical // SHORT_PART))

    @property
    def leaving(self) -> Micros:
        """Return the time of the steps after the VMs run again."""
        time: Micros = 0
        if StepKind.VERIFY in self.steps:
            settle = self.verify_settle if self.verify_times > 1 else 0
            time += self.verify_times * self.short + settle
        return time + (self.short if StepKind.EXIT in self.steps else 0)


def patient(steps: Iterable[Step], longest: Micros) -> StepRules:
    """Return rules under which no step of a campaign is too late.

    The durations are assumed, so a long one does not mean that a program has hung.
    """
    rule = StepRule(timeout=longest)
    return StepRules(rules=tuple((step.name, rule) for step in steps), takes_any=True)


def times_of(
    campaign: Campaign, measured: Measured | None, policy: Policy
) -> HostTimes:
    """Return the times of the hosts of a campaign.

    `measured` has the durations of past work. The slow time of the file, which can be
    longer, decides only what fits before a window closes.
    """
    expect = campaign.expect
    if measured is not None:
        expect = replace(measured.work, slow=measured.slow)
    return HostTimes(
        expect=expect,
        steps=frozenset(StepKind(step.phase.value) for step in campaign.steps),
        needed=0 if measured is None else measured.needed,
        moving=None if measured is None else measured.moving,
        verify_times=policy.verify_times,
        verify_settle=policy.verify_settle,
    )


class SimulatedHosts(SimulatedDriver):
    """The calls of a host together take its time, and all fail or none does."""

    def __init__(
        self,
        chances: Chances,
        times: HostTimes,
        *,
        steps: StepRules,
        vms_of: Callable[[str], int],
    ) -> None:
        """Draw the durations of hosts, which end before the recovery of VMs.

        `steps` has the timeouts of host steps. `vms_of` returns the number of VMs of an
        operation: if each VM has its own call, they share the time.
        """
        super().__init__(journal=_NoJournal(), steps=steps, step_time=times.short)
        self._chances = chances
        self._times = times
        self._vms_of = vms_of
        self._has_work = StepKind.WORK in times.steps
        self._begun: dict[str, Micros] = {}
        """When the present work on a host has begun."""
        self._held: dict[str, Micros] = {}
        """The time until the VMs of a host, which are paused or stopped for the step
        `work`, run again."""
        self._now: Micros = 0

    def begin(self, call: Call, *, now: Micros) -> None:
        """Begin a call, which fails if its host's work fails."""
        self._now = now
        kind = None if call.step is None else call.step.kind
        if kind not in {StepKind.NEEDED, StepKind.VERIFY, StepKind.EXIT}:
            self._begun.setdefault(call.host, now)
        if call.action in _RESTORED_BY:
            up = replace(call, action=_RESTORED_BY[call.action])
            self._held[call.host] = self.duration_of(up)
        self.clear()
        is_work = kind is StepKind.WORK if self._has_work else kind is None
        if is_work and self._chances.fails(call.host):
            self.inject(Fault(kind=FaultKind.FAIL, step=kind, leaves_down=True))
        super().begin(call, now=now)
        if kind is StepKind.WORK or (kind is None and not self._has_work):
            # Another attempt begins its time again.
            self._forget(call)

    def _forget(self, call: Call) -> None:
        self._begun.pop(call.host, None)
        self._held.pop(call.host, None)

    def duration_of(self, call: Call) -> Micros:
        """Return the duration of a call."""
        times = self._times
        if call.step is not None:
            if call.step.kind is StepKind.WORK:
                return self._work(call.host)
            if call.step.kind is StepKind.NEEDED:
                return times.needed or times.short
            return times.short
        length = self._chances.work(call.host, times.expect)
        usual = super().duration_of(call)
        if call.action in _HALVES:
            return min(usual, length // (2 * MOVING_PART))
        if call.action is Action.FREEZE:
            # A pause has a maximum, which was announced.
            return usual
        calls = max(1, -(-self._vms_of(call.operation_id) // max(1, len(call.vms))))
        return max(SHORTEST, self._of_vms(length, usual * calls) // calls)

    def _of_vms(self, length: Micros, usual: Micros) -> Micros:
        """Return the time of all calls for the VMs of a host, of its whole `length`."""
        times = self._times
        if not self._has_work:
            entering = times.short if StepKind.ENTER in times.steps else 0
            return length - entering - times.leaving
        if times.moving is not None:
            usual = times.moving * length // times.expect.typical
            return min(usual, length - times.leaving)
        return min(usual, length // MOVING_PART)

    def _work(self, host: str) -> Micros:
        """Return the duration of the step `work`: the time that is left to its host."""
        times = self._times
        length = self._chances.work(host, times.expect)
        answers = times.short if StepKind.ANSWERS in times.steps else 0
        after = answers + self._held.get(host, 0) + times.leaving
        return max(times.short, self._begun[host] + length - self._now - after)


class _NoJournal:
    """A journal that keeps nothing: a simulation is never continued."""

    def notes(self) -> Mapping[str, Note]:
        """Return nothing."""
        return {}

    def write(self, key: str, note: Note) -> None:
        """Keep nothing."""

    def forget(self, key: str) -> None:
        """Keep nothing."""

    def close(self) -> None:
        """Do nothing."""
