"""Dependencies of each route: the gateway and the caller.

The functions are asynchronous so that the framework does not use another thread for
each request.
"""

from typing import Annotated, cast

from fastapi import Depends
from starlette.requests import Request

from forewarn.admin.access import caller_of, gateway_for
from forewarn.control.gateway import CallerGateway, OperatorGateway
from forewarn.protocol import actors as protocol_actors


async def gateway_of(request: Request) -> CallerGateway:
    """Return the gateway of the application, with the rights of the caller."""
    gateway = cast("OperatorGateway", request.app.state.gateway)
    return gateway_for(gateway, caller_of(request))


async def actor_of(request: Request) -> protocol_actors.Actor:
    """Return the caller as an actor in the history."""
    return caller_of(request).actor


Desk = Annotated[CallerGateway, Depends(gateway_of)]
Actor = Annotated[protocol_actors.Actor, Depends(actor_of)]
