"""The driver port: the calls of control to a hypervisor, and the reports about them.

The name of a call is (operation ID, generation). Control stores a call before it makes
it, so it may repeat the call after a crash: a driver must not do the work twice. A
later generation replaces an earlier one, whose reports control ignores. A call is work
on VMs, or a host step: its name is then (visit ID, generation), and it has no VMs. Work
is asynchronous: `begin` returns at once, and `reports` has the result later. A driver
knows no events, scopes or approvals, and decides nothing.

If a backup of the store was restored, control knows less than its driver and begins
calls that ended long ago. The driver must report how they ended, or that the outcome
is unknown. Otherwise control would wait for a report that the lost store received.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, TypeAlias, runtime_checkable

from forewarn.instants import Micros
from forewarn.protocol.abilities import Ability
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.host_steps import HostStep, StepRules
from forewarn.protocol.operations import Action


class DriverError(ForewarnError):
    """The hypervisor or the connection to it failed; control retries within bounds."""


class OutcomeUnknownError(DriverError):
    """The work of a call may already be done, and the driver cannot tell.

    An operator must resolve it; control never repeats the call automatically.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CallVm:
    """One VM of a call."""

    vm: str
    to_host: str = ""
    """The host that it must be on afterwards. Empty: its present host, or, if the action
    moves the VM, any other host, which the driver chooses and reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One piece of work: `action` on all `vms`, which are on `host`, or `step` on it."""

    operation_id: str
    """ID of the operation; of a host step: ID of the visit."""
    generation: int
    action: Action
    host: str
    vms: tuple[CallVm, ...]
    duration_seconds: int
    """Duration of a freeze in seconds; -1: the driver decides."""
    step: HostStep | None = None
    """The host step; None: the call is for VMs."""
    campaign: str = ""
    """The request that a host step belongs to, for its program."""
    closed: tuple[str, ...] = ()
    """If the driver chooses the hosts of VMs: other hosts that are announced, in work,
    cordoned or down, by name. It must not move a VM there."""
    waiting: tuple[str, ...] = ()
    """If the driver chooses the hosts of VMs: other hosts of the same request that wait
    for their turn, the next one first. A VM that moves there is moved again later."""
    term: int = 0
    """Term of the replica that makes the call; 0: the service has no replicas. A call must
    not replace the mark of a later term of the same store."""
    store: str = ""
    """Name of the store whose terms these are; empty without a term."""

    @property
    def name(self) -> tuple[str, int]:
        """Return the operation or visit, and the generation."""
        return self.operation_id, self.generation

    def is_same_work(self, other: "Call") -> bool:
        """Return whether both calls do the same to the same VMs, under any name."""
        work = self.action, self.host, self.vms, self.step
        return work == (other.action, other.host, other.vms, other.step)


class Verdict(Enumeration):
    """How a call ended."""

    DONE = "done"
    FAILED = "failed"
    NOT_NEEDED = "not needed"
    """A step `needed` found that the host does not need the work."""


class VmVerdict(Enumeration):
    """The effect of a call on one VM."""

    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """The work may or may not be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VmResult:
    """The effect of a call on one VM."""

    vm: str
    verdict: VmVerdict
    note: str = ""
    """Text for an operator: the reason of a failure, or output of the driver."""
    running: bool | None = None
    """Whether the VM runs now; None: the driver cannot tell."""
    host: str = ""
    """The host that the VM is on now. Empty after a success: the destination of the call,
    or, if the driver chose it, unknown. Empty after a failure: the driver cannot tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a call; it may arrive twice, late, or after a newer call."""

    operation_id: str
    generation: int
    verdict: Verdict
    reason: str = ""
    """Text for an operator, stored in the history: the reason of a failure, or output."""
    down: tuple[str, ...] = ()
    """The VMs of the call that do not run now."""
    paused: tuple[tuple[str, Micros], ...] = ()
    """VMs with the time that each was paused, if the driver measured it."""
    results: tuple[VmResult, ...] = ()
    """Results of single VMs, if the driver distinguishes them. `verdict` and `down`
    apply to the VMs that are not listed here."""

    def result_of(self, vm: str) -> VmResult:
        """Return the result for one VM of the call."""
        for result in self.results:
            if result.vm == vm:
                return result
        return VmResult(
            vm=vm,
            verdict=VmVerdict.DONE
            if (self.verdict is Verdict.DONE)
            else VmVerdict.FAILED,
            note=self.reason,
            running=False if vm in self.down else None,
        )


class ProbeState(Enumeration):
    """The state of a call as a driver knows it after a crash or a timeout."""

    DONE = "done"
    FAILED = "failed"
    RUNNING = "running"
    NOT_STARTED = "not started"
    UNKNOWN = "unknown"
    """The work may or may not be done: control never repeats it automatically."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The result of a probe.

    `report` is set with DONE and FAILED. With UNKNOWN, it is set if the results of
    some VMs are known.
    """

    state: ProbeState
    report: Report | None = None
    reason: str = ""
    """The reason of UNKNOWN, if the driver has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The observed state of a VM; None if the driver cannot tell."""

    running: bool | None = None
    host: str | None = None

    def or_else(self, result: VmResult) -> "Observation":
        """Return this observation, completed by what a report says about the VM."""
        return Observation(
            running=result.running if self.running is None else self.running,
            host=self.host or result.host or None,
        )


Observations: TypeAlias = Mapping[str, Observation]
"""Observations by VM; a VM that is missing was not observed."""

Expected: TypeAlias = Mapping[str, Sequence[str]]
"""The hosts on which each VM is expected, as far as they are known. A driver asks them
first, and other hosts only about a VM that runs on none of them."""

NOWHERE: Expected = MappingProxyType({})
"""No VM is expected anywhere."""


def expected_of(call: Call) -> Expected:
    """Return where the VMs of a call are during its work or after it."""
    return {vm.vm: hosts_of(vm.to_host, call.host) for vm in call.vms}


def hosts_of(*hosts: str) -> tuple[str, ...]:
    """Return the hosts that are known, each once, in their order."""
    return tuple(dict.fromkeys(filter(None, hosts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class HostVms:
    """A host and the VMs on it, in a question about their abilities."""

    host: str
    vms: tuple[str, ...]


class StopCause(Enumeration):
    """Why a VM does not run."""

    FAILED = "failed"
    """The driver knows no reason why it had to stop."""
    SHUT_DOWN = "shut-down"
    """Its user shut it down from inside."""
    UNKNOWN = "unknown"
    """It has not run since before the driver looked, for an unknown reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """An unrequested change of a VM that the driver saw."""

    vm: str
    running: bool
    at: Micros
    """When the driver saw it."""
    host: str = ""
    """The host that the VM is on; empty: the driver cannot tell."""
    cause: StopCause = StopCause.FAILED
    """Why a VM that does not run stopped."""
    text: str = ""
    """Text for an operator, stored in the history."""

    @property
    def is_without_reason(self) -> bool:
        """Return whether the VM was off before the driver looked, for an unknown reason."""
        return not self.running and self.cause is StopCause.UNKNOWN


def not_started(*, memory: str, own: str) -> Probe:
    """Return the result of a probe of a call that a driver has no record of.

    `memory` is the identity of the memory that got the call, `own` that of the driver's
    memory. Only the memory that got a call can tell that the call was not started.
    With any other memory, the call may have been started and its record lost.
    """
    if memory and memory == own:
        return Probe(state=ProbeState.NOT_STARTED)
    return Probe(
        state=ProbeState.UNKNOWN,
        reason="the driver's memory is not the one that the call was given to"
        if memory
        else "the driver has no record of the call, and the store does not know which "
        "memory the call was given to",
    )


class Driver(Protocol):
    """A way to carry operations out.

    `probe`, `observe`, `abort` and `abilities` may take seconds, and several threads may
    use them at the same time. One thread uses the other methods, which return at once.
    """

    @property
    def kind(self) -> str:
        """Return the kind of the driver, as one word.

        The store keeps it with each call: a driver of another kind has no record of it.
        """
        ...

    @property
    def memory(self) -> str:
        """Return the identity of the driver's memory of calls.

        The identity is created with that memory and kept inside it. The store keeps
        it with each call: a memory with another identity cannot tell that the
        call was not started.
        """
        ...

    def actions(self) -> frozenset[Action]:
        """Return the supported actions; control refuses requests for others."""
        ...

    def host_steps(self) -> StepRules:
        """Return the supported host steps; control refuses requests for others."""
        ...

    @property
    def tells_abilities(self) -> bool:
        """Return whether it is worth asking `abilities`; this can change."""
        ...

    def abilities(self, hosts: Sequence[HostVms]) -> Mapping[str, tuple[Ability, ...]]:
        """Return what can be done on each of these hosts and to their VMs.

        It answers about all VMs of a host at once. A host that is missing in the result
        could not be asked: control keeps the last answer about it. Everything else that
        an answer does not mention is unknown.
        """
        ...

    def begin(self, call: Call, *, now: Micros) -> None:
        """Start the call, unless this generation was started before.

        If the call has ended, report its result again. Raise OutcomeUnknownError if a
        later call of the operation was begun, so that the result is unknown, or if a
        call with this name did other work. Raise another DriverError only if the call
        was certainly not started.
        """
        ...

    def probe(self, call: Call, *, now: Micros, memory: str) -> Probe:
        """Return the state of a call, which control has stored as it was made.

        `memory` is the identity of the memory that got the call; empty: it was not
        stored. The result is NOT_STARTED only if it is this driver's memory.
        """
        ...

    def abort(self, operation_id: str, generation: int, *, now: Micros) -> bool:
        """Stop a call if that is still safe; return whether it was stopped.

        If a newer call of the operation has begun meanwhile, that call continues.
        """
        ...

    def observe(
        self, vms: Sequence[str], expected: Expected = NOWHERE, /
    ) -> Observations:
        """Observe VMs: control rejects a report that contradicts this."""
        ...

    def reports(self, *, now: Micros) -> Sequence[Report]:
        """Return the reports since the last call of this method."""
        ...

    def sightings(self, *, now: Micros) -> Sequence[Sighting]:
        """Return the unrequested changes since the last call of this method.

        Control keeps no sighting over a restart. After it was opened, the driver
        therefore returns the last sighting of each VM again, unless that only says that
        the VM runs. A driver that watches nothing returns none.
        """
        ...

    def next_report_at(self) -> Micros | None:
        """Return the time of the next expected report; None: unknown."""
        ...

    def on_report(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, when there is an unexpected report or sighting."""
        ...

    def close(self) -> None:
        """Release resources; running work continues."""
        ...


@runtime_checkable
class LateStarter(Protocol):
    """A driver that starts a part of a call later than in `begin`."""

    def start_only_while(self, may_start: Callable[[], bool]) -> None:
        """Ask this before each start, from any thread; what may not start waits.

        A replica that may have lost its lease starts nothing more.
        """
        ...


@runtime_checkable
class HostWatcher(Protocol):
    """A driver that keeps connections to the hosts of the fleet."""

    def watch_hosts(self, hosts: Collection[str]) -> None:
        """Connect to these hosts, and to no others; return at once."""
        ...

    def troubles(self) -> Sequence[str]:
        """Return the troubles with these connections, for operators."""
        ...

    def unreachable(self) -> Mapping[str, str]:
        """Return why hosts cannot be reached now, for operators, by host."""
        ...
