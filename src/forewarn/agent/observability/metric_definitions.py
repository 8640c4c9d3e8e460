"""Definitions of all metrics of the agent, with their labels.

`docs/reference/metrics.md` is written from them. Labels are fixed words and names of
handlers, never names of events or VMs, so the number of series is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from forewarn.agent.core.model import NoteKind, Phase, Stage, StepState
from forewarn.agent.core.permits import GateAnswer, LockAnswer, LockState
from forewarn.agent.wire.endpoint import OUTCOMES
from forewarn.protocol.events import EventStatus, EventType
from forewarn.protocol.frozen import frozen_dataclass

OTHER = "other"
"""The label for values that this version does not know."""

TYPES = (*(event_type.value for event_type in EventType), OTHER)
STATUSES = (EventStatus.SCHEDULED.value, EventStatus.STARTED.value)
PHASES = tuple(phase.value for phase in Phase)

HANDLER_SECONDS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800)
NOTICE_SECONDS = (1, 5, 10, 20, 30, 60, 300, 600, 900, 3600, 86_400, 604_800)


@frozen_dataclass
class Meter:
    """One metric."""

    name: str
    kind: str
    """`counter`, `gauge` or `histogram`."""
    text: str
    labels: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]]
    )
    """The values of each label. Without values: the names of the handlers."""
    buckets: tuple[float, ...] = ()


def _meter(
    name: str,
    kind: str,
    text: str,
    buckets: tuple[float, ...] = (),
    /,
    **labels: Iterable[str],
) -> Meter:
    return Meter(
        name=name,
        kind=kind,
        text=text,
        labels={label: tuple(values) for label, values in labels.items()},
        buckets=buckets,
    )


METERS = (
    _meter(
        "forewarn_agent_build_info",
        "gauge",
        "Always 1; the labels have the version and the mode.",
        version=(),
        mode=(),
    ),
    _meter(
        "forewarn_agent_alive",
        "gauge",
        "1 while polling and deciding work, as in /healthz.",
    ),
    _meter(
        "forewarn_agent_ready", "gauge", "1 while the agent is ready, as in /readyz."
    ),
    _meter(
        "forewarn_agent_polls_total",
        "counter",
        "Polls of the endpoint, by result.",
        result=(outcome.value for outcome in OUTCOMES),
    ),
    _meter(
        "forewarn_agent_good_poll_age_seconds",
        "gauge",
        "Age of the last good answer; before the first one, time since the start.",
    ),
    _meter("forewarn_agent_failed_polls", "gauge", "Failed polls in a row."),
    _meter(
        "forewarn_agent_document_incarnation",
        "gauge",
        "DocumentIncarnation of the last document; -1 if it had none.",
    ),
    _meter(
        "forewarn_agent_document_events",
        "gauge",
        "Events in the last document, including those of other VMs.",
    ),
    _meter(
        "forewarn_agent_events",
        "gauge",
        "Current events that name this VM.",
        type=TYPES,
        status=STATUSES,
    ),
    _meter(
        "forewarn_agent_not_before_timestamp_seconds",
        "gauge",
        "NotBefore of the next event of this VM, in seconds since 1970; 0: none.",
        type=TYPES,
    ),
    _meter(
        "forewarn_agent_tasks",
        "gauge",
        "Events in the agent's memory, by stage.",
        stage=(stage.value for stage in Stage),
    ),
    _meter(
        "forewarn_agent_events_seen_total",
        "counter",
        "Events that named this VM when they were first seen.",
        type=TYPES,
    ),
    _meter(
        "forewarn_agent_notice_seconds",
        "histogram",
        "Time from the first sight of an event of this VM to its NotBefore.",
        NOTICE_SECONDS,
        type=TYPES,
    ),
    _meter(
        "forewarn_agent_decisions_total",
        "counter",
        "History entries, by kind.",
        kind=(kind.value for kind in NoteKind),
    ),
    _meter(
        "forewarn_agent_handler_runs_total",
        "counter",
        "Completed runs of handlers, by result.",
        handler=(),
        phase=PHASES,
        result=(state.value for state in StepState if state is not StepState.RUNNING),
    ),
    _meter(
        "forewarn_agent_handler_seconds",
        "histogram",
        "Duration of runs of handlers.",
        HANDLER_SECONDS,
        handler=(),
        phase=PHASES,
    ),
    _meter("forewarn_agent_handlers_running", "gauge", "Handlers that are running."),
    _meter(
        "forewarn_agent_approvals_total",
        "counter",
        "Approvals that were sent, by result.",
        result=("given", "refused", "unanswered"),
    ),
    _meter(
        "forewarn_agent_withheld",
        "gauge",
        "Events whose approval is withheld because their preparation failed.",
    ),
    _meter(
        "forewarn_agent_recoveries_pending",
        "gauge",
        "Ended events whose recovery is not complete.",
    ),
    _meter(
        "forewarn_agent_lock",
        "gauge",
        "1 for the current state of the lock that limits approvals, if there is one.",
        state=(state.value for state in LockState),
    ),
    _meter(
        "forewarn_agent_lock_requests_total",
        "counter",
        "Requests to the lock's server, by answer.",
        result=(answer.value for answer in LockAnswer),
    ),
    _meter(
        "forewarn_agent_lock_fault",
        "gauge",
        "1 while the lock's server gives no usable answer.",
    ),
    _meter(
        "forewarn_agent_gate_held",
        "gauge",
        "Events whose approval is held back by the gate on active alerts.",
    ),
    _meter(
        "forewarn_agent_gate_alerts",
        "gauge",
        "Firing alerts in the last answer, while an event waits for the gate.",
    ),
    _meter(
        "forewarn_agent_gate_requests_total",
        "counter",
        "Requests to the alert server, by answer.",
        result=(answer.value for answer in GateAnswer),
    ),
    _meter(
        "forewarn_agent_gate_fault",
        "gauge",
        "1 while the alert server gives no usable answer and an event waits.",
    ),
    _meter(
        "forewarn_agent_journal_fault",
        "gauge",
        "1 while the journal cannot be written.",
    ),
    _meter(
        "forewarn_agent_settings_fault",
        "gauge",
        "1 while the settings file is refused and older settings are in effect.",
    ),
    _meter(
        "forewarn_agent_notifications_dropped_total",
        "counter",
        "Notifications that were dropped because too many were waiting.",
    ),
    _meter(
        "forewarn_agent_log_lines_dropped_total",
        "counter",
        "Log lines that were dropped because standard error was blocked.",
    ),
    _meter("process_start_time_seconds", "gauge", "Start of the agent, since 1970."),
    _meter("process_cpu_seconds_total", "counter", "Processor time used."),
    _meter("process_resident_memory_bytes", "gauge", "Resident memory."),
)


def markdown() -> str:
    """Return the table of the agent in `docs/reference/metrics.md`."""
    lines = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for meter in METERS:
        labels = ", ".join(f"`{label}`" for label in meter.labels)
        lines.append(f"| `{meter.name}` | {meter.kind} | {labels} | {meter.text} |")
    return "\n".join(lines) + "\n"
