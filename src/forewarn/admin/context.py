"""What each route needs: the desk, and who asks."""

from typing import Annotated, cast

from fastapi import Depends
from starlette.requests import Request

from forewarn.admin.access import Caller, caller_of, desk_for
from forewarn.control.desk import OperatorDesk


def desk_of(request: Request) -> OperatorDesk:
    """Return the desk of the application, as who asks may use it."""
    desk = cast("OperatorDesk", request.app.state.desk)
    return desk_for(desk, caller_of(request))


def actor_of(request: Request) -> str:
    """Return who sent the request, as the history calls them."""
    return caller_of(request).name


Desk = Annotated[OperatorDesk, Depends(desk_of)]
Actor = Annotated[str, Depends(actor_of)]
Asking = Annotated[Caller, Depends(caller_of)]
