"""Models of the responses about the hosts of a campaign, as in `shapes`."""

from forewarn.admin.brake import BrakeShape
from forewarn.admin.campaign_shapes import OpeningShape
from forewarn.admin.shapes import BlockerShape, list_of, shape

_COUNTS = (
    "Hosts by state, without states that no host has: planned, announced, ready, "
    "impacting, recovering, failed, skipped, done. They add up to `hosts`."
)
_STATE = "planned, announced, ready, impacting, recovering, failed, skipped or done."

TreeClusterShape = shape(
    "TreeClusterShape",
    "The hosts of a campaign in one cluster.",
    cluster=(str, "Empty for hosts without a cluster."),
    hosts=int,
    racks=int,
    counts=(dict[str, int], _COUNTS),
    worst=(str, "The state of the host that needs attention most."),
    busy=(list[int], "Hosts in work in each step of the time."),
)

TreeRackShape = shape(
    "TreeRackShape",
    "The hosts of a campaign in one rack.",
    cluster=str,
    rack=(str, "Empty for hosts without a rack."),
    hosts=int,
    counts=(dict[str, int], _COUNTS),
    worst=(str, "The state of the host that needs attention most."),
    states=(
        list[list[str]],
        "Name and state of each host; empty if the answer has more than 1,000 hosts.",
    ),
    lane=(
        list[list[str | None]],
        "State, beginning and end of each stretch. No end: it goes on.",
    ),
)

CampaignTreeShape = shape(
    "CampaignTreeShape",
    "The hosts of a campaign by cluster and rack.",
    **{
        "campaign": (str, "ID of the campaign."),
        "at": (str, "When it was read; of a large campaign, some seconds ago."),
        "from": (str, "Beginning of the steps."),
        "until": (str, "End of the steps."),
        "steps": (int, "Steps of equal length in `busy`."),
        "hosts": int,
        "counts": (dict[str, int], _COUNTS),
        "clusters": list_of(TreeClusterShape),
        "clusters_left_out": int,
        "racks": (
            list_of(TreeRackShape),
            "Empty if a whole campaign has more than 100; ask for one cluster then.",
        ),
        "racks_left_out": int,
    },
)

HostStepNowShape = shape(
    "HostStepNowShape",
    "The step that a host is in, or has failed in.",
    state=(str, "State of its visit, such as Draining; without one, of its operation."),
    kind=(str | None, "The host step that runs, such as work."),
    since=str | None,
    until=(str | None, "When it failed; null: it has not."),
)

ProgressShape = shape(
    "ProgressShape", "How many VMs of a host have moved away.", done=int, of=int
)

SegmentShape = shape(
    "SegmentShape",
    "A time in which a host was in one state.",
    **{
        "state": (str, _STATE),
        "step": (str | None, "State of its visit, such as Draining."),
        "from": str,
        "until": (str | None, "null: it goes on."),
    },
)

ExpectedShape = shape(
    "ExpectedShape",
    "The time in which work is expected.",
    **{"from": str, "until": str},
)

HaveOfShape = shape(
    "HaveOfShape", "How many events are approved.", have=int, of=(int, "Live events.")
)

_ROW = {
    "host": str,
    "cluster": str,
    "rack": str,
    "stage": int,
    "position": (int, "Place in the order of the campaign, from 1."),
    "state": (str, _STATE),
    "operation": (str, "Its last operation, which can be created later."),
    "vms": int,
    "attempts": (int, "Operations so far."),
    "step": (HostStepNowShape | None, "null: it is neither in flight nor failed."),
    "progress": (ProgressShape | None, "null: it moves no VM now."),
    "segments": (list_of(SegmentShape), "Its times in each state, the earliest first."),
    "forecast": (ExpectedShape | None, "null: unknown, or it is done."),
    "not_before": (str | None, "NotBefore of its live events."),
    "approvals": HaveOfShape,
    "blockers": (
        list_of(BlockerShape),
        "Why it waits; `host` also names the host of `operation`.",
    ),
    "note": (str, "Why it failed or was left out."),
}

CampaignRowShape = shape("CampaignRowShape", "A host of a campaign.", **_ROW)

CampaignRowPage = shape(
    "CampaignRowPage",
    "A page of the hosts of a campaign, by name.",
    campaign=(str, "ID of the campaign."),
    at=str,
    hosts=list_of(CampaignRowShape),
    next=(str | None, "`after` of the next page; null: this is the last one."),
)

HostVmShape = shape(
    "HostVmShape",
    "A VM of a host of a campaign.",
    vm=str,
    tenant=(str | None, "null: it was removed from the fleet."),
    scope=str | None,
    host=(str | None, "Where it is now."),
    state=(str | None, "running, down or deleted."),
    course=(
        str,
        "waiting, in work, moved, done, failed, down, unchanged or gone.",
    ),
    to_host=(str | None, "Its destination, if it is known."),
    pause_seconds=(float | None, "How long the work interrupted it."),
)

VisitStepShape = shape(
    "VisitStepShape",
    "A step of a visit.",
    kind=(
        str,
        "needed, enter, work, answers, verify or exit; drain: its VMs move away.",
    ),
    step=(str, "The program with its arguments; of drain, the impact."),
    current=(bool, "Whether it runs or is next."),
    outcome=(str | None, "done, not needed, failed or unknown; null: no result."),
    at=(str | None, "Time of the result."),
    said=(str, "The end of its output."),
)

DriverSaidShape = shape(
    "DriverSaidShape",
    "A message of the driver.",
    at=str,
    what=(str, "driver done, driver failed, driver outcome unknown or vm moved."),
    text=str,
)

UsualShape = shape(
    "UsualShape",
    "Median times of the hosts that were done last.",
    hosts=(int, "Number of hosts that they were measured on, at most 20."),
    turn_seconds=(float, "From the announcement to the end."),
    work_seconds=(float, "From the start to the end."),
    step_seconds=(dict[str, float], "Time in each state of the visit."),
)

HostVerbShape = shape(
    "HostVerbShape",
    "A request about the host, and whether it is accepted now.",
    verb=(str, "campaign-retry, campaign-skip, expedite or cancel."),
    error=(str | None, "Why it is refused; null: it is accepted."),
    hint=(str, "Requests that can be made instead; can be empty."),
)

CampaignHostShape = shape(
    "CampaignHostShape",
    "A host of a campaign with its VMs.",
    **_ROW,
    zone=str,
    pool=str,
    host_state=(str, "up or down."),
    cordoned=bool,
    impact=str,
    vm_list=list_of(HostVmShape),
    steps=(list_of(VisitStepShape), "Empty: it has no host steps, or waits."),
    output=(list_of(DriverSaidShape), "The last messages, the latest last."),
    usual=(UsualShape | None, "null: no host is done."),
    verbs=(list_of(HostVerbShape), "The requests that its course can have."),
)

CampaignCountsShape = shape(
    "CampaignCountsShape",
    "The hosts of a campaign by course; all but `hosts` add up to it.",
    hosts=int,
    done=int,
    running=(int, "In work."),
    announced=(int, "Announced, and not started."),
    failed=int,
    skipped=int,
    deferred=(int, "They wait for another attempt to move their VMs away."),
    waiting=(int, "Not announced."),
)

EtaShape = shape(
    "EtaShape",
    "When a campaign is expected to end, and the basis of that.",
    at=(str | None, "On a whole minute; null: unknown."),
    unknown=(
        str | None,
        "no host is done, paused, halted, brake, only failed hosts, no opening or ended.",
    ),
    hosts=(int, "Hosts whose median is used, at most the last 20."),
    turn_seconds=(float | None, "Median from the announcement to the end of a host."),
    slots=(int, "Hosts in flight at full speed, without places of failed hosts."),
    soak_seconds=(float, "Soaks of the stages that are left, which it includes."),
    approvals=(int, "Stages that need an approval, as if it were given at once."),
)

OutlookStageShape = shape(
    "OutlookStageShape",
    "A stage of a campaign, and when it begins.",
    stage=int,
    course=(str, "past, current or coming."),
    hosts=int,
    left=(int, "Neither done nor skipped."),
    failed=int,
    soak_seconds=float,
    soaks_until=str | None,
    approval=(bool, "Whether the next stage needs an approval."),
    approved=bool,
    needs_approval=(bool, "Whether the next stage waits only for its approval."),
    begins=(str | None, "Expected, on a whole minute; null: unknown, or it has begun."),
)

BudgetUseShape = shape(
    "BudgetUseShape",
    "The use of a budget, or of a tolerance of failures.",
    kind=(
        str,
        "in-flight, ramp, unavailable, group, failures, failures-in-a-row or vms-down.",
    ),
    subject=(str | None, "The place or label of a group, such as rack=r7."),
    used=int,
    most=int,
    failed=(int, "The part of the use by failed hosts."),
    full=bool,
)

BlackoutPartShape = shape(
    "BlackoutPartShape",
    "A time of a blackout.",
    name=str,
    campaign=(str | None, "null: it is one of the service."),
    begins=str,
    ends=str | None,
)

CampaignOutlookShape = shape(
    "CampaignOutlookShape",
    "The expected end of a campaign, and its limits.",
    campaign=(str, "ID of the campaign."),
    name=str,
    at=str,
    state=str,
    revision=str,
    counts=CampaignCountsShape,
    eta=EtaShape,
    stages=list_of(OutlookStageShape),
    budgets=list_of(BudgetUseShape),
    windows=(list_of(OpeningShape), "From a day ago to three days ahead."),
    blackouts=list_of(BlackoutPartShape),
    brake=BrakeShape,
    verbs=(
        list[str],
        "Possible requests, such as campaign-pause; campaign-override: with `despite`.",
    ),
)
