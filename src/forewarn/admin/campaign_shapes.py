"""Models of the responses about campaigns, as in `shapes`."""

from forewarn.admin.shapes import list_of, shape

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
        "down, pinned, shared-scope, no-room, too-large, no-target, scope-everywhere or tenant-vms.",
    ),
    message=(str, "The reason with its numbers."),
)

OpeningShape = shape(
    "OpeningShape", "An opening of the windows.", opens=str, closes=str
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
    stage=(int, "Number of the stage, from 1."),
    set=(int, "Number of the set, from 1: hosts of a set can be in work together."),
    vms=int,
    begins=(str, "When the host is announced."),
    ends=str,
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
    warnings=list[str],
    openings=(list_of(OpeningShape), "The next openings; empty without windows."),
    typical=(ForecastShape, "If each host takes the typical time."),
    slow=(ForecastShape, "If each host takes the time of a slow one."),
    hosts=(list_of(PlannedHostShape), "Hosts in the order of their announcement."),
    hosts_left_out=int,
)
