"""Dependencies of each route: its admission, the gateway and the caller.

The dependencies are asynchronous so that the framework does not use another thread for
each request.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, cast

from fastapi import Depends
from starlette.requests import Request

from forewarn.admin.access import (
    CALLER,
    DEMANDS,
    Caller,
    Demand,
    check,
)
from forewarn.admin.gateways import gateway_for
from forewarn.control.gateway import CallerGateway, OperatorGateway
from forewarn.protocol import actors as protocol_actors


def caller_of(request: Request) -> Caller:
    """Return the sender of the request, as the gate identified it."""
    return cast("Caller", request.scope[CALLER])


def admission(prefix: str) -> Callable[[Request], Awaitable[None]]:
    """Return the dependency that admits requests to the routes of a router.

    `head.Head` checks the same from the path. This checks the matched route, however
    its path is written. A route without an entry in the table is only for operators
    with all roles. `prefix` is the router's prefix, which its routes do not contain.
    """

    async def admit(request: Request) -> None:
        path = prefix + str(getattr(request.scope.get("route"), "path", ""))
        demand = DEMANDS.get(f"{request.method} {path}", Demand.OPERATOR_ADMINISTERS)
        check(caller_of(request), demand)

    return admit


async def admit_operators(request: Request) -> None:
    """Admit operators to routes that are not in `DEMANDS`.

    A GET needs only the role to view.
    """
    reads = request.method == "GET"
    demand = Demand.OPERATOR_READS if reads else Demand.OPERATOR_RUNS
    check(caller_of(request), demand)


async def gateway_of(request: Request) -> CallerGateway:
    """Return the gateway of the application, with the rights of the caller."""
    gateway = cast("OperatorGateway", request.app.state.gateway)
    return gateway_for(gateway, caller_of(request), is_gone=request.is_disconnected)


async def actor_of(request: Request) -> protocol_actors.Actor:
    """Return the caller as an actor in the history."""
    return caller_of(request).actor


Desk = Annotated[CallerGateway, Depends(gateway_of)]
Actor = Annotated[protocol_actors.Actor, Depends(actor_of)]
