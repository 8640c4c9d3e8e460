"""The shapes of answers about hosts."""

from forewarn.admin.shapes import REFUSED, RefusedShape, list_of, shape

CordonShape = shape(
    "CordonShape",
    "A demand that a host takes no new VM.",
    by=(str, "The name of its owner."),
    reason=str,
    since=(str, "RFC 3339."),
)

HostShape = shape(
    "HostShape",
    "A host.",
    name=str,
    zone=str,
    cluster=str,
    rack=str,
    pool=str,
    capacity=(int | None, "Maximum number of VMs; null: no limit."),
    vcpu=(int | None, "null: no limit."),
    memory=(int | None, "MiB; null: no limit."),
    labels=dict[str, str],
    last=bool,
    state=(str, "up or down."),
    failed=(
        bool,
        "Whether its work failed, and it waits for an operator: a visit or a campaign says so.",
    ),
    cordons=(list_of(CordonShape), "Empty if the host takes new VMs."),
    vms=list[str],
    keeps_places_for=(list[str], "VMs that are moving to it."),
)

HostsShape = shape(
    "HostsShape",
    "The changed hosts.",
    hosts=list_of(HostShape),
    refused=(list_of(RefusedShape), REFUSED),
)
