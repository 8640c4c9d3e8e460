"""Requests to a simulation with an `Idempotency-Key`: each is carried out once.

A simulation ends with its process, so its keys are in memory. A refused request changed
nothing and stores no key.
"""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from forewarn.admin.orders import REPEATED_HEADER
from forewarn.control.requests.idempotency import KeyReusedError

KEYS_MAX = 1_000
"""Maximum keys whose responses are remembered, the latest: some kilobytes each. A caller
repeats a request within a minute."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Responses:
    """The responses to the latest requests with a key."""

    def __init__(self) -> None:
        """Remember none yet."""
        self._known: dict[bytes, tuple[bytes, asyncio.Task[Response]]] = {}

    async def respond(self, key: str, request: Request, handler: Handler) -> Response:
        """Return the response of `handler`, or of the first request with this key.

        Raises KeyReusedError if the key belongs to another request, and the errors of
        `handler`.
        """
        key_id = hashlib.sha256(key.encode()).digest()
        text = f"{request.method} {request.url.path}\n".encode() + await request.body()
        digest = hashlib.sha256(text).digest()
        first = self._known.get(key_id)
        if first is None:
            task = asyncio.create_task(handler(request))
            self._known[key_id] = digest, task
            task.add_done_callback(partial(self._forget_failed, key_id))
            while len(self._known) > KEYS_MAX:
                del self._known[next(iter(self._known))]
            # A caller that closes its connection and repeats the request gets this response.
            return await asyncio.shield(task)
        if first[0] != digest:
            raise KeyReusedError(
                "this Idempotency-Key was used for another request",
                hint="Send a new key with a new request. Repeat a request unchanged.",
            )
        response = await asyncio.shield(first[1])
        return Response(
            response.body,
            status_code=response.status_code,
            media_type=response.media_type or "application/json",
            headers={REPEATED_HEADER: "true"},
        )

    def _forget_failed(self, key_id: bytes, task: asyncio.Task[Response]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._known.pop(key_id, None)


def once_route(responses: Responses) -> type[APIRoute]:
    """Return the class of routes that carry out each request with a key once."""

    class OnceRoute(APIRoute):
        def get_route_handler(self) -> Handler:
            handler = super().get_route_handler()

            async def once(request: Request) -> Response:
                key = request.headers.get("Idempotency-Key")
                if key is None or request.method == "GET":
                    return await handler(request)
                return await responses.respond(key, request, handler)

            return once

    return OnceRoute
