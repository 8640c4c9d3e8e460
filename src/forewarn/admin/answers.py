"""What all routes' descriptions share, and the answer of JSON as it is."""

import hashlib
from http import HTTPStatus
from typing import Any, TypeAlias

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from forewarn.admin import shapes
from forewarn.texts import json_text

ETAG_DIGITS = 32
"""Hexadecimal digits of an ETag: 128 bits."""

Documented: TypeAlias = dict[int | str, dict[str, Any]]

_ERRORS = {
    400: "The request is malformed; `problems` names each place.",
    401: "A good bearer token is needed.",
    403: "This token may not do it.",
    404: "Something that it names does not exist.",
    409: "The rules do not allow it now; nothing was changed.",
    422: "The Idempotency-Key belongs to another request; nothing was changed.",
    503: "The service cannot do it now; `Retry-After` says when to ask again.",
}


ANY_ERROR: Documented = {
    "default": {"model": shapes.ProblemShape, "description": "Any other error."}
}
"""With it the framework does not tell of errors that it would answer by itself."""


def documented(model: type[Any], *errors: int, status: int = 200) -> Documented:
    """Return the answers of a route, for /openapi.json."""
    return {
        status: {"model": model},
        **{
            code: {"model": shapes.ProblemShape, "description": _ERRORS[code]}
            for code in (*errors, 401, 403, 503)
        },
        **ANY_ERROR,
    }


class SafeJsonResponse(JSONResponse):
    """JSON that may be shown on a terminal as it is, with an ETag where it is read."""

    def render(self, content: Any) -> bytes:
        """Return the body: characters that are not printable are escaped."""
        return json_text(content).encode("utf-8")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, or that the caller has it already."""
        if scope.get("method") == "GET" and self.status_code == HTTPStatus.OK:
            tag = f'"{hashlib.sha256(self.body).hexdigest()[:ETAG_DIGITS]}"'
            headers = {"ETag": tag}
            if tag in _known_tags(scope):
                same = Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
                await same(scope, receive, send)
                return
            self.headers.update(headers)
        await super().__call__(scope, receive, send)


def _known_tags(scope: Scope) -> set[str]:
    """Return the ETags of what the caller has; weak ones compare as strong ones."""
    told = Headers(scope=scope).get("if-none-match", "")
    return {each.strip().removeprefix("W/") for each in told.split(",")}


def answer(content: Any, *, status: int = 200) -> JSONResponse:
    """Return JSON that was made by `reporting.reports`, unchecked."""
    return SafeJsonResponse(content, status_code=status)
