"""`Idempotency-Key`: a request that is sent again is executed once.

A client that got no response does not know whether its request was executed. With a key
it sends the same request again, and gets the result of the first one.
"""

import hashlib
from typing import Annotated, Any

from fastapi import Depends, Header
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse

from forewarn.admin import limits
from forewarn.admin.access import Caller, caller_of, gateway_for
from forewarn.admin.answers import answer
from forewarn.admin.decisions import Decision
from forewarn.control.gateway import CallerGateway
from forewarn.control.requests.idempotency import Once, Result
from forewarn.control.transactions.work import Who

REPEATED_HEADER = "Idempotent-Replayed"
"""Header that marks the result of an earlier request with the same key."""

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=limits.KEY_CHARACTERS_MAX,
        pattern="^[!-~]+$",
        description="A new text for each request, such as a UUID. A request that is "
        "sent again with its key within 24 hours is executed once, and gets the "
        "first result.",
    ),
]


class Giver:
    """A caller that sends one request."""

    def __init__(
        self, gateway: CallerGateway, *, caller: Caller, path: str, key: str | None
    ) -> None:
        """Send requests to `gateway` on behalf of `caller`, once for each `key`."""
        self.gateway = gateway
        self.caller = caller
        self._path = path
        self._key = key
        self._is_repeated = False

    def who(self, reason: str) -> Who:
        """Return the actor and the reason of the request."""
        return Who(actor=self.caller.actor, reason=reason)

    def once(self, said: str) -> Once | None:
        """Return the key with the digest of the request; None without a key."""
        if self._key is None:
            return None
        return Once(
            caller=self.caller.token_id or self.caller.name,
            key=self._key,
            digest=hashlib.sha256(f"{self._path}\n{said}".encode()).hexdigest(),
        )

    async def give(self, name: str, body: BaseModel, **made: str) -> Any:
        """Execute the request `name` of `DECISIONS`, and return its JSON value.

        For a repeated request it is the value of the first one.
        """
        order = Decision(
            name=name,
            body=body,
            caller=self.caller,
            once=self.once(body.model_dump_json()),
            made=made,
        )
        return self.taken(await self.gateway.order(order.who, order))

    def taken(self, result: Result) -> Any:
        """Return the value of a result, and remember whether it is a repetition."""
        self._is_repeated = result.is_repeated
        return result.value

    @property
    def is_repeated(self) -> bool:
        """Return whether an earlier request with this key was executed."""
        return self._is_repeated

    def answer(self, content: Any, *, status: int = 200) -> JSONResponse:
        """Return a JSON response, marked if the request was a repetition."""
        made = answer(content, status=status)
        if self._is_repeated:
            made.headers[REPEATED_HEADER] = "true"
        return made


async def giver_of(request: Request, key: Key = None) -> Giver:
    """Return the sender of a request."""
    caller = caller_of(request)
    return Giver(
        gateway_for(request.app.state.gateway, caller),
        caller=caller,
        path=request.url.path,
        key=key,
    )


Giving = Annotated[Giver, Depends(giver_of)]
