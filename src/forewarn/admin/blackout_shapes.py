"""Models of the responses about blackouts of the service, as in `shapes`."""

from forewarn.admin.shapes import list_of, shape

WideBlackoutShape = shape(
    "WideBlackoutShape",
    "A blackout of the service, with its current or next time.",
    name=str,
    line=(str, "The blackout as a line."),
    begins=(str | None, "RFC 3339; null: it has ended."),
    ends=str | None,
    in_force=(bool, "Whether it is now."),
    where=(list[str], "The places of its hosts; empty: the whole fleet."),
    by=(str, "The actor that set it last."),
    reason=str,
    since=(str, "RFC 3339: when it was set last."),
)

WideBlackoutsShape = shape(
    "WideBlackoutsShape",
    "All blackouts of the service, by name.",
    blackouts=list_of(WideBlackoutShape),
)
