"""The driver port: what control asks of a hypervisor, and what it hears back.

A call is named by (operation id, generation). Control makes the call durable
before it is made, so after a crash the same call may be made again: a driver
must not do it twice. A later generation replaces an earlier one, whose reports
are ignored. Work is asynchronous: `begin` returns at once, and the result is
among the `reports` when it is there. A driver knows nothing of events, scopes
or approvals, and decides nothing.

Control may know less than its driver: where a backup of the store was put back, it
begins calls that ended long ago. It must hear how they ended, or that nobody can
say; otherwise it would wait for a report that was given to a store that is lost.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.operations import Action


class DriverError(ForewarnError):
    """The hypervisor, or the way to it, failed; control retries within bounds."""


class OutcomeUnknownError(DriverError):
    """What a call would do may have been done already, and the driver cannot tell:
    an operator must, and control does not call again by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallVm:
    """One VM of a call."""

    vm: str
    to_host: str = ""
    """Where it must be afterwards; empty: where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One piece of work: `action` on all `vms`, which are on `host`."""

    operation_id: str
    generation: int
    action: Action
    host: str
    vms: tuple[CallVm, ...]
    duration_seconds: int
    """How long a freeze should last; -1: the driver's own choice."""

    def is_same_work(self, other: "Call") -> bool:
        """Tell whether both do the same to the same VMs, whatever their names."""
        mine = self.action, self.host, self.vms
        return mine == (other.action, other.host, other.vms)


class Verdict(enum.Enum):
    """How a call ended."""

    DONE = "done"
    FAILED = "failed"


class VmVerdict(enum.Enum):
    """What a call did to one VM."""

    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It may or may not have been done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VmResult:
    """What a call did to one VM."""

    vm: str
    verdict: VmVerdict
    note: str = ""
    """Why it failed, or what the driver said, for an operator."""
    is_down: bool = False
    """The VM does not run now."""
    host: str = ""
    """Where the VM is now; empty: after a success at its destination, otherwise
    the driver cannot tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The end of a call; it may come twice, late, or after a newer call."""

    operation_id: str
    generation: int
    verdict: Verdict
    reason: str = ""
    """Why it failed, or what it said: words for an operator, kept in the trail."""
    down: tuple[str, ...] = ()
    """The VMs of the call that do not run now."""
    paused: tuple[tuple[str, Micros], ...] = ()
    """VMs with how long each stood still, where the driver has measured it."""
    results: tuple[VmResult, ...] = ()
    """What was done to each VM, where the driver tells them apart. The verdict and
    `down` count for the VMs that are not named here."""

    def result_of(self, vm: str) -> VmResult:
        """Return what was done to one VM of the call."""
        for result in self.results:
            if result.vm == vm:
                return result
        is_done = self.verdict is Verdict.DONE
        return VmResult(
            vm=vm,
            verdict=VmVerdict.DONE if is_done else VmVerdict.FAILED,
            note=self.reason,
            is_down=vm in self.down,
        )


class ProbeState(enum.Enum):
    """What a driver knows of a call after a crash or a time-out."""

    DONE = "done"
    FAILED = "failed"
    RUNNING = "running"
    NOT_STARTED = "not started"
    UNKNOWN = "unknown"
    """It may or may not have been done: control never runs it again by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The answer to a probe.

    `report` comes with DONE and FAILED. With UNKNOWN it comes if something is known
    of some of the VMs.
    """

    state: ProbeState
    report: Report | None = None
    reason: str = ""
    """Why the answer is UNKNOWN, if the driver can say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a driver sees of a VM; None where it cannot tell."""

    running: bool | None = None
    host: str | None = None


def not_started(*, asked: str, own: str) -> Probe:
    """Return the answer to a probe of a call that a driver has no record of.

    `asked` is the memory that the call was given to, `own` is the driver's memory.
    Only the memory that was given a call can say that the call was not started. Of
    any other memory the call may have been started, and its record lost.
    """
    if asked and asked == own:
        return Probe(state=ProbeState.NOT_STARTED)
    return Probe(
        state=ProbeState.UNKNOWN,
        reason="the driver's memory is not the one that the call was given to"
        if asked
        else "the driver has no record of the call, and the store does not know which "
        "memory the call was given to",
    )


class Driver(Protocol):
    """A way to carry operations out.

    `probe`, `observe` and `abort` may take seconds, and then may be used by several
    threads at once. Everything else is used by one thread, and returns at once.
    """

    @property
    def kind(self) -> str:
        """Return in a word which kind of driver it is.

        It is kept with each call: a driver of another kind knows nothing of it.
        """
        ...

    @property
    def memory(self) -> str:
        """Return the identity of the driver's memory of calls.

        The identity is kept inside that memory and is made together with it. It is
        stored with each call: a memory with another identity cannot say that the
        call was not started.
        """
        ...

    def actions(self) -> frozenset[Action]:
        """Return what it can do; control refuses orders for anything else."""
        ...

    def begin(self, call: Call, *, now: Micros) -> None:
        """Start the call, unless this generation was started before.

        One that has ended is reported again. Raises OutcomeUnknownError where that
        cannot be said: a later call of the operation was begun and the end of this
        one is not known, or another piece of work had its name. Raises any other
        DriverError if it certainly was not started.
        """
        ...

    def probe(
        self, operation_id: str, generation: int, *, now: Micros, memory: str
    ) -> Probe:
        """Tell what became of a call.

        `memory` is the identity of the memory that the call was given to; empty: it
        was not stored. NOT_STARTED is answered only if it is this driver's memory.
        """
        ...

    def abort(self, operation_id: str, generation: int, *, now: Micros) -> bool:
        """Stop a call if it can still be stopped without harm; tell whether.

        A newer call of the operation may have begun meanwhile; it goes on.
        """
        ...

    def observe(self, vms: Sequence[str]) -> Mapping[str, Observation]:
        """Look at VMs: control believes no report that this contradicts."""
        ...

    def reports(self, *, now: Micros) -> Sequence[Report]:
        """Return the reports that have come since the last time."""
        ...

    def next_report_at(self) -> Micros | None:
        """Return when the next report is expected; None: not known."""
        ...

    def on_report(self, wake: Callable[[], None]) -> None:
        """Have `wake` called, from any thread, when a report comes unasked."""
        ...

    def close(self) -> None:
        """Let go of resources; work under way is not stopped."""
        ...
