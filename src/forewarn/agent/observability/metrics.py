"""Metrics: what happened is counted here, what is so is looked at when asked.

The text is Prometheus' own form, written by hand: its library is larger than the
agent. The main loop counts, the server's thread writes.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from forewarn.agent.core.gate import GateAnswer
from forewarn.agent.core.model import (
    Consent,
    Memory,
    Note,
    NoteKind,
    Step,
    StepState,
    Task,
)
from forewarn.agent.observability import metric_definitions
from forewarn.agent.observability.metric_definitions import Meter
from forewarn.instants import SECOND

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """How often values were in which range."""

    def __init__(self, buckets: tuple[float, ...]) -> None:
        """Begin with nothing; a range ends with its bucket, which is in it."""
        self.counts = [0] * (len(buckets) + 1)
        self.sum = 0.0
        self._buckets = buckets

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self._buckets, value)] += 1
        self.sum += value


class Metrics:
    """What happened since the start."""

    def __init__(self, memory: Memory, *, handlers: Iterable[str] = ()) -> None:
        """Count nothing of what `memory` has already."""
        self._lock = threading.Lock()
        self._memory = memory
        self._counts: dict[tuple[str, ...], float] = {}
        self._histograms: dict[tuple[str, ...], Histogram] = {}
        names = tuple(handlers)
        for meter in metric_definitions.METERS:
            for labels in product(*(each or names for each in meter.labels.values())):
                if meter.buckets:
                    self._histograms[(meter.name, *labels)] = Histogram(meter.buckets)
                elif meter.kind == "counter":
                    self._counts[(meter.name, *labels)] = 0

    def decided(self, memory: Memory, notes: Sequence[Note] = ()) -> None:
        """Count what a decision changed."""
        with self._lock:
            for note in notes:
                self._count(metric_definitions.DECISIONS, note.kind.value)
                if note.kind is NoteKind.REFUSED:
                    self._count(metric_definitions.APPROVED, "refused")
            before = {task.event_id: task for task in self._memory.tasks}
            for task in memory.tasks:
                known = before.get(task.event_id)
                if known is not task:
                    self._look_at(known, task)
            self._look_at_steps(self._memory.restored, memory.restored)
            lock = memory.lock
            is_new = lock.answered not in {0, self._memory.lock.answered}
            if lock.last is not None and is_new:
                self._count(metric_definitions.LOCK_REQUESTS, lock.last.value)
            gate = memory.gate
            is_new = gate.answered not in {0, self._memory.gate.answered}
            if gate.last is not None and is_new:
                self._count(metric_definitions.GATE_REQUESTS, gate.last.value)
            self._memory = memory

    def _look_at(self, before: Task | None, task: Task) -> None:
        if before is None or before.round != task.round:
            self._look_at_new(task)
        self._look_at_steps(before.steps if before else (), task.steps)
        tries = before.tries if before else 0
        # A sending that is followed by another was not answered.
        for _ in range(max(0, task.tries - max(tries, 1))):
            self._count(metric_definitions.APPROVED, "unanswered")
        given = before is not None and before.consent is Consent.GIVEN
        if task.consent is Consent.GIVEN and not given and task.tries:
            self._count(metric_definitions.APPROVED, "given")

    def _look_at_new(self, task: Task) -> None:
        if not task.mine:
            return
        kind = _known(task.notice.event_type)
        self._count(metric_definitions.SEEN, kind)
        if task.notice.not_before is not None:
            lead = max(0, task.notice.not_before - task.seen)
            self._histograms[metric_definitions.NOTICE.name, kind].add(lead / SECOND)

    def _look_at_steps(self, before: Sequence[Step], after: Sequence[Step]) -> None:
        ended = {_key(step) for step in before if step.state is not StepState.RUNNING}
        for step in after:
            if step.state is StepState.RUNNING or _key(step) in ended:
                continue
            phase = step.phase.value
            self._count(metric_definitions.RUNS, step.handler, phase, step.state.value)
            series = (metric_definitions.RUN_SECONDS.name, step.handler, phase)
            if series not in self._histograms:
                # Of a handler that was in the settings of an earlier start.
                self._histograms[series] = Histogram(metric_definitions.HANDLER_SECONDS)
            self._histograms[series].add(max(0, step.ended - step.began) / SECOND)

    def _count(self, meter: Meter, *labels: str) -> None:
        series = (meter.name, *labels)
        self._counts[series] = self._counts.get(series, 0) + 1

    def text(self, looked_at: dict[tuple[str, ...], float]) -> str:
        """Return the page; `looked_at` has what is so now, by name and labels."""
        with self._lock:
            values = {**self._counts, **looked_at}
            histograms = dict(self._histograms)
            return "\n".join(_lines(values, histograms)) + "\n"


def now_of(memory: Memory) -> dict[tuple[str, ...], float]:
    """Return the series that are looked at in a memory."""
    found: dict[tuple[str, ...], float] = {
        (metric_definitions.EVENTS.name, *labels): 0
        for labels in product(*metric_definitions.EVENTS.labels.values())
    }
    for kind in metric_definitions.TYPES:
        found[metric_definitions.NOT_BEFORE.name, kind] = 0
    for stage in metric_definitions.STAGES.labels["stage"]:
        found[metric_definitions.STAGES.name, stage] = 0
    running = owed = withheld = 0
    for task in memory.tasks:
        found[metric_definitions.STAGES.name, task.stage.value] += 1
        running += sum(step.state is StepState.RUNNING for step in task.steps)
        owed += task.stage.value == "recovering"
        withheld += task.stage.value == "withheld"
        if task.mine and task.is_live:
            kind = _known(task.notice.event_type)
            status = metric_definitions.STATUSES[task.notice.has_started]
            found[metric_definitions.EVENTS.name, kind, status] += 1
            due = task.notice.not_before
            if due is not None and not task.notice.has_started:
                series = (metric_definitions.NOT_BEFORE.name, kind)
                found[series] = min(found[series] or due / SECOND, due / SECOND)
    for state in metric_definitions.LOCK.labels["state"]:
        is_so = bool(memory.lock.label) and state == memory.lock.state.value
        found[metric_definitions.LOCK.name, state] = is_so
    found[metric_definitions.LOCK_FAULT.name,] = bool(memory.lock.trouble)
    gate = memory.gate
    found[metric_definitions.GATE_HELD.name,] = len(gate.events)
    is_firing = bool(gate.events) and gate.last is GateAnswer.ALERTS
    found[metric_definitions.GATE_ALERTS.name,] = gate.alerts if is_firing else 0
    is_silent = bool(gate.events) and gate.last is GateAnswer.TROUBLE
    found[metric_definitions.GATE_FAULT.name,] = is_silent
    running += sum(step.state is StepState.RUNNING for step in memory.restored)
    found[metric_definitions.RUNNING.name,] = running
    found[metric_definitions.OWED.name,] = owed
    found[metric_definitions.WITHHELD.name,] = withheld
    return found


def of_process() -> dict[tuple[str, ...], float]:
    """Return what the system tells of this process."""
    times = os.times()
    found = {(metric_definitions.CPU.name,): times.user + times.system}
    try:
        with open("/proc/self/statm", "rb") as opened:
            pages = int(opened.read(100).split()[1])
        found[metric_definitions.MEMORY.name,] = pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        # Other systems tell it otherwise, or not without a library.
        pass
    return found


def _lines(
    values: dict[tuple[str, ...], float], histograms: dict[tuple[str, ...], Histogram]
) -> Iterator[str]:
    by_name: dict[str, list[tuple[str, ...]]] = {}
    for series in (*values, *histograms):
        by_name.setdefault(series[0], []).append(series)
    for meter in metric_definitions.METERS:
        found = by_name.get(meter.name, [])
        if not found:
            continue
        yield f"# HELP {meter.name} {meter.text}"
        yield f"# TYPE {meter.name} {meter.kind}"
        for series in found:
            labels = dict(zip(meter.labels, series[1:]))
            if meter.buckets:
                yield from _histogram(meter, labels, histograms[series])
            else:
                yield f"{meter.name}{_labels(labels)} {_number(values[series])}"


def _histogram(
    meter: Meter, labels: dict[str, str], histogram: Histogram
) -> Iterator[str]:
    total = 0
    ends = (*(f"{bucket:g}" for bucket in meter.buckets), "+Inf")
    for end, count in zip(ends, histogram.counts):
        total += count
        yield f"{meter.name}_bucket{_labels({**labels, 'le': end})} {total}"
    yield f"{meter.name}_sum{_labels(labels)} {_number(histogram.sum)}"
    yield f"{meter.name}_count{_labels(labels)} {total}"


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(labels[name])}"' for name in labels) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.6f}"


def _known(event_type: str) -> str:
    return (
        event_type
        if event_type in metric_definitions.TYPES
        else metric_definitions.OTHER
    )


def _key(step: Step) -> tuple[object, ...]:
    return step.round, step.handler, step.phase, step.attempt, step.began
