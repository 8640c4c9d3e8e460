"""The blackouts of the service: when no planned work begins."""

from starlette.responses import Response

from forewarn.admin.answers import answer, documented
from forewarn.admin.blackout_shapes import WideBlackoutsShape
from forewarn.admin.context import RouteGateway, v1_router
from forewarn.reporting.wide_blackouts import wide_blackouts_report

router = v1_router(tags=["blackouts"])


@router.get("/blackouts", responses=documented(WideBlackoutsShape))
async def list_blackouts(gateway: RouteGateway) -> Response:
    """List the blackouts of the service, with the current or next time of each."""
    now = gateway.now()
    return answer(
        await gateway.read(lambda reader: wide_blackouts_report(reader, now=now))
    )
