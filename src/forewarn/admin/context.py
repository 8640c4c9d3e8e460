"""Dependencies of each route: its admission, the gateway and the caller.

The dependencies are asynchronous so that the framework does not use another thread for
each request.
"""

from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.requests import Request

from forewarn.admin.access import (
    CALLER,
    DEMANDS,
    Caller,
    Demand,
    check,
    check_program,
)
from forewarn.admin.gateways import gateway_for
from forewarn.control.gateway import CallerGateway, OperatorGateway
from forewarn.protocol import actors as protocol_actors


def caller_of(request: Request) -> Caller:
    """Return the sender of the request, as the gate identified it."""
    return cast("Caller", request.scope[CALLER])


async def admit(request: Request) -> None:
    """Admit requests to the routes that have an entry in `DEMANDS`.

    `head.Head` checks the same from the path. This checks the matched route, however
    its path is written. A route without an entry in the table is only for operators
    with all roles.
    """
    path = str(getattr(request.scope.get("route"), "path", ""))
    route = f"{request.method} {path}"
    check(caller_of(request), DEMANDS.get(route, Demand.OPERATOR_ADMINISTERS))
    check_program(request.scope, route)


async def admit_operators(request: Request) -> None:
    """Admit operators to routes that are not in `DEMANDS`.

    A GET needs only the role to view.
    """
    reads = request.method == "GET"
    demand = Demand.OPERATOR_READS if reads else Demand.OPERATOR_RUNS
    check(caller_of(request), demand)


BEARER = Depends(HTTPBearer(auto_error=False))
"""Describes the token in /openapi.json; the gate has checked it already."""


def name_of(route: APIRoute) -> str:
    """Return the name of a route in /openapi.json."""
    return route.name


def v1_router(*, prefix: str = "", **more: Any) -> APIRouter:
    """Return a router for admitted requests to routes below `/v1`.

    Its routes are complete, so that an application takes them as they are. To include a
    router in another one, the framework would analyse each route a second time, which
    takes a third of the start of the API's process.
    """
    return APIRouter(
        prefix=f"/v1{prefix}",
        dependencies=[Depends(admit), BEARER],
        generate_unique_id_function=name_of,
        **more,
    )


async def gateway_of(request: Request) -> CallerGateway:
    """Return the gateway of the application, with the rights of the caller."""
    gateway = cast("OperatorGateway", request.app.state.gateway)
    return gateway_for(gateway, caller_of(request), is_gone=request.is_disconnected)


async def service_gateway(request: Request) -> OperatorGateway:
    """Return the gateway of the application, with the rights of the service.

    The answer does not depend on the caller, whose rights must be checked before.
    """
    return cast("OperatorGateway", request.app.state.gateway)


async def actor_of(request: Request) -> protocol_actors.Actor:
    """Return the caller as an actor in the history."""
    return caller_of(request).actor


RouteGateway = Annotated[CallerGateway, Depends(gateway_of)]
Service = Annotated[OperatorGateway, Depends(service_gateway)]
Actor = Annotated[protocol_actors.Actor, Depends(actor_of)]
