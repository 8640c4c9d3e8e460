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
APPROVALS = ("given", "refused", "unanswered")
RESULTS = tuple(state.value for state in StepState if state is not StepState.RUNNING)
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
    ending = "_total" if kind == "counter" else ""
    return Meter(
        name=f"{name}{ending}",
        kind=kind,
        text=text,
        labels={label: tuple(values) for label, values in labels.items()},
        buckets=buckets,
    )


INFO = Meter(
    name="forewarn_agent_build_info",
    kind="gauge",
    text="Always 1; which version it is, and whether it acts, is in the labels.",
    labels={"version": (), "mode": ()},
)
ALIVE = _meter(
    "forewarn_agent_alive",
    "gauge",
    "1 while watching and deciding go on, as /healthz says it.",
)
READY = _meter("forewarn_agent_ready", "gauge", "1 while /readyz says so.")
POLLS = _meter(
    "forewarn_agent_polls",
    "counter",
    "Polls of the endpoint, by how they ended.",
    result=(each.value for each in Result),
)
GOOD_POLL_AGE = _meter(
    "forewarn_agent_good_poll_age_seconds",
    "gauge",
    "How old the last good answer is; before the first, how long the agent runs.",
)
FAILED_POLLS = _meter(
    "forewarn_agent_failed_polls", "gauge", "Failed polls in a row, up to now."
)
INCARNATION = _meter(
    "forewarn_agent_document_incarnation",
    "gauge",
    "DocumentIncarnation of the last document; -1 if there was none.",
)
DOCUMENT_EVENTS = _meter(
    "forewarn_agent_document_events",
    "gauge",
    "Events in the last document, those of other VMs too.",
)
EVENTS = _meter(
    "forewarn_agent_events",
    "gauge",
    "Events that name this VM and are there now.",
    type=TYPES,
    status=STATUSES,
)
NOT_BEFORE = _meter(
    "forewarn_agent_not_before_timestamp_seconds",
    "gauge",
    "When the next event of this VM may begin, in seconds since 1970; 0: none is due.",
    type=TYPES,
)
STAGES = _meter(
    "forewarn_agent_tasks",
    "gauge",
    "Events that are remembered, by how far their work is.",
    stage=(stage.value for stage in Stage),
)
SEEN = _meter(
    "forewarn_agent_events_seen",
    "counter",
    "Events that named this VM and were seen for the first time.",
    type=TYPES,
)
NOTICE = _meter(
    "forewarn_agent_notice_seconds",
    "histogram",
    "From seeing an event of this VM to its NotBefore.",
    NOTICE_SECONDS,
    type=TYPES,
)
DECISIONS = _meter(
    "forewarn_agent_decisions",
    "counter",
    "What was decided or came about, as the history tells it.",
    kind=(kind.value for kind in NoteKind),
)
RUNS = _meter(
    "forewarn_agent_handler_runs",
    "counter",
    "Runs of handlers that ended, by how.",
    handler=(),
    phase=PHASES,
    result=RESULTS,
)
RUN_SECONDS = _meter(
    "forewarn_agent_handler_seconds",
    "histogram",
    "How long runs of handlers took.",
    HANDLER_SECONDS,
    handler=(),
    phase=PHASES,
)
RUNNING = _meter(
    "forewarn_agent_handlers_running", "gauge", "Runs of handlers under way."
)
APPROVED = _meter(
    "forewarn_agent_approvals",
    "counter",
    "Approvals that were sent, by what the endpoint made of them.",
    result=APPROVALS,
)
WITHHELD = _meter(
    "forewarn_agent_withheld",
    "gauge",
    "Events whose approval is withheld, since their preparation failed.",
)
OWED = _meter(
    "forewarn_agent_recoveries_pending",
    "gauge",
    "Events that are gone and from which recovery is not done.",
)
LOCK = _meter(
    "forewarn_agent_lock",
    "gauge",
    "1 for the state of the lock that limits approvals, where there is one.",
    state=(state.value for state in LockState),
)
LOCK_REQUESTS = _meter(
    "forewarn_agent_lock_requests",
    "counter",
    "Requests about the lock, by their answer.",
    result=(answer.value for answer in LockAnswer),
)
LOCK_FAULT = _meter(
    "forewarn_agent_lock_fault",
    "gauge",
    "1 while what keeps the lock gives no usable answer.",
)
GATE_HELD = _meter(
    "forewarn_agent_gate_held",
    "gauge",
    "Events whose approval the gate on active alerts holds back.",
)
GATE_ALERTS = _meter(
    "forewarn_agent_gate_alerts",
    "gauge",
    "Alerts that held approvals back at the last answer, while an event waits.",
)
GATE_REQUESTS = _meter(
    "forewarn_agent_gate_requests",
    "counter",
    "Questions to the alert server, by their answer.",
    result=(answer.value for answer in GateAnswer),
)
GATE_FAULT = _meter(
    "forewarn_agent_gate_fault",
    "gauge",
    "1 while the alert server gives no usable answer, and an event waits.",
)
JOURNAL_FAULT = _meter(
    "forewarn_agent_journal_fault", "gauge", "1 while the journal cannot be written."
)
SETTINGS_FAULT = _meter(
    "forewarn_agent_settings_fault",
    "gauge",
    "1 while older settings are in force, since those of the file are refused.",
)
NOTIFICATIONS_DROPPED = _meter(
    "forewarn_agent_notifications_dropped",
    "counter",
    "Notifications that were dropped because too many waited.",
)
LINES_DROPPED = _meter(
    "forewarn_agent_log_lines_dropped",
    "counter",
    "Lines of the log that nobody took in time.",
)
START = _meter(
    "process_start_time_seconds", "gauge", "When the agent began, since 1970."
)
CPU = _meter("process_cpu_seconds", "counter", "Processor time that was used.")
MEMORY = _meter("process_resident_memory_bytes", "gauge", "Resident memory.")

METERS = (
    INFO,
    ALIVE,
    READY,
    POLLS,
    GOOD_POLL_AGE,
    FAILED_POLLS,
    INCARNATION,
    DOCUMENT_EVENTS,
    EVENTS,
    NOT_BEFORE,
    STAGES,
    SEEN,
    NOTICE,
    DECISIONS,
    RUNS,
    RUN_SECONDS,
    RUNNING,
    APPROVED,
    WITHHELD,
    OWED,
    LOCK,
    LOCK_REQUESTS,
    LOCK_FAULT,
    GATE_HELD,
    GATE_ALERTS,
    GATE_REQUESTS,
    GATE_FAULT,
    JOURNAL_FAULT,
    SETTINGS_FAULT,
    NOTIFICATIONS_DROPPED,
    LINES_DROPPED,
    START,
    CPU,
    MEMORY,
)


def markdown() -> str:
    """Return the table of the agent in `docs/reference/metrics.md`."""
    lines = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for meter in METERS:
        labels = ", ".join(f"`{label}`" for label in meter.labels)
        lines.append(f"| `{meter.name}` | {meter.kind} | {labels} | {meter.text} |")
    return "\n".join(lines) + "\n"
