"""Metrics: counters of past events, and gauges that are read on request.

The text is in Prometheus' format. Its client library would be larger than the agent.
The main loop counts, and the server's thread writes the page.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from forewarn.agent.core import steps
from forewarn.agent.core.model import (
    Consent,
    Memory,
    Note,
    NoteKind,
    Stage,
    Step,
    StepState,
    Task,
)
from forewarn.agent.core.permits import GateAnswer, LockState
from forewarn.agent.observability.metric_definitions import (
    HANDLER_SECONDS,
    METERS,
    OTHER,
    STATUSES,
    TYPES,
    Meter,
)
from forewarn.instants import SECOND

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """The number of values in each range."""

    def __init__(self, buckets: tuple[float, ...]) -> None:
        """Start empty; each bucket is the upper limit of a range, and belongs to it."""
        self.counts = [0] * (len(buckets) + 1)
        self.sum = 0.0
        self._buckets = buckets

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self._buckets, value)] += 1
        self.sum += value


class Metrics:
    """The counters since the start."""

    def __init__(self, memory: Memory, *, handlers: Iterable[str] = ()) -> None:
        """Start the counters; nothing in `memory` is counted."""
        self._lock = threading.Lock()
        self._memory = memory
        self._counts: dict[tuple[str, ...], float] = {}
        self._histograms: dict[tuple[str, ...], Histogram] = {}
        names = tuple(handlers)
        for meter in METERS:
            for labels in product(*(label or names for label in meter.labels.values())):
                if meter.buckets:
                    self._histograms[(meter.name, *labels)] = Histogram(meter.buckets)
                elif meter.kind == "counter":
                    self._counts[(meter.name, *labels)] = 0

    def decided(self, memory: Memory, notes: Sequence[Note] = ()) -> None:
        """Count the changes of a decision."""
        with self._lock:
            for note in notes:
                self._count("forewarn_agent_decisions_total", note.kind.value)
                if note.kind is NoteKind.REFUSED:
                    self._count("forewarn_agent_approvals_total", "refused")
            before = {task.event_id: task for task in self._memory.tasks}
            for task in memory.tasks:
                known = before.get(task.event_id)
                if known is not task:
                    self._look_at(known, task)
            self._look_at_steps(self._memory.restored, memory.restored)
            for name, old, new in (
                ("lock", self._memory.lock, memory.lock),
                ("gate", self._memory.gate, memory.gate),
            ):
                if new.last is not None and new.answered not in {0, old.answered}:
                    series = f"forewarn_agent_{name}_requests_total"
                    self._count(series, new.last.value)
            self._memory = memory

    def _look_at(self, before: Task | None, task: Task) -> None:
        if before is None or before.round != task.round:
            self._look_at_new(task)
        self._look_at_steps(before.steps if before else (), task.steps)
        tries = before.tries if before else 0
        # A send that is followed by another one was not answered.
        for _ in range(max(0, task.tries - max(tries, 1))):
            self._count("forewarn_agent_approvals_total", "unanswered")
        was_given = before is not None and before.consent is Consent.GIVEN
        if task.consent is Consent.GIVEN and not was_given and task.tries:
            self._count("forewarn_agent_approvals_total", "given")

    def _look_at_new(self, task: Task) -> None:
        if not task.mine:
            return
        kind = _known(task.notice.event_type)
        self._count("forewarn_agent_events_seen_total", kind)
        if task.notice.not_before is not None:
            lead = max(0, task.notice.not_before - task.seen)
            self._histograms["forewarn_agent_notice_seconds", kind].add(lead / SECOND)

    def _look_at_steps(self, before: Sequence[Step], after: Sequence[Step]) -> None:
        ended = {_key(step) for step in before if step.state is not StepState.RUNNING}
        for step in after:
            if step.state is StepState.RUNNING or _key(step) in ended:
                continue
            phase = step.phase.value
            self._count(
                "forewarn_agent_handler_runs_total",
                step.handler,
                phase,
                step.state.value,
            )
            series = ("forewarn_agent_handler_seconds", step.handler, phase)
            if series not in self._histograms:
                # The settings of an earlier start had this handler.
                self._histograms[series] = Histogram(HANDLER_SECONDS)
            self._histograms[series].add(max(0, step.ended - step.began) / SECOND)

    def _count(self, *series: str) -> None:
        self._counts[series] = self._counts.get(series, 0) + 1

    def text(self, looked_at: dict[tuple[str, ...], float]) -> str:
        """Return the page; `looked_at` has the current gauges by name and labels."""
        with self._lock:
            values = {**self._counts, **looked_at}
            histograms = dict(self._histograms)
            return "\n".join(_lines(values, histograms)) + "\n"


def now_of(memory: Memory) -> dict[tuple[str, ...], float]:
    """Return the gauges that are read from a memory."""
    lock, gate = memory.lock, memory.gate
    stages = Counter(task.stage for task in memory.tasks)
    notices = [task.notice for task in memory.tasks if task.mine and task.is_live]
    events = Counter(
        (_known(notice.event_type), STATUSES[notice.has_started]) for notice in notices
    )
    due = {
        kind: [
            notice.not_before / SECOND
            for notice in notices
            if notice.not_before is not None
            and not notice.has_started
            and _known(notice.event_type) == kind
        ]
        for kind in TYPES
    }
    # If no event waits for the gate, its last answer is out of date.
    last = gate.last if gate.events else None
    values: dict[tuple[str, ...], float] = {
        ("forewarn_agent_lock_fault",): bool(lock.trouble),
        ("forewarn_agent_gate_held",): len(gate.events),
        ("forewarn_agent_gate_alerts",): (
            gate.alerts if last is GateAnswer.ALERTS else 0
        ),
        ("forewarn_agent_gate_fault",): last is GateAnswer.TROUBLE,
        ("forewarn_agent_handlers_running",): sum(1 for _ in steps.running(memory)),
        ("forewarn_agent_recoveries_pending",): stages[Stage.RECOVERING],
        ("forewarn_agent_withheld",): stages[Stage.WITHHELD],
    }
    for labels in product(TYPES, STATUSES):
        values[("forewarn_agent_events", *labels)] = events[labels]
    for kind, times in due.items():
        values["forewarn_agent_not_before_timestamp_seconds", kind] = min(
            times, default=0
        )
    for stage in Stage:
        values["forewarn_agent_tasks", stage.value] = stages[stage]
    for state in LockState:
        is_so = bool(lock.label) and state is lock.state
        values["forewarn_agent_lock", state.value] = is_so
    return values


def of_process() -> dict[tuple[str, ...], float]:
    """Return the gauges of this process from the operating system."""
    times = os.times()
    values = {("process_cpu_seconds_total",): times.user + times.system}
    try:
        with open("/proc/self/statm", "rb") as opened:
            pages = int(opened.read(100).split()[1])
        values["process_resident_memory_bytes",] = pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        # Other systems need a library for this.
        pass
    return values


def _lines(
    values: dict[tuple[str, ...], float], histograms: dict[tuple[str, ...], Histogram]
) -> Iterator[str]:
    by_name: dict[str, list[tuple[str, ...]]] = {}
    for series in (*values, *histograms):
        by_name.setdefault(series[0], []).append(series)
    for meter in METERS:
        series_list = by_name.get(meter.name, [])
        if not series_list:
            continue
        yield f"# HELP {meter.name} {meter.text}"
        yield f"# TYPE {meter.name} {meter.kind}"
        for series in series_list:
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
    return event_type if event_type in TYPES else OTHER


def _key(step: Step) -> tuple[object, ...]:
    return step.round, step.handler, step.phase, step.attempt, step.began
