"""Receivers of webhooks: how they do, and a ping to try one. For operators only."""

from collections.abc import Sequence
from typing import Any, Protocol

from fastapi import APIRouter
from starlette.responses import Response

from forewarn.admin import bodies, shapes
from forewarn.admin.answers import answer, documented


class WebhookGateway(Protocol):
    """Who knows the receivers."""

    async def webhooks(self) -> Sequence[dict[str, Any]]:
        """Return how each receiver does."""
        ...

    async def test_webhook(self, name: str) -> dict[str, Any]:
        """Post a ping to a receiver; return what came of it. Raises NotFoundError."""
        ...


def router(gateway: WebhookGateway) -> APIRouter:
    """Return the routes of /v1/webhooks."""
    routes = APIRouter(tags=["webhooks"])

    @routes.get("/webhooks", responses=documented(shapes.WebhookList))
    async def webhooks() -> Response:
        """List the receivers of [[webhook]]: what waits for each, and how it does."""
        return answer({"webhooks": list(await gateway.webhooks())})

    @routes.post(
        "/webhooks/test", responses=documented(shapes.WebhookTestShape, 400, 404)
    )
    async def test_webhook(body: bodies.WebhookTest) -> Response:
        """Post a signed ping to a receiver at once, and tell what it answered."""
        return answer(await gateway.test_webhook(body.name))

    return routes
