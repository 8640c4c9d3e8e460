"""The simulated VMs and hosts themselves, with the marks that they keep.

A driver's memory can be lost. The domains of a real hypervisor continue, keep the marks
of the calls, and end what was begun. Here a journal of its own stands for them.
"""

from collections import deque
from dataclasses import replace

from forewarn.drivers import marks
from forewarn.drivers.journal import Journal, MemoryJournal, Note
from forewarn.drivers.marks import (
    HOST,
    Mark,
    MarkState,
    Reading,
    mark_of,
    parse_mark,
    places_of,
    traces_of,
)
from forewarn.drivers.port import Call, DriverError, Probe, Verdict, not_started
from forewarn.drivers.tasks import Fault, FaultKind, Task, note_of, task_from
from forewarn.instants import Micros

DEEDS_KEPT = 2_000
"""Maximum number of calls whose marks and work are kept: twice as many as a driver's
memory keeps. The marks of an older call are removed with it."""


class Domains:
    """The marks of VMs and hosts, and the work that the hypervisor does for a call."""

    def __init__(self, journal: Journal | None) -> None:
        """Read the journal; without one, no mark is kept."""
        self._keeps = journal is not None
        self._journal = journal or MemoryJournal()
        self._marks: dict[str, Mark | None] = {}
        """The mark by place, such as `vm:web_0`, as it was written; None: unreadable."""
        self._tasks_by_mark: dict[str, Task] = {}
        """The work by the text of its mark."""
        self._order: deque[str] = deque()
        for key, note in self._journal.notes().items():
            kind, _, name = key.partition(":")
            if kind == "deed":
                self._tasks_by_mark[name] = task_from(note)
                self._order.append(name)
            else:
                self._marks[key] = _mark_from(note)

    def check_term(self, call: Call) -> None:
        """Raise DriverError if a place of a call has the mark of a later term."""
        for place in places_of(call):
            try:
                marks.check_replacing(mark_of(call), self._marks.get(_key(call, place)))
            except marks.LaterTermError as error:
                raise DriverError(str(error)) from error

    def carry_out(self, task: Task, fault: Fault | None) -> None:
        """Mark the places of a call, then begin its work."""
        if not self._keeps or (fault is not None and fault.kind is FaultKind.FORGET):
            return
        for place in places_of(task.call):
            kind = None
            if fault is not None and fault.vm in {"", place}:
                kind = fault.kind
            key = _key(task.call, place)
            if kind is FaultKind.MARK_LOST:
                self._forget(key)
                continue
            is_readable = kind is not FaultKind.MARK_UNREADABLE
            mark = mark_of(task.call) if is_readable else None
            self._marks[key] = mark
            self._journal.write(key, _note_of(mark))
        if fault is None or fault.kind is not FaultKind.MARK_ONLY:
            self.work_on(task)

    def work_on(self, task: Task) -> None:
        """Begin the work of a call, or change its end."""
        if not self._keeps:
            return
        text = mark_of(task.call).text
        if text not in self._tasks_by_mark:
            self._order.append(text)
        self._tasks_by_mark[text] = task
        self._journal.write(f"deed:{text}", note_of(task))
        while len(self._order) > DEEDS_KEPT:
            self._remove(self._order.popleft())

    def read(self, call: Call, *, now: Micros) -> dict[str, Reading]:
        """Return what is read at the places of a call."""
        readings: dict[str, Reading] = {}
        for place in places_of(call):
            key = _key(call, place)
            if key not in self._marks:
                readings[place] = Reading()
            elif (mark := self._marks[key]) is not None:
                readings[place] = Reading(mark=self._as_of(now, mark, place))
        return readings

    def taken_over(self, call: Call, *, now: Micros) -> Task | None:
        """Return the work of a call, as far as its marks name it; None: nothing."""
        if not self._keeps:
            return None
        task = self._tasks_by_mark.get(mark_of(call).text)
        if task is None or not call.is_same_work(task.call):
            return None
        traces = traces_of(call, self.read(call, now=now))
        if not marks.is_begun(traces):
            return None
        lost = tuple(
            place for place in traces if traces[place] not in marks.BEGUN_TRACES
        )
        if not lost:
            return task
        others = tuple(
            vm.vm for vm in call.vms if vm.vm not in lost and task.is_done_for(vm)
        )
        return replace(
            task,
            verdict=Verdict.FAILED,
            reason=task.reason or "the mark of the call is lost",
            spared=others,
            unknown=(*task.unknown, *lost),
        )

    def unresolved(self, call: Call, *, now: Micros, memory: str, own: str) -> Probe:
        """Return the result of a probe of a call that cannot be taken over."""
        if not self._keeps:
            return not_started(memory=memory, own=own)
        readings = self.read(call, now=now)
        traces = traces_of(call, readings)
        return marks.unresolved(traces, readings, memory=memory, own=own)

    def close(self) -> None:
        """Close the journal; the domains continue."""
        self._journal.close()

    def _as_of(self, now: Micros, mark: Mark, place: str) -> Mark:
        """Return a mark with the state that its work has now."""
        task, state = self._tasks_by_mark.get(mark.text), MarkState.BEGUN
        if task is not None and task.has_ended(now):
            vms = [vm for vm in task.call.vms if vm.vm == place]
            is_done = all(task.is_done_for(vm) for vm in vms)
            if place == HOST:
                is_done = task.verdict is not Verdict.FAILED
            state = MarkState.DONE if is_done else MarkState.FAILED
        return replace(mark, state=state)

    def _remove(self, text: str) -> None:
        task = self._tasks_by_mark.pop(text)
        self._journal.forget(f"deed:{text}")
        for place in places_of(task.call):
            key = _key(task.call, place)
            mark = self._marks.get(key)
            if mark is not None and mark.text == text:
                self._forget(key)

    def _forget(self, key: str) -> None:
        self._marks.pop(key, None)
        self._journal.forget(key)


def _key(call: Call, place: str) -> str:
    return f"host:{call.host}" if place == HOST else f"vm:{place}"


def _note_of(mark: Mark | None) -> Note:
    """Return how the journal stores a mark."""
    if mark is None:
        return {"mark": ""}
    term = {"term": mark.term, "store": mark.store} if mark.term else {}
    return {"mark": mark.text, **term}


def _mark_from(note: Note) -> Mark | None:
    """Return the mark of a note in the journal; without a term: of an earlier version."""
    if not note["mark"]:
        return None
    return parse_mark(
        note["mark"],
        MarkState.BEGUN.value,
        term=note.get("term", 0),
        store=note.get("store", ""),
    )
