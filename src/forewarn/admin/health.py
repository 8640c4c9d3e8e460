"""Whether the service lives and may take orders; open to everybody."""

from fastapi import APIRouter
from starlette.responses import Response

from forewarn.admin import shapes
from forewarn.admin.answers import answer
from forewarn.admin.context import Desk
from forewarn.control.desk import Health

router = APIRouter(tags=["health"])

_RESPONSES: dict[int | str, dict[str, object]] = {
    200: {"model": shapes.HealthShape},
    503: {"model": shapes.HealthShape, "description": "It is not; see `problems`."},
}


@router.get("/healthz", responses=_RESPONSES)
async def healthz(desk: Desk) -> Response:
    """Tell whether the service is alive; 503: it should be restarted."""
    health = desk.health()
    return _told(health, good=health.alive)


@router.get("/readyz", responses=_RESPONSES)
async def readyz(desk: Desk) -> Response:
    """Tell whether the service may take orders."""
    health = desk.health()
    return _told(health, good=health.ready)


def _told(health: Health, *, good: bool) -> Response:
    return answer(
        {
            "alive": health.alive,
            "ready": health.ready,
            "problems": list(health.problems),
        },
        status=200 if good else 503,
    )
