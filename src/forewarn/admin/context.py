"""What each route needs: the desk, and who asks.

All of it is at hand, and asynchronous only so that the framework does not send each
request through another thread for it.
"""

from typing import Annotated, cast

from fastapi import Depends
from starlette.requests import Request

from forewarn.admin.access import Caller, caller_of, desk_for
from forewarn.control.desk import OperatorDesk
from forewarn.protocol import actors as protocol_actors


async def desk_of(request: Request) -> OperatorDesk:
    """Return the desk of the application, as who asks may use it."""
    desk = cast("OperatorDesk", request.app.state.desk)
    return desk_for(desk, caller_of(request))


async def actor_of(request: Request) -> protocol_actors.Actor:
    """Return who sent the request, as the history has them."""
    return caller_of(request).actor


async def asking(request: Request) -> Caller:
    """Return who asks, and what they may do."""
    return caller_of(request)


Desk = Annotated[OperatorDesk, Depends(desk_of)]
Actor = Annotated[protocol_actors.Actor, Depends(actor_of)]
Asking = Annotated[Caller, Depends(asking)]
