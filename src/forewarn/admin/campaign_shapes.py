"""Models of the responses about campaigns, as in `shapes`."""

from forewarn.admin.campaign_sums_shapes import SkippedHostShape
from forewarn.admin.campaign_terms_shapes import BudgetsShape, ToleranceShape
from forewarn.admin.shapes import REFUSED, RefusedShape, list_of, shape

TenantVmsShape = shape(
    "TenantVmsShape", "The VMs of a tenant on the hosts.", tenant=str, vms=int
)

GroupCountShape = shape(
    "GroupCountShape", "The hosts with a value of a label.", value=str, hosts=int
)

StageShape = shape(
    "StageShape",
    "A stage of a campaign, with its times in the typical forecast.",
    hosts=(str, "The amount in the file."),
    host_count=(int, "Hosts in this stage."),
    up_to=(int, "Hosts up to the end of the stage."),
    soak_seconds=(float, "Time between the last host and the next stage."),
    approval=(bool, "Whether an operator must approve the next stage."),
    begins=str,
    ends=str,
)

BoundShape = shape(
    "BoundShape",
    "A lower bound of the number of rounds; a round is the time of one host.",
    kind=(
        str,
        "in-flight, unavailable, group, room, tenant-vms, fault-domains or migrations.",
    ),
    label=(str, "The label of a group; empty for other kinds."),
    subject=(str, "The group, the pool, the tenant or the scope; can be empty."),
    count=(int, "Hosts, VMs or fault domains that the limit applies to."),
    at_once=(int, "Maximum of them at once."),
    rounds=int,
    message=str,
)

RefusedHostShape = shape(
    "RefusedHostShape",
    "A selected host that cannot be done now.",
    host=str,
    reason=(
        str,
        "down, pinned, unable, shared-scope, no-room, too-large, no-target, no-fit, scope-everywhere, racks or tenant-vms.",
    ),
    message=(str, "The reason with its numbers."),
)

OpeningShape = shape(
    "OpeningShape", "An opening of the windows.", opens=str, closes=str
)

MeasuredShape = shape(
    "MeasuredShape",
    "Durations that past work with the same impact and step `work` had; they replace "
    "[campaign.expect], except that its `slow` is a lower bound.",
    hosts=(int, "Hosts that they were measured on, at least 10."),
    models=(list[str], "The models of these hosts; empty: hosts of all models count."),
    work_typical_seconds=(float, "Half of the hosts took at most this time."),
    work_slow_seconds=(float, "Nine of ten hosts took at most this time."),
    slow_used_seconds=(
        float,
        "The slow time that the plan uses: at least `slow` of the file.",
    ),
    step=(str, "Name of the step `work` that was measured; empty: there was none."),
    notice_typical_seconds=(
        float | None,
        "The part of the notice that passed before the work; null: not measured.",
    ),
    notice_slow_seconds=float | None,
)

ForecastShape = shape(
    "ForecastShape",
    "The times of a campaign that starts now.",
    begins=(str, "When the first host is announced."),
    ends=(str, "When the last host is done."),
    seconds=(float, "Time from now to the end."),
)

PlannedHostShape = shape(
    "PlannedHostShape",
    "A host, with its times in the typical forecast.",
    host=str,
    cluster=str,
    rack=str,
    stage=(int, "Number of the stage, from 1."),
    set=(int, "Number of the set, from 1: hosts of a set can be in work together."),
    vms=int,
    begins=(str, "When the host is announced."),
    ends=str,
)

BlackoutTimeShape = shape(
    "BlackoutTimeShape", "A time of a blackout.", name=str, begins=str, ends=str
)

HeldHostsShape = shape(
    "HeldHostsShape",
    "Hosts of the plan that another campaign has and has not ended.",
    campaign=(str, "ID of the other campaign."),
    name=str,
    state=str,
    host_count=int,
    hosts=(list[str], "The first 100 of these hosts."),
    refuses_start=(bool, "false: this emergency takes the hosts over."),
    message=str,
    hint=(str, "How to free the hosts; empty: nothing is needed."),
)

ApartHostsShape = shape(
    "ApartHostsShape",
    "Hosts of the plan whose maintenance windows are not open together within 14 days.",
    scopes=(list[str], "Without one of them, the others are open together."),
    tenants=(list[str], "The tenants of these scopes."),
    with_campaign=(bool, "Whether the windows of the campaign are not open then."),
    host_count=int,
    hosts=(list[str], "The first 100 of these hosts."),
    message=str,
    hint=(str, "How the hosts can begin."),
)

CampaignPlanShape = shape(
    "CampaignPlanShape",
    "The course of a campaign that starts now.",
    campaign=str,
    reason=str,
    impact=str,
    order=str,
    digest=(str, "Digest of the file, the hosts and their order, and the budgets."),
    planned_at=str,
    host_count=int,
    vm_count=int,
    tenant_count=int,
    tenants=(list_of(TenantVmsShape), "The tenants with the most VMs."),
    counts=(
        dict[str, list_of(GroupCountShape)],
        (
            "Hosts of each zone, cluster, rack, pool and label in the file; of the values "
            "of each, the 50 with the most hosts."
        ),
    ),
    limits=(list[str], "The budgets as numbers, as sentences."),
    stages=list_of(StageShape),
    sets=(int, "Number of sets of hosts that can be in work together."),
    sets_at_least=(int, "A lower bound of the number of sets."),
    bounds=(list_of(BoundShape), "Lower bounds; the constraint that binds is first."),
    refused_count=int,
    refused_by_reason=dict[str, int],
    refused=(list_of(RefusedHostShape), "The first 100 hosts that cannot be done."),
    held=(list_of(HeldHostsShape), "Other campaigns that have any of the hosts."),
    apart=(
        list_of(ApartHostsShape),
        "Hosts that would wait without end; the 50 sets of scopes with the most hosts.",
    ),
    warnings=list[str],
    openings=(list_of(OpeningShape), "The next openings; empty without windows."),
    blackouts=(list_of(BlackoutTimeShape), "The next times of the blackouts."),
    measured=(MeasuredShape | None, "null: there is too little past work."),
    typical=(ForecastShape, "If each host takes the typical time."),
    slow=(ForecastShape, "If each host takes the time of a slow one."),
    hosts=(list_of(PlannedHostShape), "Hosts in the order of their announcement."),
    hosts_left_out=int,
)

FailedHostShape = shape(
    "FailedHostShape",
    "A failed host of a campaign, which was neither retried nor skipped.",
    host=str,
    operation=(str, "The operation that failed, or whose visit failed."),
    reason=(
        str,
        "Why it failed, with the output of a host step; empty after 20 failed hosts.",
    ),
)

DeferredHostShape = shape(
    "DeferredHostShape",
    "A host of a campaign whose VMs could not be moved away, and which waits for another "
    "attempt.",
    host=str,
    operation=(str, "The operation of the next attempt."),
    attempts=(int, "Attempts so far."),
    attempts_max=(int, "Attempts after which the host is skipped."),
    until=(str | None, "Earliest time of the next attempt; null: it has its turn."),
)

PauseShape = shape(
    "PauseShape",
    "The demand of an operator that a campaign announces no host.",
    by=str,
    reason=str,
    at=str,
)

HaltShape = shape(
    "HaltShape",
    "The halt of a campaign.",
    cause=(
        str,
        "operator, canary, in a row, failures, deferred, vms down, brake or check.",
    ),
    by=str,
    at=str,
    host=(str | None, "The host that failed last."),
    message=str,
)

CampaignStageShape = shape(
    "CampaignStageShape",
    "A stage of a started campaign.",
    hosts=(int, "Hosts in this stage."),
    left=(int, "Its hosts that are neither done nor skipped."),
    soak_seconds=float,
    soaks_until=(str | None, "End of the soak while it lasts."),
    approval=(bool, "Whether an operator must approve the next stage."),
    approved=bool,
)

BlackoutShape = shape(
    "BlackoutShape",
    "A blackout, with its current or next time.",
    name=str,
    line=(str, "The blackout as a line."),
    begins=(str | None, "null: it has ended."),
    ends=str | None,
)

CampaignShape = shape(
    "CampaignShape",
    "A started campaign.",
    campaign=(str, "Its ID."),
    name=str,
    reason=str,
    impact=str,
    state=(str, "Running, Paused, Halted, Done or Aborted."),
    rollout=(str, "The rollout that has its operations."),
    revision=(str, "It differs after each decision about the campaign."),
    digest=(str, "Digest of the plan that it was started with."),
    actor=(str, "The operator who started it."),
    created=str,
    ended=str | None,
    planned_end=(str | None, "The forecast of its plan; null: unknown."),
    progressed=(str, "When a host was announced or ended last."),
    emergency=(bool, "Whether windows, blackouts and deferrals do not stop it."),
    released=(
        bool,
        "false: an emergency that another operator must release by approving stage 1.",
    ),
    priority=(
        int,
        "Rank among the campaigns that share a limit; the highest is first.",
    ),
    hosts=int,
    waiting=(int, "Hosts that are not announced, without the deferred ones."),
    in_flight=(int, "Hosts that are announced or in work."),
    done=int,
    skipped=int,
    failed=list_of(FailedHostShape),
    deferred_count=(int, "Hosts that wait for another attempt to move their VMs away."),
    deferred=(list_of(DeferredHostShape), "The first of them."),
    vms_down=(int, "VMs that are down after the work, up to one above the limit."),
    vms_down_max=(int | None, "Such VMs that are tolerated now; null: any number."),
    slow_seconds=(
        float,
        (
            "Time of a host that must be left before a window closes. It grows with the times "
            "of its own hosts."
        ),
    ),
    overran=(int, "Hosts that were done after their window had closed."),
    drift=(
        int,
        "New hosts of the fleet that match its selection, counted up to 1000.",
    ),
    withdrawn=(int, "Announcements that halts have withdrawn."),
    at_once=(int, "Maximum hosts in flight now."),
    budgets=BudgetsShape,
    tolerance=ToleranceShape,
    stage=(int, "Number of the current stage, from 1."),
    stages=list_of(CampaignStageShape),
    halted=HaltShape | None,
    pauses=list_of(PauseShape),
    windows=(list[str], "Its windows, each as a line: days, start, length, time zone."),
    blackouts=(list_of(BlackoutShape), "Its blackouts, those that have ended too."),
    checks=(list[str], "Names of its checks, which GET /v1/checks has."),
    warnings=(
        list[str],
        "Expected effects that it does not have: work on its hosts.",
    ),
    waits_for=(str, "Why it announces no further host now; empty: it may."),
    waits_shortly=(str, "The same without commands."),
)

ChangedCampaignShape = shape(
    "ChangedCampaignShape",
    "A campaign of which some hosts were changed.",
    CampaignShape,
    refused=(list_of(RefusedShape), REFUSED),
)

CampaignPage = shape(
    "CampaignPage",
    "A page of the campaigns.",
    campaigns=list_of(CampaignShape),
    total=(int, "Campaigns on all pages; those above 10,000 do not count."),
    next=(str | None, "`after` of the next page; null: this is the last one."),
)

AttemptApproval = shape(
    "AttemptApproval",
    "An approval of an event of an attempt.",
    tenant=str,
    by=str,
    at=str,
    early=(bool, "Whether it was given before NotBefore."),
)

AttemptShape = shape(
    "AttemptShape",
    "One attempt on a host: an operation of the campaign.",
    operation=str,
    host=str,
    stage=int,
    state=(str, "State of the operation and of the host steps together."),
    outcome=(
        str | None,
        "completed, failed, cancelled, or deferred: the VMs could not be moved away.",
    ),
    note=(str, "Why it failed or was cancelled; empty otherwise."),
    announced=str | None,
    not_before=str | None,
    started=str | None,
    ended=str | None,
    waited_seconds=(
        float | None,
        "To its announcement, since the campaign or the attempt before.",
    ),
    notice_seconds=(float | None, "Notice that it was given."),
    notice_used_seconds=(float | None, "From its announcement to its start."),
    work_seconds=(float | None, "From its start to the end of the impact."),
    recovery_seconds=(float | None, "From the end of the impact to its end."),
    events=int,
    approvals=list_of(AttemptApproval),
    vms=list[str],
    moved=(list[str], "VMs that were moved to another host."),
    down_seconds=(float, "Sum of the downtime of its VMs."),
)

CampaignSkips = shape(
    "CampaignSkips",
    "The hosts that a campaign leaves out.",
    campaign=(str, "ID of the campaign."),
    skipped_count=int,
    skipped=(list_of(SkippedHostShape), "The first 100 of them, in its order."),
)

CampaignFileShape = shape(
    "CampaignFileShape",
    "The file of a campaign.",
    campaign=(str, "ID of the campaign."),
    text=(str, "Empty: a rollout without a file."),
)

RackShape = shape(
    "RackShape",
    "The hosts of one stage in one rack.",
    stage=int,
    rack=(str, "Empty for hosts without a rack."),
    hosts=int,
    done=int,
    in_flight=int,
    waiting=(int, "Not announced, or waiting for another attempt."),
    failed=int,
    skipped=(int, "Left out, or the campaign ended before their turn."),
)

CampaignRacks = shape(
    "CampaignRacks",
    "The hosts of a campaign by stage and rack.",
    campaign=(str, "ID of the campaign."),
    racks=(list_of(RackShape), "At most 1,000, by stage and rack."),
    racks_left_out=int,
)

CampaignReport = shape(
    "CampaignReport",
    "A page of the attempts of a campaign.",
    campaign=(str, "ID of the campaign."),
    attempts=list_of(AttemptShape),
    next=(str | None, "`after` of the next page; null: this is the last one."),
)
