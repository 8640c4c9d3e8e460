"""Every metric of the agent: its name, what it tells, and its series from the start.

`docs/reference/metrics.md` is written from this. Labels are words of the program and the
names of handlers, never names of events or VMs: the number of series does not grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from forewarn.agent.core.gate import GateAnswer
from forewarn.agent.core.lock import LockAnswer, LockState
from forewarn.agent.core.model import NoteKind, Phase, Stage, StepState
from forewarn.agent.wire.endpoint import Result
from forewarn.protocol.events import EventStatus, EventType
from forewarn.protocol.frozen import frozen_dataclass

OTHER = "other"
"""The label of what this version does not know."""

TYPES = (*(each.value for each in EventType), OTHER)
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
    """Each label with its values; without any: the names of handlers."""
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
        "Always 1; which version it is, and whether it acts, is in the labels.",
        version=(),
        mode=(),
    ),
    _meter(
        "forewarn_agent_alive",
        "gauge",
        "1 while watching and deciding go on, as /healthz says it.",
    ),
    _meter("forewarn_agent_ready", "gauge", "1 while /readyz says so."),
    _meter(
        "forewarn_agent_polls_total",
        "counter",
        "Polls of the endpoint, by how they ended.",
        result=(each.value for each in Result),
    ),
    _meter(
        "forewarn_agent_good_poll_age_seconds",
        "gauge",
        "How old the last good answer is; before the first, how long the agent runs.",
    ),
    _meter("forewarn_agent_failed_polls", "gauge", "Failed polls in a row, up to now."),
    _meter(
        "forewarn_agent_document_incarnation",
        "gauge",
        "DocumentIncarnation of the last document; -1 if there was none.",
    ),
    _meter(
        "forewarn_agent_document_events",
        "gauge",
        "Events in the last document, those of other VMs too.",
    ),
    _meter(
        "forewarn_agent_events",
        "gauge",
        "Events that name this VM and are there now.",
        type=TYPES,
        status=STATUSES,
    ),
    _meter(
        "forewarn_agent_not_before_timestamp_seconds",
        "gauge",
        "When the next event of this VM may begin, in seconds since 1970; 0: none is due.",
        type=TYPES,
    ),
    _meter(
        "forewarn_agent_tasks",
        "gauge",
        "Events that are remembered, by how far their work is.",
        stage=(stage.value for stage in Stage),
    ),
    _meter(
        "forewarn_agent_events_seen_total",
        "counter",
        "Events that named this VM and were seen for the first time.",
        type=TYPES,
    ),
    _meter(
        "forewarn_agent_notice_seconds",
        "histogram",
        "From seeing an event of this VM to its NotBefore.",
        NOTICE_SECONDS,
        type=TYPES,
    ),
    _meter(
        "forewarn_agent_decisions_total",
        "counter",
        "What was decided or came about, as the history tells it.",
        kind=(kind.value for kind in NoteKind),
    ),
    _meter(
        "forewarn_agent_handler_runs_total",
        "counter",
        "Runs of handlers that ended, by how.",
        handler=(),
        phase=PHASES,
        result=(each.value for each in StepState if each is not StepState.RUNNING),
    ),
    _meter(
        "forewarn_agent_handler_seconds",
        "histogram",
        "How long runs of handlers took.",
        HANDLER_SECONDS,
        handler=(),
        phase=PHASES,
    ),
    _meter("forewarn_agent_handlers_running", "gauge", "Runs of handlers under way."),
    _meter(
        "forewarn_agent_approvals_total",
        "counter",
        "Approvals that were sent, by what the endpoint made of them.",
        result=("given", "refused", "unanswered"),
    ),
    _meter(
        "forewarn_agent_withheld",
        "gauge",
        "Events whose approval is withheld, since their preparation failed.",
    ),
    _meter(
        "forewarn_agent_recoveries_pending",
        "gauge",
        "Events that are gone and from which recovery is not done.",
    ),
    _meter(
        "forewarn_agent_lock",
        "gauge",
        "1 for the state of the lock that limits approvals, where there is one.",
        state=(state.value for state in LockState),
    ),
    _meter(
        "forewarn_agent_lock_requests_total",
        "counter",
        "Requests about the lock, by their answer.",
        result=(answer.value for answer in LockAnswer),
    ),
    _meter(
        "forewarn_agent_lock_fault",
        "gauge",
        "1 while what keeps the lock gives no usable answer.",
    ),
    _meter(
        "forewarn_agent_gate_held",
        "gauge",
        "Events whose approval the gate on active alerts holds back.",
    ),
    _meter(
        "forewarn_agent_gate_alerts",
        "gauge",
        "Alerts that held approvals back at the last answer, while an event waits.",
    ),
    _meter(
        "forewarn_agent_gate_requests_total",
        "counter",
        "Questions to the alert server, by their answer.",
        result=(answer.value for answer in GateAnswer),
    ),
    _meter(
        "forewarn_agent_gate_fault",
        "gauge",
        "1 while the alert server gives no usable answer, and an event waits.",
    ),
    _meter(
        "forewarn_agent_journal_fault",
        "gauge",
        "1 while the journal cannot be written.",
    ),
    _meter(
        "forewarn_agent_settings_fault",
        "gauge",
        "1 while older settings are in force, since those of the file are refused.",
    ),
    _meter(
        "forewarn_agent_notifications_dropped_total",
        "counter",
        "Notifications that were dropped because too many waited.",
    ),
    _meter(
        "forewarn_agent_log_lines_dropped_total",
        "counter",
        "Lines of the log that nobody took in time.",
    ),
    _meter("process_start_time_seconds", "gauge", "When the agent began, since 1970."),
    _meter("process_cpu_seconds_total", "counter", "Processor time that was used."),
    _meter("process_resident_memory_bytes", "gauge", "Resident memory."),
)


def markdown() -> str:
    """Return the table of the agent in `docs/reference/metrics.md`."""
    lines = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for meter in METERS:
        labels = ", ".join(f"`{label}`" for label in meter.labels)
        lines.append(f"| `{meter.name}` | {meter.kind} | {labels} | {meter.text} |")
    return "\n".join(lines) + "\n"
