"""Marks: the name of a call, written where its work is, before the work begins.

A mark is kept by the VM's domain, or by the host for a host step, and not by the driver.
A driver whose memory is not the one that got a call reads the marks, and can then often
tell the outcome. A mark proves only what it says: without one, a call may have been
made and its mark lost, so the outcome stays unknown.

A leader whose process was paused just before a call can make it late, when another replica
leads. So a mark has the term of its call, and a call of an earlier term neither replaces
it nor changes anything at that place (`check_replacing`). This does not guard a VM without
a process, which has no mark in QEMU, nor a pause between the look and the write in libvirt,
which has no compare-and-set. Before it matters, an operator has resolved the outcome of
the late call, because a new leader makes no call that another replica got. Pure.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from forewarn.drivers.port import Call, Probe, ProbeState, not_started
from forewarn.protocol.enumerations import Enumeration

HOST = ""
"""The place of the mark of a host step, where the places of other marks are VMs."""

_TEXT = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9_-]{0,99})\.([0-9]{1,9})\.([a-z-]{1,40})", re.ASCII
)


class MarkState(Enumeration):
    """How far the work of a mark is."""

    BEGUN = "begun"
    """The work has begun or is about to begin; it can have ended since."""
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The last call that a driver made at one place."""

    operation_id: str
    """ID of the operation; of a host step: ID of the visit."""
    generation: int
    work: str
    """The action, or the kind of host step."""
    state: MarkState = MarkState.BEGUN
    term: int = 0
    """Term of the replica that made the call; 0: a service without replicas, or an older
    version."""
    store: str = ""
    """Name of the store whose term it is."""

    @property
    def text(self) -> str:
        """Return the name in the mark: `op-w2147h2k9m4x3qa8.1.reboot`."""
        return f"{self.operation_id}.{self.generation}.{self.work}"


def mark_of(call: Call, state: MarkState = MarkState.BEGUN) -> Mark:
    """Return the mark of a call."""
    return Mark(
        operation_id=call.operation_id,
        generation=call.generation,
        work=call.action.value if call.step is None else call.step.kind.value,
        state=state,
        term=call.term,
        store=call.store,
    )


class LaterTermError(Exception):
    """A mark of a later term is there; the text is for an operator."""


def check_replacing(mark: Mark, before: Mark | None) -> None:
    """Raise LaterTermError if `mark` must not replace the mark that is there.

    A call without a term replaces each: the service has no other replica. So does a call
    of another store, whose terms are others.
    """
    if (
        before is not None
        and before.store == mark.store
        and 0 < mark.term < before.term
    ):
        raise LaterTermError(
            f"the call {mark.text} of term {mark.term} is not made: a replica that leads in"
            f" term {before.term} has made {before.text} meanwhile"
        )


def parse_mark(text: str, state: str, *, term: int = 0, store: str = "") -> Mark:
    """Return the mark with this text; raises ValueError."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:100]!r} is not the text of a mark")
    return Mark(
        operation_id=match[1],
        generation=int(match[2]),
        work=match[3],
        state=MarkState(state),
        term=term,
        store=store,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The mark of one place; a place that cannot be read has no reading."""

    mark: Mark | None = None
    """None: there is no mark."""
    running: bool | None = None
    """Whether the VM runs now; None: unknown."""
    host: str = ""
    """The host that the VM is on now; empty: unknown."""


class Trace(Enumeration):
    """The state of a call at one place, according to its mark."""

    DONE = "done"
    FAILED = "failed"
    BEGUN = "begun"
    """The call was begun here, and the mark does not tell how it ended."""
    NOT_STARTED = "not started"
    """The last call here was an earlier one of the same operation."""
    UNKNOWN = "unknown"


_TRACES = {
    MarkState.BEGUN: Trace.BEGUN,
    MarkState.DONE: Trace.DONE,
    MarkState.FAILED: Trace.FAILED,
}

BEGUN_TRACES = frozenset(_TRACES.values())
"""The traces of a call that was begun."""


def places_of(call: Call) -> tuple[str, ...]:
    """Return where a call leaves marks."""
    return (HOST,) if call.step is not None else tuple(vm.vm for vm in call.vms)


def trace_of(call: Call, reading: Reading | None) -> Trace:
    """Return the state of a call at one place, according to its mark.

    The mark of another operation proves nothing: the call may have ended before that
    operation, if the store was restored from a backup.
    """
    mark = None if reading is None else reading.mark
    if mark is None or mark.operation_id != call.operation_id:
        return Trace.UNKNOWN
    if mark.generation < call.generation:
        return Trace.NOT_STARTED
    if mark.generation > call.generation or mark.work != mark_of(call).work:
        return Trace.UNKNOWN
    return _TRACES[mark.state]


def traces_of(call: Call, readings: Mapping[str, Reading]) -> dict[str, Trace]:
    """Return the traces of a call at all its places."""
    return {place: trace_of(call, readings.get(place)) for place in places_of(call)}


def is_begun(traces: Mapping[str, Trace]) -> bool:
    """Return whether a call was begun at one of its places, so it can be taken over."""
    return any(trace in BEGUN_TRACES for trace in traces.values())


def unresolved(
    traces: Mapping[str, Trace],
    readings: Mapping[str, Reading],
    *,
    memory: str,
    own: str,
) -> Probe:
    """Return the result of a probe of a call that cannot be taken over."""
    if traces and all(trace is Trace.NOT_STARTED for trace in traces.values()):
        return Probe(state=ProbeState.NOT_STARTED)
    unread = [place or "the host" for place in traces if place not in readings]
    reason = not_started(memory=memory, own=own).reason
    if is_begun(traces):
        why = "its marks do not tell how it ended"
    elif unread:
        more = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
        why = f"the mark of {unread[0]}{more} cannot be read"
    else:
        why = "no mark tells that it was begun"
    return Probe(state=ProbeState.UNKNOWN, reason=f"{reason}, and {why}")
