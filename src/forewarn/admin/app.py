"""The operator API as one application: routes, gate, errors and its page."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from http import HTTPStatus
from importlib import resources
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from forewarn.admin import (
    attention,
    blackouts,
    brake,
    campaign_timeline,
    campaigns,
    choices,
    cluster,
    context,
    credentials,
    error_responses,
    fleet,
    health,
    history,
    hosts,
    lists,
    meters,
    metrics,
    orders,
    overview,
    relay,
    relay_list,
    session,
    upcoming,
    watch,
    webhooks,
    windows,
)
from forewarn.admin import checks as checks_routes
from forewarn.admin.answers import REVALIDATED, FixedResponse, with_schemas
from forewarn.admin.campaign_memories import CampaignMemories
from forewarn.admin.gate import Gate
from forewarn.admin.gateways import CheckGateway, ClusterGateway, WebhookGateway
from forewarn.admin.head import Head, Unread
from forewarn.admin.hubs import Hubs
from forewarn.admin.identity import Identity, IsLocalOperator
from forewarn.admin.leader import Leading
from forewarn.admin.leading import OnlyReads
from forewarn.admin.relay_hub import RelayHub
from forewarn.admin.security import Secured
from forewarn.admin.shared_reads import SharedReads
from forewarn.admin.throttle import Paces, RefusalLog, Throttle
from forewarn.admin.tokens import Tokens
from forewarn.clock import Clock, SystemClock
from forewarn.control.gateway import OperatorGateway

_ABOUT = (
    "Requests of operators and tenants, and their results. Each error is JSON with "
    "`error`, `hint` and `kind`. Durations are `500ms`, `7s`, `15m` or ISO 8601; times are "
    "RFC 3339."
)

_NO_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
"""The service has its own metrics, and reads no variables for telemetry."""


_PARTS = (
    orders,
    hosts,
    brake,
    blackouts,
    lists,
    attention,
    history,
    fleet,
    campaigns,
    campaign_timeline,
    overview,
    windows,
    choices,
    upcoming,
    watch,
    credentials,
    session,
)


class _Described(FastAPI):
    """An application that adds the schemas of responses to /openapi.json."""

    _described: dict[str, Any] | None = None

    def openapi(self) -> dict[str, Any]:
        """Return the description of the API, created once."""
        if self._described is None:
            # Stored when it is complete, so that the next request repeats a failure.
            self._described = with_schemas(super().openapi())
        return self._described


def create_app(
    gateway: OperatorGateway,
    *,
    tokens: Tokens | None,
    version: str,
    title: str = "forewarn operator API",
    collect: meters.Collect | None = None,
    answered: Counter[str] | None = None,
    receivers: WebhookGateway | None = None,
    checks: CheckGateway | None = None,
    replicas: ClusterGateway | None = None,
    relays: RelayHub | None = None,
    extra: Sequence[APIRouter] = (),
    pages: Sequence[BaseRoute] = (),
    watchers: watch.Watchers | None = None,
    clock: Clock | None = None,
    leading: Leading | None = None,
    is_local_operator: IsLocalOperator | None = None,
    is_simulation: bool = False,
) -> FastAPI:
    """Return the application for `gateway`.

    Without `tokens` of a file it answers only to loopback names, and must listen only
    there. Then a caller without a token is the operator. Tokens of the store are valid
    in both cases. `/metrics` calls `collect`, `answered` counts the responses by
    status. `receivers`, `checks`, `replicas` and `relays` answer `/v1/webhooks`, `/v1/checks`,
    `/v1/cluster` and `/v1/relay`. Routes of `extra` are below `/v1`, for operators only.
    `pages` need no token. `watchers` counts the open streams. `clock` limits tenants.
    `leading` says if another replica decides. `is_local_operator`: at a Unix socket.
    """
    app = _described(title, version)
    app.state.gateway = gateway
    app.state.watchers = watchers or watch.Watchers()
    app.state.shared_reads = SharedReads()
    app.state.campaign_memories = CampaignMemories()
    app.state.receivers, app.state.replicas = receivers, replicas
    app.state.checks = checks
    app.state.leading = leading
    app.state.features = _present(
        webhooks=receivers,
        checks=checks,
        cluster=replicas,
        relays=relays,
        simulator=is_simulation or None,
    )
    app.state.names_in_file = tokens.names if tokens else frozenset()
    monotonic = (clock or SystemClock()).monotonic
    refused = RefusalLog(monotonic)
    error_responses.install(app, refused)
    if leading is not None:
        app.add_middleware(OnlyReads, leading=leading)
    throttle = Throttle(monotonic)
    app.state.identity = Identity(
        tokens, throttle=throttle, is_local_operator=is_local_operator
    )
    around = partial(attention.surroundings, receivers, replicas)
    is_good_here = app.state.identity.is_good_here
    app.state.hubs = Hubs(lambda: app.state.gateway, around, is_good_here)
    _guard(app, monotonic, refused, answered, relays)
    for router in _routers(receivers, checks, replicas, relays):
        app.router.routes.extend(router.routes)
    for extra_router in extra:
        admitted = [Depends(context.admit_operators), context.BEARER]
        app.include_router(extra_router, prefix="/v1", dependencies=admitted)
    app.include_router(health.router)
    if collect is not None:
        admitted = [Depends(context.admit), context.BEARER]
        app.include_router(metrics.router(collect), dependencies=admitted)
    app.router.routes.extend((*_Fixed(app).routes(), *pages))
    return app


def _described(title: str, version: str) -> FastAPI:
    return _Described(
        title=title,
        version=version,
        description=_ABOUT,
        # `_Fixed` has this route.
        openapi_url=None,
        # The framework's pages load scripts from other servers.
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=context.name_of,
        # A path with an additional slash is not found. A redirect would have to be
        # described in /openapi.json.
        redirect_slashes=False,
        telemetry=_NO_TELEMETRY,
    )


def _present(**parts: object) -> Sequence[str]:
    """Return the names of the optional parts that the service has."""
    return [name for name, part in parts.items() if part is not None]


def _routers(
    receivers: WebhookGateway | None,
    checks: CheckGateway | None,
    replicas: ClusterGateway | None,
    relays: RelayHub | None,
) -> Iterator[APIRouter]:
    """Yield the routers below /v1, without those of other programs."""
    if relays is not None:
        yield relay.router(relays)
        yield relay_list.router(relays)
    yield from (part.router for part in _PARTS)
    if receivers is not None:
        yield webhooks.router(receivers)
    if checks is not None:
        yield checks_routes.router(checks)
    if replicas is not None:
        yield cluster.router(replicas)


def _guard(
    app: FastAPI,
    monotonic: Callable[[], float],
    refused: RefusalLog,
    answered: Counter[str] | None,
    relays: RelayHub | None,
) -> None:
    """Add the middleware; the last one that is added runs first."""
    app.add_middleware(Head, paces=Paces(monotonic), refused=refused)

    def relay_refused() -> None:
        if relays is not None:
            relays.refused += 1

    app.add_middleware(
        Gate,
        identity=app.state.identity,
        refused=refused,
        relay_refused=relay_refused,
    )
    app.add_middleware(error_responses.LastResort)
    app.add_middleware(Unread)
    app.add_middleware(Secured)
    if answered is not None:
        app.add_middleware(metrics.Responses, counts=answered)


class _Fixed:
    """The responses that are the same for everybody, each created on first use."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def routes(self) -> Sequence[BaseRoute]:
        """Return the routes of the page, its files and the description."""
        return [
            Route("/", self.page),
            Route("/docs", self.page),
            Route("/docs/{name}", self.file),
            Route("/openapi.json", self.description),
        ]

    async def page(self, request: Request) -> Response:
        """Return the page that explains this API, from /openapi.json."""
        return self._page.to(request.scope)

    async def file(self, request: Request) -> Response:
        """Return a file of that page."""
        asset = self._files.get(request.url.path)
        if asset is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return asset.to(request.scope)

    async def description(self, request: Request) -> Response:
        """Return /openapi.json."""
        return self._description.to(request.scope)

    @cached_property
    def _page(self) -> FixedResponse:
        return _fixed("page.html", "text/html")

    @cached_property
    def _files(self) -> dict[str, FixedResponse]:
        kinds = {"css": "text/css", "js": "text/javascript"}
        return {
            f"/docs/page.{suffix}": _fixed(f"page.{suffix}", kind)
            for suffix, kind in kinds.items()
        }

    @cached_property
    def _description(self) -> FixedResponse:
        return FixedResponse(JSONResponse(self._app.openapi(), headers=REVALIDATED))


def _fixed(name: str, kind: str) -> FixedResponse:
    """Return a file of this package as a response."""
    content = resources.files(__package__ or "").joinpath(name).read_bytes()
    return FixedResponse(Response(content, headers=REVALIDATED, media_type=kind))
