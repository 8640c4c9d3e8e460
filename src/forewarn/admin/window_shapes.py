"""Models of the responses about maintenance windows, as in `shapes`."""

from forewarn.admin.campaign_shapes import OpeningShape
from forewarn.admin.shapes import REFUSED, RefusedShape, list_of, shape

WindowsShape = shape(
    "WindowsShape",
    "The maintenance windows of a scope.",
    scope=str,
    tenant=str,
    windows=(
        list[str],
        "Days, start, length and time zone of each; empty: at any time.",
    ),
    openings=(list_of(OpeningShape), "The next openings; empty without windows."),
)

WindowsPage = shape(
    "WindowsPage",
    "The windows of several scopes.",
    windows=list_of(WindowsShape),
    next=(str | None, "Where the next page begins; null on the last one."),
)

ScopesShape = shape(
    "ScopesShape",
    "The changed scopes.",
    scopes=list_of(WindowsShape),
    refused=(list_of(RefusedShape), REFUSED),
)
