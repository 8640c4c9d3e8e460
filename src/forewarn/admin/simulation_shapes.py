"""Models of the responses about simulations of campaigns, as in `shapes`."""

from forewarn.admin.campaign_shapes import BlackoutTimeShape
from forewarn.admin.shapes import list_of, shape

StuckHostShape = shape(
    "StuckHostShape",
    "A host of a simulation that waits without end.",
    host=str,
    reasons=(list[str], "Its first reasons."),
)

SimulatedStageShape = shape(
    "SimulatedStageShape",
    "A stage of a simulated campaign.",
    stage=(int, "Its number, from 1."),
    hosts=int,
    done=int,
    failed=int,
    approval=(bool, "Whether an operator must approve the next stage."),
    begins=(str | None, "When its first host was announced."),
    ends=(str | None, "When its last host ended."),
)

SimulatedPeriodShape = shape(
    "SimulatedPeriodShape",
    "An opening of the windows, or a day in UTC if there are no windows.",
    opens=str,
    closes=str,
    done=(int, "Hosts that were done from then until the next opening."),
    failed=int,
)

SimulatedInterruptionShape = shape(
    "SimulatedInterruptionShape",
    "The interruptions of one kind.",
    kind=(str, "freeze, live-migrate, reboot, redeploy or failure."),
    vms=(int, "VMs with such interruptions."),
    minutes=(
        float,
        "Minutes of all VMs together. Those of live-migrate are the whole migrations.",
    ),
    still_down=(int, "VMs that are down at the end."),
)

SimulatedMovesShape = shape(
    "SimulatedMovesShape",
    "The moves of VMs to other hosts.",
    vms=(int, "VMs that were moved."),
    moves=int,
    most=(int, "Most moves of one VM."),
)

SimulatedNoticeShape = shape(
    "SimulatedNoticeShape",
    "The notice of the hosts with VMs whose work has begun.",
    hosts=int,
    approved_hosts=(int, "Hosts that all tenants approved before the notice ended."),
    given_minutes=(float, "Notice of one host, on average."),
    used_percent=(float, "Part of the notice that passed before the work began."),
)

SimulatedBudgetShape = shape(
    "SimulatedBudgetShape",
    "The moment at which a budget was used most.",
    kind=(str, "in-flight, unavailable, group, tenant-vms or overlap-notice."),
    label=(str, "The label of a group; empty for other kinds."),
    subject=(str, "The group, the tenant or the scope; can be empty."),
    used=int,
    most=(int | None, "The budget; null: no limit."),
    at=str | None,
)

SimulatedHostShape = shape(
    "SimulatedHostShape",
    "A host that was announced, in its last attempt.",
    host=str,
    cluster=str,
    rack=str,
    stage=int,
    vms=int,
    state=(str, "done, failed, in-work or announced."),
    begins=(str, "When the host was announced."),
    starts=(str | None, "When its work began."),
    ends=str | None,
)

CampaignSimulationShape = shape(
    "CampaignSimulationShape",
    "The result of a simulation of a campaign.",
    campaign=str,
    reason=str,
    impact=str,
    has_windows=(bool, "Whether `periods` are openings of its windows; if not, days."),
    seed=int,
    approve_percent=(
        float | None,
        "Share of the scopes that approve; null: as fast as was measured.",
    ),
    approvals_measured=(
        int,
        "Hosts of past work whose notices were used; 0: a share of the scopes approves.",
    ),
    failure_percent=float,
    state=(str, "Done, Halted or Running at the end."),
    halted=(str | None, "Why the campaign was halted; the simulation ends then."),
    is_stuck=(bool, "Whether no host can be announced any more."),
    waits=(list_of(StuckHostShape), "Why the first hosts wait, if it is stuck."),
    begins=str,
    ends=(str, "When the last host ended."),
    seconds=(float, "Time from the beginning to the end, in seconds."),
    forecast_ends=(str, "The end by the forecast of the plan, with typical hosts."),
    host_count=int,
    vm_count=int,
    done=int,
    failed=(list[str], "Hosts that failed."),
    skipped=int,
    left=(int, "Hosts that have not ended."),
    withdrawn=(int, "Announcements that the halt has withdrawn."),
    stages=list_of(SimulatedStageShape),
    periods=list_of(SimulatedPeriodShape),
    blackouts=(list_of(BlackoutTimeShape), "The times of the blackouts."),
    interruptions=list_of(SimulatedInterruptionShape),
    moves=SimulatedMovesShape,
    notice=SimulatedNoticeShape,
    waiting_seconds=(
        dict[str, float],
        "Time of hosts before their notices by cause, as in the sums of a campaign.",
    ),
    notice_seconds=(dict[str, float], "Time from their notices to their starts."),
    budgets=list_of(SimulatedBudgetShape),
    warnings=list[str],
    hosts=(list_of(SimulatedHostShape), "Hosts in the order of the plan."),
    hosts_left_out=int,
)
