"""The brake: whether routine work may begin."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from forewarn.admin import bodies
from forewarn.admin.answers import answer, documented
from forewarn.admin.context import Desk
from forewarn.admin.orders import Giving
from forewarn.admin.shapes import shape
from forewarn.reporting import reports

router = APIRouter(tags=["brake"])

BrakeShape = shape(
    "BrakeShape",
    "The brake, which stops routine work.",
    on=bool,
    by=(str | None, "The operator who put it on; null if it is off."),
    reason=(str | None, "null if it is off."),
    since=(str | None, "RFC 3339; null if it is off."),
)


@router.get("/brake", responses=documented(BrakeShape))
async def show_brake(gateway: Desk) -> Response:
    """Show whether the brake is on, who put it on, and why."""
    return answer(await gateway.read(reports.brake_report))


@router.post("/brake", responses=documented(BrakeShape, 400, 409))
async def set_brake(body: bodies.BrakeOrder, giver: Giving) -> Response:
    """Put the brake on or take it off.

    While it is on, no routine work is announced or started.
    """
    await giver.give("brake", body)
    report: dict[str, Any] = await giver.gateway.read(reports.brake_report)
    return giver.answer(report)
