"""What each route needs: the gateway, and who asks.

All of it is at hand, and asynchronous only so that the framework does not send each
request through another thread for it.
"""

from typing import Annotated, cast

from fastapi import Depends
from starlette.requests import Request

from forewarn.admin.access import Caller, caller_of, gateway_for
from forewarn.control.gateway import CallerGateway, OperatorGateway
from forewarn.protocol import actors as protocol_actors


async def gateway_of(request: Request) -> CallerGateway:
    """Return the gateway of the application, as who asks may use it."""
    gateway = cast("OperatorGateway", request.app.state.gateway)
    return gateway_for(gateway, caller_of(request))


async def actor_of(request: Request) -> protocol_actors.Actor:
    """Return who sent the request, as the history has them."""
    return caller_of(request).actor


async def asking(request: Request) -> Caller:
    """Return who asks, and what they may do."""
    return caller_of(request)


Desk = Annotated[CallerGateway, Depends(gateway_of)]
Actor = Annotated[protocol_actors.Actor, Depends(actor_of)]
Asking = Annotated[Caller, Depends(asking)]
