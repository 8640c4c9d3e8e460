"""Models of the responses about the past, as in `shapes`."""

from forewarn.admin.shapes import Page, list_of, shape

EntryShape = shape(
    "EntryShape",
    "An entry of the history.",
    id=str,
    at=str,
    actor=str,
    actor_kind=(
        str,
        "operator, tenant, vm, clock, driver, service, policy, or platform (hidden).",
    ),
    token=(
        str | None,
        "ID of the caller's token; null without a token, or for one of the file.",
    ),
    peer=(str | None, "Address that the request came from."),
    kind=(str, "The kind of the entry, such as event-approved."),
    about=(
        str,
        "event, host, operation, scope, token, visit, vm or order; empty: another object.",
    ),
    what=(str, "The kind as text."),
    what_shortly=(str, "The text without what the entry is about."),
    failure=(bool, "Whether something failed or stopped, or has an unknown outcome."),
    why=str,
    detail=str,
    subjects=list[str],
    visit=(
        str | None,
        "The visit whose steps decide how the host ends; null: the operation decides.",
    ),
    main=(bool, "Whether it is a main change; the others explain these."),
)

ApprovalShape = shape(
    "ApprovalShape",
    "The approval of one scope's event of an operation.",
    EventId=str,
    scope=str,
    tenant=str,
    status=str,
    needs_approval=(bool, "False: it reports a failure."),
    approved_by=str | None,
    approved=str | None,
    started=str | None,
    removed=str | None,
    outcome=str | None,
)

PhaseShape = shape(
    "PhaseShape",
    "A step of an operation.",
    phase=(str, "scheduled, approved, ready, held, started, driver done, ..."),
    at=str,
    by=str,
    detail=str,
    scope=(str | None, "The scope of an approval."),
)

DownShape = shape(
    "DownShape",
    "A period in which a VM did not run.",
    kind=str,
    began=str,
    ended=str | None,
)

VmAccountShape = shape(
    "VmAccountShape",
    "The planned and the actual downtime of a VM.",
    vm=str,
    approved_by=(
        str | None,
        "The actor that approved the VM's event; null if not approved.",
    ),
    planned_seconds=(int | None, "The announced duration; null if unknown."),
    down_seconds=(float, "The actual downtime."),
    at_most=(
        bool,
        "Whether the downtime was not measured, so that this is an upper bound.",
    ),
    down=list_of(DownShape),
)

AccountShape = shape(
    "AccountShape",
    "The account of an operation.",
    operation=str,
    what=str,
    kind=str,
    impact=str,
    target=str,
    target_kind=str,
    host=str,
    state=str,
    outcome=(str | None, "completed, cancelled or failed."),
    note=str,
    no_driver_call=(
        bool,
        "Whether the operation ended without a driver call, because it had no VMs.",
    ),
    actor=str | None,
    reason=str,
    description=str,
    not_before=str,
    created=str,
    started=str | None,
    impact_ended=str | None,
    ended=str | None,
    approvals=list_of(ApprovalShape),
    phases=list_of(PhaseShape),
    vm_count=(int, "The number of VMs; of a Planned operation, those on its host now."),
    vms=list_of(VmAccountShape),
)

AvailabilityShape = shape(
    "AvailabilityShape",
    "The availability in a period.",
    percent=(
        float | None,
        "Uptime as a share of the known time, rounded down; null without known time.",
    ),
    existed_seconds=(float, "Known time in the fleet."),
    unknown_seconds=(float, "Time in the fleet before the records."),
    down_seconds=float,
    planned_seconds=float,
    unplanned_seconds=float,
    by_kind=dict[str, float],
    at_most_seconds=(
        float,
        "Part of the downtime: migrations with an unmeasured pause.",
    ),
    interruptions=int,
    longest_seconds=float,
    down_now=(int, "VMs that are down when the period ends."),
)

VmAvailabilityShape = shape(
    "VmAvailabilityShape",
    "The availability of one VM in a period.",
    AvailabilityShape,
    vm=str,
    scope=str,
    tenant=str,
)

TotalShape = shape(
    "TotalShape",
    "The availability of the VMs of a page in a period.",
    AvailabilityShape,
    vms=int,
)

HistoryPage = shape(
    "HistoryPage",
    "Entries of the history, the oldest first.",
    Page,
    entries=list_of(EntryShape),
    searched_to=(
        str | None,
        "Time of the last entry that was searched; null: all of them were.",
    ),
)

AccountPage = shape(
    "AccountPage",
    "Operations, in order of their IDs.",
    Page,
    operations=list_of(AccountShape),
)

HoldShape = shape(
    "HoldShape",
    "A hold of maintenance: the brake, a blackout or a window.",
    kind=(str, "`brake`, `blackout` or `window`."),
    name=(str, "Name of the blackout or of the scope; empty for the brake."),
    begins=(str | None, "Begin of the brake, blackout or opening."),
    ends=(str | None, "Its end; null: unknown."),
    message=str,
)

AvailabilityPage = shape(
    "AvailabilityPage",
    "VMs by name, and their total.",
    Page,
    since=str,
    until=str,
    vms=list_of(VmAvailabilityShape),
    total=TotalShape,
    holds=list_of(HoldShape),
    several_domains_down_seconds=(
        float | None,
        "How long several fault domains of the scope were down at once; null without the filter `scope`, with `vm`, `host`, `zone` or `tag`, and after the first page.",
    ),
)
