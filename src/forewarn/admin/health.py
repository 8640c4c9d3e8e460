"""Whether the service lives and may take orders; open to everybody."""

from fastapi import APIRouter
from starlette.responses import Response

from forewarn.admin import shapes
from forewarn.admin.access import Caller
from forewarn.admin.answers import answer
from forewarn.admin.context import Asking, Desk
from forewarn.control.gateway import Health

router = APIRouter(tags=["health"])

_RESPONSES: dict[int | str, dict[str, object]] = {
    200: {"model": shapes.HealthShape},
    503: {"model": shapes.HealthShape, "description": "It is not; see `problems`."},
}


@router.get("/healthz", responses=_RESPONSES)
async def healthz(gateway: Desk, caller: Asking) -> Response:
    """Tell whether the service is alive; 503: it should be restarted."""
    health = await gateway.health()
    return _told(health, caller, good=health.alive)


@router.get("/readyz", responses=_RESPONSES)
async def readyz(gateway: Desk, caller: Asking) -> Response:
    """Tell whether the service may take orders."""
    health = await gateway.health()
    return _told(health, caller, good=health.ready)


def _told(health: Health, caller: Caller, *, good: bool) -> Response:
    # A problem may name VMs, so strangers and tenants learn only that there is one.
    problems = list(health.problems)
    if problems and not caller.is_operator:
        problems = ["an operator's token is needed to read what is wrong"]
    return answer(
        {
            "alive": health.alive,
            "ready": health.ready,
            "problems": problems,
        },
        status=200 if good else 503,
    )
