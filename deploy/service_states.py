"""Render the tables of `lifecycle` for `docs/explanation/event-lifecycle.md`.

The transitions come from the tables that decide. This module has a paragraph about each
state.
"""

from __future__ import annotations

from deploy.state_pages import Machine, section
from forewarn.campaigns.lifecycle import CAMPAIGN_STEPS, CampaignState
from forewarn.cluster.lease import ROLE_STEPS
from forewarn.cluster.port import Role
from forewarn.protocol.events import EventStatus
from forewarn.protocol.lifecycle import (
    EVENT_STEPS,
    OPERATION_STEPS,
    REQUEST_STEPS,
    VIEW_STEPS,
    VISIT_STEPS,
    ViewState,
)
from forewarn.protocol.operations import OperationState, RequestState
from forewarn.protocol.visits import VisitState

EVENT = Machine(
    title="Event",
    intro=(
        "The part of an operation that one scope sees. Documents show it while it is "
        "Scheduled or Started (clauses 2.6 and 4.1)."
    ),
    table=EVENT_STEPS,
    first=EventStatus.NEW,
    states={
        EventStatus.NEW: (
            "It was created in the current transaction and is not published. No event is "
            "New at the end of a transaction."
        ),
        EventStatus.SCHEDULED: (
            "It is announced. VMs prepare, and approve or wait for NotBefore. It can "
            "still be cancelled without any impact."
        ),
        EventStatus.STARTED: (
            "The impact has started or is about to start. This status is durable and "
            "published before any VM is affected. It cannot be cancelled any more. It "
            "includes the recovery time."
        ),
        EventStatus.REMOVED: (
            "No document shows it. It is stored for the retention time, so that late "
            "approvals get 200 (3.2) and the history can show it."
        ),
    },
)

OPERATION = Machine(
    title="Operation",
    intro=(
        "The work that is done at one time to one host or one VM. Its events follow it."
    ),
    table=OPERATION_STEPS,
    first=OperationState.PLANNED,
    states={
        OperationState.PLANNED: (
            "It has no events yet. A host of a rollout stays Planned until it is "
            "announced. Every other operation leaves this state in the transaction that "
            "created it."
        ),
        OperationState.ANNOUNCED: (
            "Its events are Scheduled. It waits until all of them are approved or "
            "NotBefore comes. Deletions of one request wait for each other (3.6)."
        ),
        OperationState.READY: (
            "It is released. It can wait for the guard (6.3), for another operation that "
            "is running on one of its VMs, or for a destination host. `forewarn explain` "
            "shows the reason."
        ),
        OperationState.IMPACTING: (
            "Started is durable, and it cannot be cancelled. The driver works, another "
            "attempt follows, or an operator must set an unknown outcome. A failure stays "
            "in this state until its VMs run again."
        ),
        OperationState.RECOVERING: (
            "The impact has ended. Its events stay Started for the recovery time, and its "
            "fault domain stays occupied."
        ),
        OperationState.DONE: "It succeeded, and its events are removed.",
        OperationState.CANCELLED: (
            "It ended without an impact. Possible causes: a request, a stopped rollout, a "
            "failure, the departure of all its VMs, or a hold that was too long, after "
            "which it was announced again (4.2)."
        ),
        OperationState.FAILED: (
            "It started and could not be completed. VMs that are down because of it have "
            "the event of a failure (4.3)."
        ),
    },
)

REQUEST = Machine(
    title="Request",
    intro=(
        "One command of an operator or tenant, with its operations. A rollout is a "
        "request for several hosts or instances."
    ),
    table=REQUEST_STEPS,
    first=RequestState.OPEN,
    states={
        RequestState.OPEN: "Some of its operations have not ended.",
        RequestState.STOPPED: (
            "One of its operations failed. In a rollout, operations that had not started "
            "were cancelled (4.5). Started ones continue."
        ),
        RequestState.CANCELLED: (
            "It was cancelled: operations that had not started ended. Started ones "
            "continue."
        ),
        RequestState.CLOSED: "All its operations ended, and it was neither stopped nor cancelled.",
    },
)

VIEW = Machine(
    title="View",
    intro=(
        "The VMs that see the same list of events. Views with the same enabling key "
        "change together (7.2)."
    ),
    table=VIEW_STEPS,
    first=ViewState.DISABLED,
    states={
        ViewState.DISABLED: (
            "Scheduled Events are not enabled: there is no document, requests of users "
            "start without approval, and events cannot be approved (7.4, 3.3)."
        ),
        ViewState.ENABLED: (
            "A VM requested the document within the last day. Each time the view is "
            "enabled, its incarnation starts at 1 (2.10)."
        ),
    },
)

VISIT = Machine(
    title="Visit",
    intro=(
        "The work of one request on one host, if the request has host steps. Its "
        "operation keeps the states above."
    ),
    table=VISIT_STEPS,
    first=VisitState.WAITING,
    states={
        VisitState.WAITING: (
            "The step `needed` runs, or the host waits for its turn afterwards. No "
            "tenant hears of it."
        ),
        VisitState.ANNOUNCED: "Its operation is announced, and has not started.",
        VisitState.ENTERING: (
            "Its operation has started, the host is cordoned, and the step `enter` runs. "
            "The VMs are not affected yet."
        ),
        VisitState.DRAINING: (
            "Its operation affects the VMs. After a move, the visit waits until the "
            "driver observes none of them on the host."
        ),
        VisitState.WORKING: (
            "The step `work` runs. After the first half of a freeze or a reboot, the VMs "
            "stay paused or stopped meanwhile, and their events stay Started."
        ),
        VisitState.ANSWERING: (
            "The step `answers` runs until the host answers, for at most "
            "`policy.answers_within`. VMs that were stopped for the work stay so."
        ),
        VisitState.RESTORING: (
            "The second half of the operation resumes or starts these VMs, even if the "
            "work failed."
        ),
        VisitState.VERIFYING: (
            "The step `verify` runs until it has succeeded `policy.verify_times` times "
            "in a row."
        ),
        VisitState.EXITING: "The step `exit` runs. Then the host is opened.",
        VisitState.DONE: "The host was verified and opened.",
        VisitState.DEFERRED: (
            "The VMs could not be moved away, paused or stopped. Those that moved stay "
            "there, the others run again, and the host was opened without any work."
        ),
        VisitState.SKIPPED: (
            "The host does not need the work, its operation was cancelled before the "
            "start, or an operator gave up the visit."
        ),
        VisitState.FAILED: (
            "A step failed. The host stays cordoned and in flight, and the rollout "
            "stops, until an operator retries or skips the visit."
        ),
        VisitState.UNKNOWN: (
            "The outcome of a step is unknown. Otherwise it is like Failed. VMs that are "
            "paused or stopped for the work stay so until an operator retries or skips "
            "the visit."
        ),
    },
)

CAMPAIGN = Machine(
    title="Campaign",
    intro=(
        "The maintenance of many hosts in an order. It announces them one by one, and "
        "each of them has an operation of its own."
    ),
    table=CAMPAIGN_STEPS,
    first=CampaignState.DRAFT,
    states={
        CampaignState.DRAFT: "It was created in the current transaction.",
        CampaignState.RUNNING: (
            "It announces hosts, as its stages, budgets, windows and checks allow."
        ),
        CampaignState.PAUSED: (
            "It announces no further host, and announced ones continue. Several operators "
            "can pause it; it continues when the last of them resumes it."
        ),
        CampaignState.HALTED: (
            "An operator or a rule stopped it. It announces and starts no host, and its "
            "announcements are withdrawn without impact. One operator ends the halt."
        ),
        CampaignState.DONE: "All its hosts are done or skipped.",
        CampaignState.ABORTED: (
            "An operator ended it. Hosts that had not started are skipped."
        ),
    },
)

REPLICA = Machine(
    title="Replica",
    intro=(
        "The part of one `forewarn serve` in a cluster that shares a database. Driver "
        "calls begin in the state Leads only."
    ),
    table=ROLE_STEPS,
    first=Role.FOLLOWS,
    states={
        Role.FOLLOWS: (
            "It serves the committed documents and watches the lease. It takes the lease "
            "if there was no renewal for a whole lease, or if the leader released it."
        ),
        Role.LEADS: "It decides, begins driver calls, and renews the lease.",
        Role.UNSURE: (
            "No renewal succeeded in time, so another replica may take the lease. It "
            "begins no driver calls. The database refuses its decisions if another "
            "replica leads."
        ),
        Role.BEHIND: (
            "The database has lost transactions that this replica has seen, as after a "
            "failover without synchronous replication. It neither leads nor answers "
            "VMs. A file remembers this for its next process, until an operator accepts "
            "the loss."
        ),
        Role.STOPPED: "It ends. If it led, it releases the lease after its last call.",
    },
)

MACHINES = (EVENT, OPERATION, REQUEST, VIEW, VISIT, CAMPAIGN, REPLICA)


def page() -> str:
    """Return the service sections of `docs/explanation/event-lifecycle.md`."""
    return "\n\n".join(map(section, MACHINES)) + "\n"
