"""Models of the responses about the choices and the coming work of tenants, as in `shapes`."""

from forewarn.admin.shapes import REFUSED, RefusedShape, list_of, shape

ChoiceShape = shape(
    "ChoiceShape",
    "The choice of a tenant about the maintenance of a scope, or one VM of it.",
    choice=str,
    scope=str,
    vm=(str | None, "null: all VMs of the scope."),
    tenant=str,
    until=(str | None, "Maintenance does not start before; null: it is expedited."),
    expedited=bool,
    over=(bool, "Whether its time has passed, or it was ended with `clear`."),
    deferrals=(int, "Number of times that it was deferred."),
    by=str,
    reason=str,
    at=(str, "RFC 3339."),
    rollout=(str | None, "null for a tenant."),
)

ChoicesPage = shape(
    "ChoicesPage",
    "The choices about open rollouts.",
    deferrals=list_of(ChoiceShape),
    next=(str | None, "Where the next page begins; null on the last one."),
)

ChosenShape = shape(
    "ChosenShape",
    "The new choices.",
    deferrals=list_of(ChoiceShape),
    refused=(list_of(RefusedShape), REFUSED),
)

UpcomingShape = shape(
    "UpcomingShape",
    "Coming work on one VM.",
    work=(str, "Names this work on the VM, before and after its announcement."),
    vm=str,
    scope=str,
    impact=(str, "The effect on the VM, such as `reboot`."),
    state=(str, "`Planned`: not announced. `Announced` or `Ready`: it has an event."),
    operation=(str | None, "null: it is not announced."),
    description=(str, "The text of the operator for tenants, as in its events."),
    held=(
        bool,
        "Whether the platform holds it for now, so that no latest time is known.",
    ),
    earliest=(
        str | None,
        (
            "The work does not begin before, unless approvals start it; null: unknown. If the "
            "time has passed, it can begin at any time, after its notice."
        ),
    ),
    latest=(
        str | None,
        "End of the UTC day by which it is expected to begin, an estimate; null: unknown.",
    ),
    why_unknown=(str | None, "Why `latest` is unknown; null: it is known."),
)

UpcomingPage = shape(
    "UpcomingPage",
    "The coming work on some VMs of a tenant.",
    upcoming=list_of(UpcomingShape),
    next=(str | None, "Where the next page begins; null on the last one."),
)
