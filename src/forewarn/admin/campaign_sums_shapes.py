"""Models of the sums of a campaign in responses, as in `shapes`."""

from forewarn.admin.shapes import list_of, shape

DecisionShape = shape(
    "DecisionShape",
    "The decision about a failed host.",
    what=(str, "retried or skipped."),
    by=str,
    at=str,
    reason=str,
)

FailureShape = shape(
    "FailureShape",
    "An attempt that failed, or that could not move the VMs away.",
    host=str,
    operation=str,
    state=(str, "Failed or Deferred."),
    note=str,
    then=(DecisionShape | None, "null: nothing yet."),
)

TenantFigures = shape(
    "TenantFigures",
    "The part of one tenant in a campaign.",
    tenant=str,
    asked=(int, "Events that its VMs saw."),
    approved=int,
    by_operator=(int, "Of them, approved by an operator on its behalf."),
    open=(int, "Events that still wait for an approval."),
    deferrals=(int, "How often it has deferred VMs or scopes."),
    hosts_deferred=(int, "Hosts whose work it has deferred."),
    vms=(int, "VMs of the attempts that have started, if the fleet has them."),
    vms_moved=(int, "Of them, moved at least once."),
    median_seconds=(
        float | None,
        "From the notice to the approval by its VMs and tokens; null: there was none.",
    ),
    vms_down=(int, "VMs that were down at least once."),
    planned_down_seconds=float,
    unplanned_down_seconds=(float, "By failures."),
    longest_down_seconds=float,
    longest_down_vm=(str | None, "The VM that was down for this time."),
)

SkippedHostShape = shape(
    "SkippedHostShape",
    "A host that a campaign leaves out.",
    host=str,
    stage=int,
    operation=(str, "Its last attempt."),
    ended=(str | None, "null: the campaign ended before its turn."),
    reason=str,
)

CampaignSums = shape(
    "CampaignSums",
    "The sums of the attempts of a campaign.",
    campaign=(str, "ID of the campaign."),
    skipped_count=(int, "Hosts that the campaign leaves out."),
    skipped=(list_of(SkippedHostShape), "The first 100 of them, in its order."),
    attempts=int,
    states=(
        dict[str, int],
        "Attempts by state with their host steps; `Deferred` if no VM could be moved.",
    ),
    stages=(dict[str, dict[str, int]], "Attempts by stage and state."),
    seconds=(
        dict[str, float],
        "Time of all attempts, waiting, in notice, work, recovery.",
    ),
    notice_seconds=(
        dict[str, float],
        (
            "Time of hosts from their notices to their starts, by cause: approval (until all "
            "events are approved or NotBefore has come), window (of a tenant), start (other "
            "fault domains, the brake, the driver)."
        ),
    ),
    vms=(int, "VMs of the attempts that have started."),
    vm_down_seconds=(float, "Downtime of all VMs together."),
    several_domains_down_count=(
        int,
        "Scopes of which several fault domains were down at once, one of them by its work.",
    ),
    several_domains_down=(list[str], "The first 20 of these scopes."),
    moves_per_vm=(dict[str, int], "Moved VMs by the number of their moves."),
    started=(int, "Attempts that have started."),
    noticed=(int, "Those with a notice: hosts without VMs have none."),
    notice_given_seconds=(float, "Notice of the started attempts together."),
    notice_used_seconds=(float, "The part of it that passed before the work began."),
    events=int,
    approvals=int,
    approvals_early=(int, "Approvals before NotBefore."),
    approvals_by_tenant=dict[str, int],
    deferrals=(int, "How often tenants have deferred VMs or scopes."),
    hosts_deferred=(int, "Hosts whose work tenants have deferred."),
    failures_count=int,
    failures=(list_of(FailureShape), "The first 20 of them."),
    waiting_seconds=(
        dict[str, float],
        (
            "Time of hosts before their notices, by cause: halted, paused, closed (windows "
            "and blackouts), stage_approval, soak, deferral and window (of tenants), failed "
            "(until a retry), turn (budgets, capacity and hosts before them)."
        ),
    ),
    hours=(dict[str, int], "Hosts done in each hour, by its beginning in UTC."),
    tenants=(list_of(TenantFigures), "The one with the longest downtime first."),
)
