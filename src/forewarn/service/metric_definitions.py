"""All metrics: the name, the meaning and the initial series of each.

A test compares `docs/reference/metrics.md` with this module. Label values are constants
of the program, never names from a fleet, so the number of series does not grow with it.
"""

import enum
from collections.abc import Iterable

from forewarn.admin.errors import Kind
from forewarn.admin.meters import MINUTES, SECONDS, TURNS, Meter
from forewarn.campaigns.lifecycle import ENDED, CampaignState
from forewarn.campaigns.record import HaltCause
from forewarn.checks.model import Outcome
from forewarn.cluster.port import StandbyState
from forewarn.control.rules.binding import BINDING_KINDS
from forewarn.protocol.blockers import BLOCKER_KINDS
from forewarn.protocol.events import LIVE_STATUSES, EventType
from forewarn.protocol.host_steps import StepKind
from forewarn.protocol.operations import (
    ENDED_STATES,
    STARTED_STATES,
    UNSTARTED_STATES,
    Action,
    OperationState,
    Verb,
)
from forewarn.protocol.visits import ENDED_VISITS, VisitState
from forewarn.reporting.problem import ProblemKind
from forewarn.reporting.replicas import ROLE_NAMES


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
"""The steps of an event that the counter distinguishes."""


INVENTORY_OUTCOMES = ("applied", "unchanged", "failed")
"""The outcomes of a run of the inventory."""

WEBHOOK_RESULTS = ("delivered", "failed")
"""The results of a post to a receiver."""

WEBHOOK_REASONS = ("too old", "too many", "gone")
"""The reasons why messages to a receiver are dropped."""


PASSED_ON_REQUESTS = ("approve", "enable")
"""Requests of VMs that a replica passes on to the leader."""

PASSED_ON_RESULTS = ("accepted", "refused", "unavailable")
"""The results of a request that was passed on."""


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
    by_label = {label: tuple(values) for label, values in labels.items()}
    whole = name if name.startswith("process_") else f"forewarn_{name}"
    return Meter(name=whole, kind=kind, text=text, labels=by_label, buckets=buckets)


# Metadata endpoint

METADATA_RESPONSES = _counter(
    "metadata_responses",
    "Responses to VMs, by HTTP status.",
    status=map(str, (*_METADATA_STATUSES, *_FAULT_STATUSES)),
)
UNKNOWN_CALLERS = _counter(
    "metadata_unknown_callers", "Requests from callers that are not VMs of the fleet."
)
CONNECTIONS = _gauge("metadata_connections", "Open connections of VMs.")
CONNECTIONS_REFUSED = _counter(
    "metadata_connections_refused",
    "Rejected connections of VMs: too many from one source, or in total.",
    reason=("source", "all"),
)
WAITERS = _gauge(
    "metadata_waiters", "Requests of VMs that are waiting for a change (push)."
)
LISTENERS_FAILED = _gauge(
    "metadata_listeners_failed", "VMs whose own listener could not be opened."
)
VMS = _gauge("vms", "VMs in the directory of the endpoint.")
DOCUMENTS = _gauge(
    "documents",
    "Event documents: served if the scope has Scheduled Events enabled, else disabled.",
    state=("served", "disabled"),
)
PUBLISHED = _counter(
    "documents_published",
    "Documents passed to the endpoint: changes, and the first ones after a start.",
)
APPROVALS = _counter(
    "approvals",
    "POSTs of VMs that name events, by result.",
    result=("accepted", "refused", "unavailable"),
)

# Operator API

ADMIN_RESPONSES = _counter(
    "admin_responses",
    "Responses of the operator API, by HTTP status.",
    status=map(str, _ADMIN_STATUSES),
)
WATCHERS = _gauge("admin_watchers", "Open streams of changes.")
ADMIN_CONNECTIONS = _gauge("admin_connections", "Open connections to the operator API.")
ADMIN_CONNECTIONS_REFUSED = _counter(
    "admin_connections_refused",
    "Rejected connections to the operator API: too many from one source, or in total.",
    reason=("source", "all"),
)
ADMIN_MEMORY = _gauge(
    "admin_resident_memory_bytes",
    "Resident memory of the process that serves the operator API.",
)
RELAYS_CONNECTED = _gauge("relays_connected", "Relays of hosts with an open stream.")
RELAY_BEHIND = _gauge(
    "relay_behind_seconds",
    "Longest time for which a connected relay has not confirmed a change.",
)
RELAY_LAST_SEEN = _gauge(
    "relay_last_request_age_seconds",
    "Longest time since the last request of a connected relay.",
)
RELAY_TOKENS_REFUSED = _counter(
    "relay_tokens_refused",
    "Requests of relays without a valid token.",
)
ADMIN_STARTS = _counter(
    "admin_process_starts",
    "Starts of the operator API's process; 0 if the service itself serves the API.",
)

# Events

VMS_DOWN = _gauge("vms_down", "VMs that are down because of a failure.")
VMS_DOWN_AGE = _gauge(
    "vms_down_age_seconds",
    "Age of the oldest failure that keeps VMs down; 0 if there is none.",
)
HOSTS_CORDONED = _gauge(
    "hosts_cordoned", "Hosts that take no new VM, since they are cordoned."
)
HOSTS_UNAVAILABLE = _gauge(
    "hosts_unavailable",
    "Hosts that are away for any cause: announced, in work, failed, cordoned or down. The "
    "budget `unavailable` of campaigns limits them.",
)
BRAKED_BY = ("operator", "losses")
"""Causes of the brake; losses count more than an operator."""
BRAKE_ON = _gauge(
    "brake_on",
    "1 if the brake is on, so that no planned work begins; else 0. `losses`: too many "
    "hosts or VMs were lost.",
    by=BRAKED_BY,
)
BLACKOUT_PARTS = ("fleet", "part")
"""The values of the label for the part of the fleet that a blackout of the service
stops."""
BLACKOUTS_IN_FORCE = _gauge(
    "blackouts_in_force",
    "Blackouts of the service that are now, so that no planned work begins: in the whole "
    "fleet, or in a part of it.",
    where=BLACKOUT_PARTS,
)
CAMPAIGN_STATES = tuple(
    state.value
    for state in CampaignState
    if state not in ENDED and state is not CampaignState.DRAFT
)
HALT_CAUSES = tuple(cause.value for cause in HaltCause)
CAMPAIGNS = _gauge(
    "campaigns",
    "Campaigns that have not ended, by state. A rollout of several hosts is one.",
    state=CAMPAIGN_STATES,
)
CAMPAIGNS_HALTED = _gauge(
    "campaigns_halted", "Halted campaigns, by the cause of the halt.", cause=HALT_CAUSES
)
CAMPAIGN_HOSTS = _gauge(
    "campaign_hosts",
    "Hosts of the campaigns that have not ended. `left`: neither done, skipped nor failed.",
    state=("done", "skipped", "failed", "left"),
)
CAMPAIGN_PROGRESS_AGE = _gauge(
    "campaign_progress_age_seconds",
    "Longest time since a host of an open campaign was announced or ended; 0 without "
    "campaigns.",
)
PROBLEMS = _gauge(
    "problems",
    "Problems that `forewarn problems` lists, by kind. Only the replica that leads has it.",
    kind=_words(ProblemKind),
)
VISIT_STATES = tuple(state.value for state in VisitState if state not in ENDED_VISITS)
_VISIT_STEPS = _words(StepKind)
VISITS = _gauge("visits", "Visits of hosts that have not ended.", state=VISIT_STATES)
VISITS_LATE = _gauge(
    "visits_late",
    "Visits whose step has used three quarters of its maximum time and has not failed.",
)
VISITS_FAILED_AGE = _gauge(
    "visits_failed_age_seconds",
    "Longest time that a failed or unknown visit has waited for an operator; 0 if there "
    "is none.",
)
VISITS_ENDED = _counter(
    "visits_ended",
    "Ended visits, by final state.",
    state=_words(state for state in VisitState if state in ENDED_VISITS),
)
VISIT_STEPS_FAILED = _counter(
    "visit_steps_failed",
    "Host steps that stopped their visit, by step and result.",
    step=_VISIT_STEPS,
    result=("failed", "unknown"),
)
VISIT_STEPS = _counter("visit_steps", "Ended host steps, by step.", step=_VISIT_STEPS)
VISIT_STEP_SECONDS = _counter(
    "visit_step_seconds",
    "Time that visits were in ended host steps, with all repetitions of a step.",
    step=_VISIT_STEPS,
)
EVENTS = _gauge(
    "events",
    "Events that documents show now, by status and type.",
    status=_LIVE,
    type=_TYPES,
)
STEPS = _counter(
    "event_steps", "Steps of events, by type and step.", type=_TYPES, step=EVENT_STEPS
)
APPROVAL_SECONDS = _histogram(
    "event_approval_seconds",
    "Time from the publication of an event to its approval.",
    MINUTES,
    type=_TYPES,
)
APPROVALS_LATE = _gauge(
    "approvals_late",
    "Unapproved events of enabled scopes with less than 5 minutes or a quarter of their notice left.",
)

# Operations

OPERATIONS = _gauge("operations", "Open operations.", verb=_VERBS, state=_OPEN)
OPERATION_AGE = _gauge(
    "operation_age_seconds",
    "Longest time that an open operation has been in its state.",
    verb=_VERBS,
    state=_OPEN,
)
OPERATIONS_ENDED = _counter(
    "operations_ended",
    "Ended operations, by verb and final state.",
    verb=_VERBS,
    state=_ENDED,
)
HELD = _gauge(
    "operations_held",
    "Operations that cannot proceed, by each reason.",
    reason=BLOCKER_KINDS,
)
UNEXAMINED = _gauge(
    "operations_unexamined",
    "Waiting operations that the last scrape did not examine, since there were too many.",
)
CAMPAIGNS_WAITING = _gauge(
    "campaigns_waiting",
    "Campaigns that announce no further host now, by the constraint that binds.",
    reason=BINDING_KINDS,
)
RELAYS_SILENT = _gauge(
    "relays_silent",
    "Relays that are away or have not confirmed a change, so that planned work waits.",
)

# Driver

DRIVER_CALLS = _counter(
    "driver_calls", "Calls to the driver, by action.", action=_ACTIONS
)
DRIVER_RESULTS = _counter(
    "driver_results",
    "Results of driver calls, by action and verdict.",
    action=_ACTIONS,
    verdict=("done", "failed", "unknown"),
)

# Webhooks: labels contain the names of receivers, of which there are few

WEBHOOK_ATTEMPTS = _counter(
    "webhook_attempts",
    "Posts to receivers, by result.",
    receiver=(),
    result=WEBHOOK_RESULTS,
)
WEBHOOK_DROPPED = _counter(
    "webhook_dropped",
    "Dropped messages, by reason.",
    receiver=(),
    reason=WEBHOOK_REASONS,
)
WEBHOOK_PENDING = _gauge(
    "webhook_pending", "Messages queued for a receiver.", receiver=()
)
WEBHOOK_AGE = _gauge(
    "webhook_oldest_age_seconds",
    "Age of the oldest message queued for a receiver.",
    receiver=(),
)

# Checks: labels contain the names of checks, of which there are few

CHECK_ANSWERS = _counter(
    "check_answers",
    "Answers to checks, by outcome.",
    check=(),
    outcome=(outcome.value for outcome in Outcome),
)

# Inventory

INVENTORY_RUNS = _counter(
    "inventory_runs",
    "Runs of the inventory, by outcome.",
    outcome=INVENTORY_OUTCOMES,
)
INVENTORY_AGE = _gauge(
    "inventory_age_seconds",
    "Time since the last run of the inventory that did not fail, or since the start of "
    "the service. 0: there is no inventory.",
)

# Control and store

HEARTBEAT_AGE = _gauge(
    "control_heartbeat_age_seconds",
    "Time since the last iteration of the control thread.",
)
WAITING = _gauge(
    "control_waiting", "Requests and approvals that wait for the control thread."
)
TURN_SECONDS = _histogram(
    "control_turn_seconds",
    "Length of one iteration of the control thread; requests wait until it ends.",
    TURNS,
)
TIMER_LATE_SECONDS = _histogram(
    "timer_late_seconds",
    "Delay between the due time of a timer and its execution.",
    SECONDS,
)
TIMER_OVERDUE = _gauge(
    "timer_overdue_seconds",
    "Time since the next timer was due, if it has not run yet; else 0.",
)
CLOCK_STEPS = _counter(
    "clock_steps",
    "Steps of the wall clock that the service detected, by direction.",
    direction=("back", "forward"),
)
STORE_SECONDS = _histogram(
    "store_transaction_seconds",
    "Length of a transaction, including the write to disk.",
    SECONDS,
)
STORE_FAILURES = _counter("store_failures", "Transactions that failed in the store.")

# Replicas

CLUSTER_ROLE = _gauge(
    "cluster_role",
    "1 for the role of this replica, else 0. `refuses`: the database has lost transactions "
    "that it has seen. A service without replicas has no metrics of the cluster.",
    role=[name for role, name in ROLE_NAMES.items() if role is not None],
)
CLUSTER_TERM = _gauge(
    "cluster_term",
    "Term of the lease, as this replica saw it last; it goes up with each takeover.",
)
CLUSTER_TAKEOVERS = _counter("cluster_takeovers", "Takeovers of this replica.")
CLUSTER_REPLICAS = _gauge(
    "cluster_replicas",
    "Replicas that this one sees; unknown: without a sign of life for 5 seconds.",
    state=("seen", "unknown"),
)
CLUSTER_BEHIND_ENTRIES = _gauge(
    "cluster_behind_entries",
    "Transactions that the documents of this replica lack, as far as it knows.",
)
CLUSTER_BEHIND_SECONDS = _gauge(
    "cluster_behind_seconds",
    "Time for which the documents of this replica have lacked a transaction, or since the "
    "database has answered, whichever is longer; 0 if they are complete.",
)
CLUSTER_RENEWAL_AGE = _gauge(
    "cluster_renewal_age_seconds",
    "Time since this replica last renewed the lease; 0 if it does not lead.",
)
CLUSTER_FEED_ROWS = _gauge(
    "cluster_feed_rows", "Transactions in the feed that were not removed yet."
)
CLUSTER_STANDBY = _gauge(
    "cluster_standby",
    "1 for the state of the database's synchronous standby, else 0. `missing`: it is "
    "demanded, and none streams. `unknown`: the database does not show it to the service's "
    "user. While the database does not answer, all are 0.",
    state=_words(StandbyState),
)
CLUSTER_PASSED_ON = _counter(
    "cluster_passed_on",
    "Requests of VMs that this replica passed on to the leader. `enable`: a first request; "
    "`unavailable`: there was no answer, so the VM got 503.",
    request=PASSED_ON_REQUESTS,
    result=PASSED_ON_RESULTS,
)

# The service itself

READY = _gauge("ready", "1 while the service accepts requests.")
BUILD_INFO = Meter(
    name="forewarn_build_info",
    kind="gauge",
    text="Always 1; the labels give the version of forewarn and of Python.",
    labels={"version": (), "python": ()},
)
LINES_DROPPED = _counter(
    "log_lines_dropped", "Log lines dropped because the reader of the log was too slow."
)
CPU_SECONDS = _counter("process_cpu_seconds", "Processor time of the process.")
MEMORY = _gauge("process_resident_memory_bytes", "Resident memory of the process.")
START_TIME = _gauge(
    "process_start_time_seconds", "Start time of the service, in seconds since 1970."
)

METERS: tuple[Meter, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Meter)
)
"""All metrics, in this order."""
