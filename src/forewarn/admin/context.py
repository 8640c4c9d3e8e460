"""What each route needs: the desk, and who asks."""

from typing import Annotated, cast

from fastapi import Depends
from starlette.requests import Request

from forewarn.admin.gate import ACTOR
from forewarn.control.desk import OperatorDesk


def desk_of(request: Request) -> OperatorDesk:
    """Return the desk that the application was made with."""
    return cast("OperatorDesk", request.app.state.desk)


def actor_of(request: Request) -> str:
    """Return who sent the request, as the gate found out."""
    return cast("str", request.scope[ACTOR])


Desk = Annotated[OperatorDesk, Depends(desk_of)]
Actor = Annotated[str, Depends(actor_of)]
