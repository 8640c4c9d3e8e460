"""A call as a simulated hypervisor stores it, and its form in the journal.

A fault changes the result of calls. Faults are values, and have a notation in the settings.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from forewarn.drivers.journal import Note
from forewarn.drivers.port import (
    Call,
    CallVm,
    Observation,
    Report,
    Sighting,
    StopCause,
    Verdict,
    VmResult,
    VmVerdict,
)
from forewarn.drivers.step_notes import step_from
from forewarn.instants import SECOND, Micros
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.host_steps import HostStep, StepKind
from forewarn.protocol.operations import KEEPING_ACTIONS, MOVING_ACTIONS, Action

T = TypeVar("T")

TIMES_MAX = 1_000_000
"""Maximum of `times`: more calls than a simulation makes; use `times=always`."""

_TIMES = re.compile(r"[0-9]{1,7}", re.ASCII)
_FORM = (
    "write ACTION KIND [vm=NAME] [others=done] [left=down] [host=NAME] [times=N], such "
    "as 'reboot fail times=2'"
)


CALL_DURATIONS: Mapping[Action, Micros] = {
    Action.FREEZE: 7 * SECOND,
    Action.LIVE_MIGRATE: 5 * SECOND,
    Action.REBOOT: 60 * SECOND,
    Action.REDEPLOY: 60 * SECOND,
    Action.REIMAGE: 60 * SECOND,
    Action.DELETE: 5 * SECOND,
    Action.PAUSE: SECOND,
    Action.RESUME: SECOND,
    Action.STOP: 30 * SECOND,
    Action.START: 30 * SECOND,
}
"""The default duration of a call for each action."""


class FaultKind(Enumeration):
    """The kinds of faults."""

    FAIL = "fail"
    """The call ends on time and fails."""
    STALL = "stall"
    """The call never ends."""
    LIE = "lie"
    """The driver reports success, but the VMs do not run, or are on another host."""
    REFUSE = "refuse"
    """The driver refuses the call."""
    FORGET = "forget"
    """The driver accepts the call and loses all record of it."""
    UNKNOWN = "unknown"
    """The call ends on time, and the driver does not know whether it did the work."""
    NOT_NEEDED = "not-needed"
    """Only a host step `needed`: the host does not need the work."""
    LAND = "land"
    """The VMs move to a host that the fault names. The driver reports that host."""
    UNTOLD = "untold"
    """The VMs move, and the driver does not report which host they are on."""
    MARK_LOST = "mark-lost"
    """The call is made, and its marks are lost."""
    MARK_ONLY = "mark-only"
    """The marks of the call are written, and the driver ends before the work."""
    MARK_UNREADABLE = "mark-unreadable"
    """The call is made, and its marks cannot be read."""
    UNSEEN = "unseen"
    """The call is made, and the driver cannot observe its VMs afterward."""


_MOVING_KINDS = frozenset({FaultKind.LAND, FaultKind.UNTOLD})
"""The kinds of faults that only calls which move VMs can have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of the next calls that it matches."""

    kind: FaultKind
    action: Action | None = None
    """Action of the calls; None: any call."""
    step: StepKind | None = None
    """Kind of the host steps; if it is set, the fault matches no other calls."""
    vm: str = ""
    """The fault matches only calls with this VM; empty: all calls."""
    times: int | None = 1
    """Number of calls; None: all further calls."""
    reason: str = "a simulated fault"
    leaves_down: bool = False
    """With FAIL or LIE: whether the VMs of the call do not run afterward. If `vm` is
    set, this applies only to that VM."""
    spares_others: bool = False
    """FAIL and UNKNOWN with `vm`: the call succeeds for the other VMs."""
    elsewhere: str = ""
    """FAIL, LIE or LAND: the actual host of the VMs. Empty: where the call left them."""
    abortable: bool = True
    """STALL: whether the call can be stopped."""

    def fits(self, call: Call) -> bool:
        """Return whether the fault matches this call."""
        if call.step is not None and self.step is not None:
            return self.step is call.step.kind and not self.vm
        if self.step is not None:
            return False
        if self.kind is FaultKind.NOT_NEEDED and call.step is None:
            return False
        if self.kind in _MOVING_KINDS and call.action not in MOVING_ACTIONS:
            return False
        return self.action in {None, call.action} and (
            not self.vm or any(affected.vm == self.vm for affected in call.vms)
        )


def parse_fault(text: str) -> Fault:
    """Return the fault of a setting, in the form `_FORM`.

    Raises ValueError with a message for the operator.
    """
    parts = text.split()
    if len(parts) < 2:  # noqa: PLR2004 - the action and the kind
        raise ValueError(f"{text!r} is not a fault: {_FORM}")
    kind = _one_of(parts[1], {fault_kind.value: fault_kind for fault_kind in FaultKind})
    rest = dict[str, str]()
    for word in parts[2:]:
        key, _, value = word.partition("=")
        if key not in _PARTS or key in rest or not value:
            raise ValueError(f"{word!r} is not part of a fault: {_FORM}")
        part = _PARTS[key]
        if part.value and value != part.value:
            raise ValueError(f"{key} can only be {part.value}, not {value!r}")
        if kind not in part.kinds:
            raise ValueError(f"a fault {kind.value!r} cannot have {key}")
        rest[key] = value
    if "others" in rest and "vm" not in rest:
        raise ValueError("others=done needs the vm for which the call is not done")
    step = _STEPS.get(parts[0])
    if kind is FaultKind.NOT_NEEDED and step is not StepKind.NEEDED:
        raise ValueError("not-needed is a fault of needed: write 'needed not-needed'")
    if kind is FaultKind.LAND and "host" not in rest:
        raise ValueError("land needs the host to which the VMs move: add host=NAME")
    if step is not None and (rest.keys() - {"times"} or kind in _MOVING_KINDS):
        raise ValueError("a fault of a host step can only have times")
    return Fault(
        kind=kind,
        action=None if step else _one_of(parts[0], _ACTIONS),
        step=step,
        vm=rest.get("vm", ""),
        times=_times(rest.get("times", "1")),
        # A report of success would be true if the VMs ran on the right host, so it
        # would not be a LIE.
        leaves_down="left" in rest or (kind is FaultKind.LIE and "host" not in rest),
        spares_others="others" in rest,
        elsewhere=rest.get("host", ""),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """An optional part of a fault's notation."""

    kinds: frozenset[FaultKind] = frozenset(FaultKind)
    """The kinds of faults that can have it."""
    value: str = ""
    """Its only value; empty: any."""


_PARTS: Mapping[str, _Part] = {
    "vm": _Part(),
    "times": _Part(),
    "others": _Part(kinds=frozenset({FaultKind.FAIL, FaultKind.UNKNOWN}), value="done"),
    "left": _Part(
        kinds=frozenset({FaultKind.FAIL, FaultKind.LIE, FaultKind.UNKNOWN}),
        value="down",
    ),
    "host": _Part(kinds=frozenset({FaultKind.FAIL, FaultKind.LIE, FaultKind.LAND})),
}


_ACTIONS: Mapping[str, Action | None] = {
    "any": None,
    **{action.name.lower(): action for action in Action if action is not Action.NONE},
}


_STEPS: Mapping[str, StepKind] = {kind.value: kind for kind in StepKind}


def _one_of(word: str, known: Mapping[str, T]) -> T:
    if word not in known:
        raise ValueError(f"{word!r} is not one of {', '.join(known)}")
    return known[word]


def _times(text: str) -> int | None:
    if text == "always":
        return None
    if not _TIMES.fullmatch(text) or not 1 <= int(text) <= TIMES_MAX:
        raise ValueError(f"times must be 1 to {TIMES_MAX}, or always, not {text!r}")
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A call as the hypervisor stores it, with a result that is decided at its start."""

    call: Call
    """The call. A journal does not store the requested duration."""
    begun: Micros
    ends: Micros | None
    """When the call ends; None: it never ends."""
    verdict: Verdict = Verdict.DONE
    reason: str = ""
    down: tuple[str, ...] = ()
    """VMs that do not run after the call, whatever its verdict."""
    spared: tuple[str, ...] = ()
    """The VMs for which the call succeeds, if it fails for others."""
    unknown: tuple[str, ...] = ()
    """The VMs whose outcome the driver does not know."""
    elsewhere: str = ""
    """The host of the VMs that are not spared, if it is another one than expected."""
    chosen: tuple[tuple[str, str], ...] = ()
    """The hosts to which the driver moves VMs, by VM, if the call names none or a fault
    names others."""
    untold: tuple[str, ...] = ()
    """The VMs whose new hosts the driver does not tell."""
    unseen: tuple[str, ...] = ()
    """The VMs that the driver cannot observe after the call."""
    is_lie: bool = False
    abortable: bool = True
    forgotten: bool = False
    reported: bool = False

    @property
    def name(self) -> tuple[str, int]:
        """Return the operation and the generation."""
        return self.call.name

    def has_ended(self, now: Micros) -> bool:
        """Return whether the call has ended."""
        return self.ends is not None and self.ends <= now

    def moved(self, by: Micros, *, earliest: Micros = 0) -> "Task":
        """Return the call with its times moved; it ends at `earliest` or later.

        A call that never ends stays as it is.
        """
        if self.ends is None:
            return self
        ends = max(earliest, self.ends + by)
        return replace(self, begun=self.begun + by, ends=ends)

    def report(self) -> Report:
        """Return the report of the call's end."""
        failed = self.verdict is Verdict.FAILED
        if self.call.step is not None:
            return Report(
                operation_id=self.call.operation_id,
                generation=self.call.generation,
                verdict=self.verdict,
                reason=self.reason,
            )
        return Report(
            operation_id=self.call.operation_id,
            generation=self.call.generation,
            verdict=self.verdict,
            reason=self.reason if failed else "",
            down=self.down if failed else (),
            paused=() if failed else self._paused(),
            results=tuple(self._result(vm) for vm in self.call.vms),
        )

    def _result(self, vm: CallVm) -> VmResult:
        """Return the result for one VM, as the driver reports it."""
        if vm.vm in self.unknown:
            return VmResult(vm=vm.vm, verdict=VmVerdict.UNKNOWN)
        if self.is_done_for(vm):
            # A LIE reports what a success would have left.
            return VmResult(
                vm=vm.vm,
                verdict=VmVerdict.DONE,
                running=self.call.action not in {Action.DELETE, Action.STOP},
                host=self._told(vm, self._destination(vm)),
            )
        return VmResult(
            vm=vm.vm,
            verdict=VmVerdict.FAILED,
            note=self.reason,
            running=vm.vm not in self.down,
            host=self.elsewhere or self.call.host,
        )

    def _destination(self, vm: CallVm) -> str:
        """Return the host on which a success leaves a VM."""
        return dict(self.chosen).get(vm.vm) or vm.to_host or self.call.host

    def _told(self, vm: CallVm, host: str) -> str:
        return "" if vm.vm in self.untold else host

    def is_done_for(self, vm: CallVm) -> bool:
        """Return whether the call succeeds for a VM."""
        return self.verdict is Verdict.DONE or vm.vm in self.spared

    def _paused(self) -> tuple[tuple[str, Micros], ...]:
        """Return how long the call's VMs were paused, if the action only pauses
        them."""
        if self.call.action not in KEEPING_ACTIONS or self.ends is None:
            return ()
        return tuple((vm.vm, self.ends - self.begun) for vm in self.call.vms)

    def left(self) -> dict[str, Observation]:
        """Return the state of the call's VMs after its end."""
        return {vm.vm: self._left(vm) for vm in self.call.vms}

    def _left(self, vm: CallVm) -> Observation:
        if vm.vm in self.unseen:
            return Observation()
        done = self.is_done_for(vm)
        if done and self.call.action is Action.STOP:
            # A lie about a stop left the VM running.
            return Observation(running=self.is_lie, host=self.call.host)
        gone = done and self.call.action is Action.DELETE and not self.is_lie
        elsewhere = "" if vm.vm in self.spared else self.elsewhere
        return Observation(
            running=not gone and vm.vm not in self.down,
            host=self._told(
                vm, elsewhere or (self._destination(vm) if done else self.call.host)
            )
            or None,
        )


def task_of(call: Call, fault: Fault | None, *, begun: Micros, impact: Micros) -> Task:
    """Return the task of a call that begins now, with the effects of `fault`."""
    task = Task(call=call, begun=begun, ends=begun + impact)
    if fault is None:
        return task
    if call.step is not None and fault.kind is FaultKind.UNKNOWN:
        # No report can say it: the driver lost track of the program.
        return replace(task, forgotten=True)
    hit = tuple(vm.vm for vm in call.vms if fault.vm in {"", vm.vm})
    down = hit if fault.leaves_down else ()
    match fault.kind:
        case FaultKind.FAIL | FaultKind.UNKNOWN:
            is_known = fault.kind is FaultKind.FAIL
            spared = tuple(vm.vm for vm in call.vms if vm.vm not in hit)
            return replace(
                task,
                verdict=Verdict.FAILED,
                reason=fault.reason,
                down=down,
                spared=spared if fault.spares_others else (),
                unknown=() if is_known else hit,
                elsewhere=fault.elsewhere if is_known else "",
            )
        case FaultKind.STALL:
            return replace(task, ends=None, abortable=fault.abortable)
        case FaultKind.LIE:
            return replace(task, is_lie=True, down=down, elsewhere=fault.elsewhere)
        case FaultKind.LAND:
            return replace(task, chosen=tuple((vm, fault.elsewhere) for vm in hit))
        case FaultKind.UNTOLD:
            return replace(task, untold=hit)
        case FaultKind.REFUSE | FaultKind.FORGET | FaultKind.MARK_ONLY:
            return replace(task, forgotten=True)
        case FaultKind.MARK_LOST | FaultKind.MARK_UNREADABLE:
            return task
        case FaultKind.UNSEEN:
            return replace(task, unseen=hit)
        case FaultKind.NOT_NEEDED:
            return replace(task, verdict=Verdict.NOT_NEEDED, reason=fault.reason)


def note_of(task: Task) -> Note:
    """Return the task in the journal's form."""
    step = task.call.step
    return {
        **({} if step is None else _note_of_step(step, task.call)),
        "operation": task.call.operation_id,
        "generation": task.call.generation,
        "action": task.call.action.value,
        "host": task.call.host,
        "vms": [[vm.vm, vm.to_host] for vm in task.call.vms],
        "begun": task.begun,
        "ends": task.ends,
        "verdict": task.verdict.value,
        "reason": task.reason,
        "down": list(task.down),
        "spared": list(task.spared),
        "unknown": list(task.unknown),
        "elsewhere": task.elsewhere,
        "chosen": dict(task.chosen),
        "untold": list(task.untold),
        "unseen": list(task.unseen),
        "lie": task.is_lie,
        "abortable": task.abortable,
        "forgotten": task.forgotten,
        "told": task.reported,
    }


def _note_of_step(step: HostStep, call: Call) -> Note:
    return {
        "step": step.kind.value,
        "name": step.name,
        "arguments": dict(step.arguments),
        "campaign": call.campaign,
    }


def task_from(note: Note) -> Task:
    """Return the task of a note."""
    return Task(
        call=Call(
            operation_id=note["operation"],
            generation=note["generation"],
            action=Action(note["action"]),
            host=note["host"],
            vms=tuple(CallVm(vm=vm, to_host=to_host) for vm, to_host in note["vms"]),
            duration_seconds=-1,
            step=step_from(note),
            campaign=note.get("campaign", ""),
        ),
        begun=note["begun"],
        ends=note["ends"],
        verdict=Verdict(note["verdict"]),
        reason=note["reason"],
        down=tuple(note["down"]),
        # Journals of 0.1.0 have no partial success.
        spared=tuple(note.get("spared", ())),
        unknown=tuple(note.get("unknown", ())),
        elsewhere=note["elsewhere"],
        # Journals of 0.1.0 have no hosts that the driver chose.
        chosen=tuple(note.get("chosen", {}).items()),
        untold=tuple(note.get("untold", ())),
        unseen=tuple(note.get("unseen", ())),
        is_lie=note["lie"],
        abortable=note["abortable"],
        forgotten=note["forgotten"],
        reported=note["told"],
    )


def note_of_sighting(sighting: Sighting) -> Note:
    """Return the sighting in the journal's form."""
    return {
        "vm": sighting.vm,
        "running": sighting.running,
        "at": sighting.at,
        "host": sighting.host,
        "cause": sighting.cause.value,
        "text": sighting.text,
    }


def sighting_from(note: Note) -> Sighting:
    """Return the sighting of a note."""
    return Sighting(
        vm=note["vm"],
        running=note["running"],
        at=note["at"],
        host=note["host"],
        cause=StopCause(note["cause"]),
        text=note["text"],
    )
