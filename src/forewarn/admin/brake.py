"""The brake: whether planned work may begin."""

from typing import Any

from starlette.responses import Response

from forewarn.admin import bodies
from forewarn.admin.answers import answer, documented
from forewarn.admin.context import RouteGateway, v1_router
from forewarn.admin.orders import Giving
from forewarn.admin.shapes import shape
from forewarn.reporting import reports

router = v1_router(tags=["brake"])

LossesShape = shape(
    "LossesShape",
    "The hosts or VMs that were lost together, for which the brake came on by itself.",
    what=(str, "`hosts`, `vms`, or `rack` for the hosts of one rack."),
    rack=(str | None, "The rack."),
    count=(int, "How many were lost when the brake came on."),
    most=(int, "The limit in `[brake]`: how many may be lost."),
    within=(str, "The span in which they were lost."),
    named=(list[str], "The names of some of them."),
)

BrakeShape = shape(
    "BrakeShape",
    "The brake, which stops planned work.",
    on=bool,
    by=(
        str | None,
        "The operator who put it on; `brake` if it came on by itself; null if it is off.",
    ),
    reason=(str | None, "null if it is off, or came on by itself."),
    since=(str | None, "RFC 3339; null if it is off."),
    text=(str | None, "Why it is on, as a sentence; null if it is off."),
    withdraws=(bool, "Whether announced planned work is withdrawn, instead of held."),
    losses=(LossesShape | None, "null if no losses exceeded a limit."),
    ends=(
        str | None,
        "RFC 3339: when it ends, unless more is lost; null: an operator takes it off.",
    ),
)


@router.get("/brake", responses=documented(BrakeShape))
async def show_brake(gateway: RouteGateway) -> Response:
    """Show whether the brake is on, who put it on, and why."""
    return answer(await gateway.read(reports.brake_report))


@router.post("/brake", responses=documented(BrakeShape, 400, 409))
async def set_brake(body: bodies.BrakeOrder, giver: Giving) -> Response:
    """Put the brake on or take it off.

    While it is on, no planned work is announced or started. With `withdraw`, announced
    planned work is withdrawn, instead of held.
    """
    await giver.give("brake", body)
    report: dict[str, Any] = await giver.gateway.read(reports.brake_report)
    return giver.answer(report)
