"""Every metric: its name, what it tells, and which series it has from the start.

`docs/reference/metrics.md` is compared with this. Labels are words of the program, never
names of a fleet: the number of series does not grow with it.
"""

import enum
from collections.abc import Iterable

from forewarn.admin.errors import Kind
from forewarn.admin.metrics import MINUTES, SECONDS, TURNS, Meter
from forewarn.protocol.blockers import BLOCKER_KINDS
from forewarn.protocol.events import LIVE_STATUSES, EventType
from forewarn.protocol.operations import (
    ENDED_STATES,
    STARTED_STATES,
    UNSTARTED_STATES,
    Action,
    OperationState,
    Verb,
)


def _words(members: Iterable[enum.Enum]) -> tuple[str, ...]:
    return tuple(str(member.value) for member in members)


_METADATA_STATUSES = (200, 304, 400, 404, 405, 408, 413, 414, 417, 429, 431)
_FAULT_STATUSES = (500, 503, 505)
_ADMIN_STATUSES = dict.fromkeys((200, *(kind.status for kind in Kind)))
_VERBS = _words(Verb)
_ACTIONS = tuple(action.value for action in Action if action is not Action.NONE)
_OPEN = tuple(
    state.value
    for state in OperationState
    if state in UNSTARTED_STATES or state in STARTED_STATES
)
_ENDED = tuple(state.value for state in OperationState if state in ENDED_STATES)
_TYPES = _words(EventType)
_LIVE = tuple(sorted(status.value for status in LIVE_STATUSES))

EVENT_STEPS = (
    "scheduled",
    "approved",
    "started approved",
    "started unapproved",
    "started at once",
    "completed",
    "cancelled",
    "failed",
)
"""What can happen to an event, for its counter."""


WEBHOOK_RESULTS = ("delivered", "failed")
"""What can come of a post to a receiver."""

WEBHOOK_REASONS = ("too old", "too many", "gone")
"""Why messages to a receiver are given up."""


def _counter(name: str, text: str, **labels: Iterable[str]) -> Meter:
    return _meter(f"{name}_total", "counter", text, labels)


def _gauge(name: str, text: str, **labels: Iterable[str]) -> Meter:
    return _meter(name, "gauge", text, labels)


def _histogram(
    name: str, text: str, buckets: tuple[float, ...], **labels: Iterable[str]
) -> Meter:
    return _meter(name, "histogram", text, labels, buckets)


def _meter(
    name: str,
    kind: str,
    text: str,
    labels: dict[str, Iterable[str]],
    buckets: tuple[float, ...] = (),
) -> Meter:
    known = {label: tuple(values) for label, values in labels.items()}
    whole = name if name.startswith("process_") else f"forewarn_{name}"
    return Meter(name=whole, kind=kind, text=text, labels=known, buckets=buckets)


# What VMs ask

METADATA_RESPONSES = _counter(
    "metadata_responses",
    "Answers to VMs, by HTTP status.",
    status=map(str, (*_METADATA_STATUSES, *_FAULT_STATUSES)),
)
UNKNOWN_CALLERS = _counter(
    "metadata_unknown_callers", "Requests of callers that are no VM of the fleet."
)
CONNECTIONS = _gauge("metadata_connections", "Connections of VMs that are open.")
CONNECTIONS_REFUSED = _counter(
    "metadata_connections_refused",
    "Connections of VMs that were refused: too many of one source, or in all.",
    reason=("source", "all"),
)
WAITERS = _gauge("metadata_waiters", "Requests of VMs that wait for a change (push).")
LISTENERS_FAILED = _gauge(
    "metadata_listeners_failed", "VMs whose own listener could not be had."
)
VMS = _gauge("vms", "VMs that are served.")
VMS_DOWN = _gauge("vms_down", "VMs that a failure has taken down.")
VMS_DOWN_AGE = _gauge(
    "vms_down_age_seconds",
    "Age of the oldest failure that keeps VMs down; 0 where none does.",
)
DOCUMENTS = _gauge(
    "documents",
    "Lists of events, by whether somebody listens, and so whether it is served.",
    state=("served", "disabled"),
)
PUBLISHED = _counter(
    "documents_published", "Documents handed to the endpoint: changes, and first loads."
)
APPROVALS = _counter(
    "approvals",
    "POSTs of VMs that named events, by what was answered.",
    result=("accepted", "refused", "unavailable"),
)

# What operators ask

ADMIN_RESPONSES = _counter(
    "admin_responses",
    "Answers of the operator API, by HTTP status.",
    status=map(str, _ADMIN_STATUSES),
)
WATCHERS = _gauge("admin_watchers", "Streams of changes that are open.")
ADMIN_CONNECTIONS = _gauge(
    "admin_connections", "Connections to the operator API that are open."
)
ADMIN_CONNECTIONS_REFUSED = _counter(
    "admin_connections_refused",
    "Connections to the operator API that were refused: too many of one source, or "
    "in all.",
    reason=("source", "all"),
)
ADMIN_MEMORY = _gauge(
    "admin_resident_memory_bytes", "Memory of the process that serves operators."
)
ADMIN_STARTS = _counter(
    "admin_process_starts",
    "Starts of the operator API's process; 0 where the service serves it itself.",
)

# Events

EVENTS = _gauge("events", "Events that documents show now.", status=_LIVE, type=_TYPES)
STEPS = _counter(
    "event_steps", "What happened to events.", type=_TYPES, step=EVENT_STEPS
)
APPROVAL_SECONDS = _histogram(
    "event_approval_seconds",
    "Time from an event's publication to its approval.",
    MINUTES,
    type=_TYPES,
)
APPROVALS_LATE = _gauge(
    "approvals_late",
    "Events of scopes that listen, nobody's approval yet, and less than a fifth of "
    "their notice left.",
)

# Operations

OPERATIONS = _gauge("operations", "Operations under way.", verb=_VERBS, state=_OPEN)
OPERATION_AGE = _gauge(
    "operation_age_seconds",
    "How long the operation has stood there that has stood there longest.",
    verb=_VERBS,
    state=_OPEN,
)
OPERATIONS_ENDED = _counter(
    "operations_ended", "Operations that ended, and how.", verb=_VERBS, state=_ENDED
)
HELD = _gauge(
    "operations_held",
    "Operations that do not go on, by each reason that holds them.",
    reason=BLOCKER_KINDS,
)
UNEXAMINED = _gauge(
    "operations_unexamined",
    "Waiting operations whose reasons the last scrape did not look for: too many.",
)

# Driver

DRIVER_CALLS = _counter("driver_calls", "Calls made to the driver.", action=_ACTIONS)
DRIVER_RESULTS = _counter(
    "driver_results",
    "What came of the driver's calls.",
    action=_ACTIONS,
    verdict=("done", "failed", "unknown"),
)

# Webhooks: labels with receivers' names, of which there are few

WEBHOOK_ATTEMPTS = _counter(
    "webhook_attempts",
    "Posts to receivers, by what came of them.",
    receiver=(),
    result=WEBHOOK_RESULTS,
)
WEBHOOK_DROPPED = _counter(
    "webhook_dropped",
    "Messages that will not be told, by why.",
    receiver=(),
    reason=WEBHOOK_REASONS,
)
WEBHOOK_PENDING = _gauge(
    "webhook_pending", "Messages that wait for a receiver.", receiver=()
)
WEBHOOK_AGE = _gauge(
    "webhook_oldest_age_seconds",
    "How old the message is that a receiver must take next.",
    receiver=(),
)

# Control and store

HEARTBEAT_AGE = _gauge(
    "control_heartbeat_age_seconds", "Time since the control thread's last turn."
)
WAITING = _gauge("control_waiting", "Orders and approvals that wait for a turn.")
TURN_SECONDS = _histogram(
    "control_turn_seconds",
    "Length of a turn of the control thread: whoever comes meanwhile waits for its end.",
    TURNS,
)
TIMER_LATE_SECONDS = _histogram(
    "timer_late_seconds", "How long after its instant what was due was done.", SECONDS
)
TIMER_OVERDUE = _gauge(
    "timer_overdue_seconds", "How long the next timer has been due and not been done."
)
CLOCK_STEPS = _counter(
    "clock_steps",
    "Steps of the wall clock that the service noticed, by direction.",
    direction=("back", "forward"),
)
STORE_SECONDS = _histogram(
    "store_transaction_seconds",
    "Length of a transaction, from its decision to the disk.",
    SECONDS,
)
STORE_FAILURES = _counter("store_failures", "Transactions that the store failed to do.")

# The service itself

READY = _gauge("ready", "1 while the service takes orders.")
BUILD_INFO = Meter(
    name="forewarn_build_info",
    kind="gauge",
    text="Always 1; its labels tell which forewarn this is.",
    labels={"version": (), "python": ()},
)
LINES_DROPPED = _counter(
    "log_lines_dropped", "Lines that the log's reader was too slow for."
)
CPU_SECONDS = _counter("process_cpu_seconds", "Processor time of the process.")
MEMORY = _gauge("process_resident_memory_bytes", "Memory that the process holds.")
START_TIME = _gauge(
    "process_start_time_seconds", "When the service started, in seconds since 1970."
)

METERS: tuple[Meter, ...] = tuple(
    each for each in list(globals().values()) if isinstance(each, Meter)
)
"""All of them, in this order."""
