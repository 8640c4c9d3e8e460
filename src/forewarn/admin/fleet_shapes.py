"""Models of the responses about the fleet and its files, as in `shapes`."""

from typing import Any

from forewarn.admin.shapes import Page, list_of, shape

FleetPage = shape(
    "FleetPage",
    "A part of the fleet: tenants, then scopes, hosts and VMs, by name.",
    Page,
    tenants=list[dict[str, Any]],
    scopes=list[dict[str, Any]],
    hosts=list[dict[str, Any]],
    vms=list[dict[str, Any]],
)

FleetCount = shape(
    "FleetCount",
    "The numbers of objects in a valid fleet file.",
    tenants=int,
    scopes=int,
    hosts=int,
    vms=int,
)

FieldShape = shape(
    "FieldShape",
    "A field of the fleet file that changes.",
    name=str,
    before=str,
    after=str,
)

ChangeShape = shape(
    "ChangeShape",
    "The change of one object of the fleet.",
    kind=str,
    action=str,
    name=str,
    fields=list_of(FieldShape),
)

PlanShape = shape(
    "PlanShape",
    "The changes of a fleet file.",
    applied=bool,
    is_empty=(bool, "Whether the file changes nothing."),
    lines=(list[str], "The plan as text."),
    changes=list_of(ChangeShape),
)
