"""Receivers of webhooks and their state, and a ping to test one. For operators only."""

from fastapi import APIRouter
from starlette.responses import Response

from forewarn.admin import bodies, shapes
from forewarn.admin.answers import answer, documented
from forewarn.admin.context import v1_router
from forewarn.admin.gateways import WebhookGateway


def router(gateway: WebhookGateway) -> APIRouter:
    """Return the routes of /v1/webhooks."""
    routes = v1_router(tags=["webhooks"])

    @routes.get("/webhooks", responses=documented(shapes.WebhookList))
    async def webhooks() -> Response:
        """List the receivers of [[webhook]] with their state and pending messages."""
        return answer({"webhooks": list(await gateway.webhooks())})

    @routes.post(
        "/webhooks/test", responses=documented(shapes.WebhookTestShape, 400, 404)
    )
    async def test_webhook(body: bodies.WebhookTest) -> Response:
        """Post a signed ping to a receiver at once, and return its response."""
        return answer(await gateway.test_webhook(body.name))

    return routes
