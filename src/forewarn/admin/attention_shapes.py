"""Models of the responses of `attention`, for /openapi.json only."""

from forewarn.admin.choice_shapes import UpcomingShape
from forewarn.admin.shapes import BlockerShape, Page, list_of, shape

AbilityShape = shape(
    "AbilityShape",
    "An action that is not possible on a host or VM, and who says so.",
    action=str,
    able=(str, "no, or unknown."),
    source=(str, "The source that decides: fleet file, inventory or driver."),
    vm=(str | None, "The VM; null: all VMs of the host."),
    reason=(str, "The reason of the driver; can be empty."),
    since=(str | None, "When the driver first gave this answer."),
    text=str,
)

ExplainedOperation = shape(
    "ExplainedOperation",
    "An open operation of the explained object.",
    operation=str,
    what=str,
    state=str,
    status=str,
    blocked_by=list[str],
    blockers=(list_of(BlockerShape), "The same reasons as values."),
)

ExplanationShape = shape(
    "ExplanationShape",
    "The state of an object, and every reason why it waits.",
    kind=(
        str,
        (
            "operation, rollout, request, event, visit, problem, campaign, host, vm, scope, tenant, "
            "blackout, brake, check, webhook, token, replica, or place: a rack, cluster, zone or pool."
        ),
    ),
    id=str,
    what=str,
    state=str,
    status=str,
    blocked_by=(
        list[str],
        (
            "The reasons as sentences; those with a remedy come first. Of several "
            "operations, a kind has at most 3 reasons and the number of the others."
        ),
    ),
    blockers=(list_of(BlockerShape), "The same reasons as values."),
    note=str,
    no_driver_call=(
        bool,
        "Whether the operation ended without a driver call, because there was nothing to do.",
    ),
    counts=(
        dict[str, int],
        "Operations of a rollout by state, hosts of a campaign, or messages of a webhook.",
    ),
    operations=(
        list_of(ExplainedOperation),
        "The first open operations that concern the object.",
    ),
    more_operations=(int, "Open operations that are not in `operations`."),
    abilities=(
        list_of(AbilityShape),
        (
            "Of a host or VM: actions that are not possible, or about which the driver "
            "does not know. Of a host with many such VMs, some of them."
        ),
    ),
    upcoming=(
        list_of(UpcomingShape),
        (
            "The announced and planned work on a VM, as its tenant sees it; empty for other "
            "objects."
        ),
    ),
)

SightedShape = shape(
    "SightedShape",
    "The observation of a VM by the driver while the outcome of its operation is unknown.",
    vm=str,
    running=bool,
    host=(str | None, "The host that it was seen on; null: the driver cannot tell."),
    at=(str, "When the driver saw it."),
    text=(str, "The message of the driver."),
)

ProblemEntry = shape(
    "ProblemEntry",
    "One problem.",
    problem=(str, "ID of the problem, which stays the same while the problem lasts."),
    kind=str,
    since=str | None,
    text=str,
    text_shortly=(str, "The same without commands."),
    cause=(
        str,
        (
            "Of a VM or host that is down, for operators: the reason of its failure, or what "
            "the driver said of the call that left it down. Can be empty."
        ),
    ),
    actions=(list[str], "Commands that can end the problem."),
    operation=str | None,
    target=(str | None, "The host or VM that the operation is for."),
    tenants=list[str],
    scopes=list[str],
    vms=list[str],
    hosts=list[str],
    events=list[str],
    webhook=str | None,
    campaign=(str | None, "The name of the campaign."),
    sighted=(
        list_of(SightedShape),
        (
            "Of an unknown outcome: what was seen of its VMs since, for operators. A VM that "
            "is as recorded is not named."
        ),
    ),
)

ProblemPage = shape(
    "ProblemPage",
    "Problems, the worst first.",
    Page,
    problems=list_of(ProblemEntry),
    counts=(dict[str, int], "The number of problems of each kind in all pages."),
)

PreparingShape = shape(
    "PreparingShape",
    "A scope whose agents know its events, and have not approved all of them.",
    scope=str,
    vms=(list[str], "The VMs of these events."),
    since=(str, "When the first of these events was announced."),
    last_poll=(str | None, "Stored rarely, so it can be some minutes old."),
)

WaitShape = shape(
    "WaitShape",
    "Events that wait for the approval of one tenant.",
    tenant=str,
    events=int,
    vms=int,
    hosts=(int, "0 for a tenant."),
    scopes=int,
    scopes_enabled=(int, "Scopes with Scheduled Events enabled."),
    enabled=(bool, "Whether at least one of the scopes can approve."),
    since=str,
    not_before=(str, "NotBefore of the first event."),
    last_poll=str | None,
    preparing=(
        list_of(PreparingShape),
        "At most 20 of the enabled scopes, those announced last first.",
    ),
)

WaitSums = shape(
    "WaitSums",
    "The sums of all waits.",
    tenants=int,
    events=int,
    vms=int,
    hosts=int,
)

HeldShape = shape(
    "HeldShape",
    "Hosts that a window, a blackout or a silent relay holds.",
    kind=(
        str,
        "`window closed` or `deferred` of a scope, `campaign window`, `blackout`, `relay silent`.",
    ),
    scope=str | None,
    campaign=str | None,
    blackout=str | None,
    relay=(str | None, "The host of the relay."),
    tenant=(str | None, "The tenant of the scope."),
    hosts=(int, "Hosts that wait for it, announced or not."),
    until=(
        str | None,
        "The next announcement of the campaign, or the opening of the scope; null: it has no known end.",
    ),
    text=str,
)

WaitPage = shape(
    "WaitPage",
    "Tenants whose approval is missing, the longest wait first.",
    Page,
    held=(
        list_of(HeldShape),
        "Windows, blackouts and silent relays that hold maintenance; empty for a tenant, after the first page, and with other selectors than `scope` and `tenant`.",
    ),
    waits=list_of(WaitShape),
    sums=WaitSums,
    complete=(
        bool,
        "False if there are too many events, or hosts that are held, to sum up.",
    ),
)

_PART = {
    "hosts": int,
    "down": int,
    "in_work": int,
    "cordoned": (int, "Hosts that take no new VM, since they are cordoned."),
    "unlimited": (int, "Hosts without a capacity, which no other sum includes."),
    "places": int,
    "used": int,
    "free": (int, "Free places on hosts that can take a VM now."),
}

ZoneShape = shape("ZoneShape", "The capacity of one zone.", zone=str, **_PART)

ClusterCapacityShape = shape(
    "ClusterCapacityShape", "The capacity of one cluster.", cluster=str, **_PART
)

PoolShape = shape(
    "PoolShape",
    "A resource of a pool whose hosts all have a limit on it.",
    pool=str,
    resource=(str, "`capacity` (places for VMs), `vcpu`, or `memory` in MiB."),
    total=int,
    free=(int, "Free on the hosts that can take a VM now."),
    reserve=(int, "Amount that the setting policy.reserve keeps free."),
)

NextHost = shape(
    "NextHost",
    "The capacity that the next host of a rollout needs.",
    rollout=str,
    operation=str,
    host=str,
    zone=str,
    cluster=(str, "Empty: it is in none."),
    vms=int,
    needs=(int, "Number of VMs that need another host."),
    fits=(bool, "Whether there is a destination for each VM."),
    blockers=list_of(BlockerShape),
)

CapacityPage = shape(
    "CapacityPage",
    "Capacity by zone and by cluster, and the needs of the next hosts.",
    Page,
    zones=list_of(ZoneShape),
    clusters=(
        list_of(ClusterCapacityShape),
        "By name, the first 300 of the selected hosts.",
    ),
    pools=(list_of(PoolShape), "All pools of the selected hosts."),
    next_hosts=list_of(NextHost),
    complete=(bool, "False if not all clusters and pools are named."),
)
