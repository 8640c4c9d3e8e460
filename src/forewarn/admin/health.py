"""Liveness and readiness of the service, without authentication."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from forewarn.admin import shapes
from forewarn.admin.answers import answer, content_of
from forewarn.admin.context import RouteGateway, caller_of
from forewarn.control.gateway import Health

router = APIRouter(tags=["health"])

_RESPONSES: dict[int | str, dict[str, object]] = {
    200: content_of(shapes.HealthShape),
    503: {
        **content_of(shapes.HealthShape),
        "description": "The service is not well; see `problems`.",
    },
}


@router.get("/healthz", responses=_RESPONSES)
async def healthz(gateway: RouteGateway, request: Request) -> Response:
    """Report whether the service is alive; with 503 it should be restarted."""
    health = await gateway.health()
    return _told(health, request, good=health.alive)


@router.get("/readyz", responses=_RESPONSES)
async def readyz(gateway: RouteGateway, request: Request) -> Response:
    """Report whether the service accepts requests."""
    health = await gateway.health()
    return _told(health, request, good=health.ready)


def _told(health: Health, request: Request, *, good: bool) -> Response:
    # A problem can name VMs, so only operators get its text.
    problems = list(health.problems)
    if problems and not caller_of(request).is_operator:
        problems = ["the reason is visible with an operator token only"]
    return answer(
        {
            "alive": health.alive,
            "ready": health.ready,
            "role": health.role,
            "problems": problems,
        },
        status=200 if good else 503,
    )
