"""The kinds of problems that need attention, the worst first."""

import enum


class ProblemKind(enum.Enum):
    """Kinds of problems, the worst first."""

    NOT_READY = "not-ready"
    DATABASE_LOST = "database-lost"
    NO_LEADER = "no-leader"
    BRAKE = "brake"
    VMS_STOPPED = "vms-stopped"
    VM_DOWN = "vm-down"
    VM_NOT_RUNNING = "vm-not-running"
    OUTCOME_UNKNOWN = "outcome-unknown"
    DRIVER_FAILING = "driver-failing"
    VISIT_FAILED = "visit-failed"
    VISIT_LATE = "visit-late"
    CAMPAIGN_HALTED = "campaign-halted"
    SHARED_HOST = "shared-host"
    APPROVAL_LATE = "approval-late"
    RELAY_SILENT = "relay-silent"
    HELD = "held"
    NO_STANDBY = "no-standby"
    LEADER_CHANGES = "leader-changes"
    REPLICA_BEHIND = "replica-behind"
    LEASES_DIFFER = "leases-differ"
    CAMPAIGN_FAILED_HOSTS = "campaign-failed-hosts"
    CAMPAIGN_WAITS = "campaign-waits"
    CAMPAIGN_STALLED = "campaign-stalled"
    NO_COMMON_WINDOW = "no-common-window"
    BLACKOUT = "blackout"
    WEBHOOK_LATE = "webhook-late"
    HOST_CORDONED = "host-cordoned"


PROBLEM_KINDS = tuple(kind.value for kind in ProblemKind)
"""The values of `--kind`, in the order of lists."""

PROBLEM_RANKS = {value: rank for rank, value in enumerate(PROBLEM_KINDS)}
"""The place of each value in that order."""
