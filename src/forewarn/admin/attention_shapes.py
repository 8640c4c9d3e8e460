"""Models of the answers of `attention`, for /openapi.json only."""

from forewarn.admin.shapes import Page, list_of, shape

BlockerShape = shape(
    "BlockerShape",
    "One reason why something waits; what does not apply is null.",
    kind=str,
    text=(str, "The reason as a sentence."),
    remedy=(
        str,
        "Who can end it: operator, tenant, service (it ends when other work ends) or clock.",
    ),
    tenant=str | None,
    scope=str | None,
    event=str | None,
    vm=str | None,
    host=str | None,
    operation=str | None,
    until=(str | None, "When it ends by itself, where that is known."),
)

ExplainedOperation = shape(
    "ExplainedOperation",
    "An open operation of what is explained.",
    operation=str,
    what=str,
    state=str,
    standing=str,
    blocked_by=list[str],
)

ExplanationShape = shape(
    "ExplanationShape",
    "Where something is, and every reason why it waits.",
    kind=(str, "operation, rollout, request, event, host or vm."),
    id=str,
    what=str,
    state=str,
    standing=str,
    blocked_by=(
        list[str],
        "The reasons as sentences; those that somebody can end come first.",
    ),
    blockers=(list_of(BlockerShape), "The same reasons as values."),
    note=str,
    no_driver_call=(
        bool,
        "It was carried out without a driver call: nothing was done.",
    ),
    counts=(
        dict[str, int],
        "Of a rollout: its operations by state; of anything else empty.",
    ),
    operations=(
        list_of(ExplainedOperation),
        "The first open operations that concern it.",
    ),
)

ProblemEntry = shape(
    "ProblemEntry",
    "One thing that needs somebody.",
    problem=(str, "Its id, the same as long as it lasts."),
    kind=str,
    since=str | None,
    text=str,
    actions=(list[str], "Commands that may end it."),
    operation=str | None,
    target=(str | None, "The host or VM that the operation is for."),
    tenants=list[str],
    scopes=list[str],
    vms=list[str],
    hosts=list[str],
    events=list[str],
    webhook=str | None,
)

ProblemPage = shape(
    "ProblemPage",
    "Problems, the worst first.",
    Page,
    problems=list_of(ProblemEntry),
    counts=(dict[str, int], "Of each kind, how many match in all pages."),
)

WaitShape = shape(
    "WaitShape",
    "What waits for one tenant's approval.",
    tenant=str,
    events=int,
    vms=int,
    hosts=(int, "A tenant is told 0."),
    scopes=int,
    scopes_enabled=(int, "Scopes with Scheduled Events enabled."),
    enabled=(bool, "At least one of the scopes can approve."),
    since=str,
    not_before=(str, "When the first starts without approval."),
    last_poll=str | None,
)

WaitSums = shape(
    "WaitSums",
    "How much waits altogether.",
    tenants=int,
    events=int,
    vms=int,
    hosts=int,
)

WaitPage = shape(
    "WaitPage",
    "Tenants whose approval is missing, the longest wait first.",
    Page,
    waits=list_of(WaitShape),
    sums=WaitSums,
    complete=(bool, "False: too many events to sum up all."),
)

ZoneShape = shape(
    "ZoneShape",
    "The places of one zone.",
    zone=str,
    hosts=int,
    down=int,
    in_work=int,
    unlimited=(int, "Hosts without a capacity; in no other sum."),
    places=int,
    used=int,
    free=(int, "Places of hosts that can take a VM now."),
)

NextHost = shape(
    "NextHost",
    "What the next host of a rollout needs.",
    rollout=str,
    operation=str,
    host=str,
    zone=str,
    vms=int,
    needs=(int, "VMs that must find another host."),
    fits=(bool, "There is a destination for each."),
    blockers=list_of(BlockerShape),
)

CapacityPage = shape(
    "CapacityPage",
    "Places by zone, and what is needed next.",
    Page,
    zones=list_of(ZoneShape),
    next_hosts=list_of(NextHost),
    complete=(bool, "False: too many hosts to sum up all."),
)
