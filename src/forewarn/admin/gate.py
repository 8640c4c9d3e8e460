"""Who comes in: tokens, and on a loopback address without tokens, its own rules.

A browser on the operator's machine can be made to send requests by any page.
Without tokens, therefore, the Host header must name a loopback address (a page
that rebinds its DNS name to 127.0.0.1 sends its own name), and a body must be
`application/json`, which no page sends across origins without asking first.
What is open to everybody tells nothing about the fleet.
"""

import ipaddress

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forewarn.admin import limits
from forewarn.admin.problems import Kind, problem
from forewarn.admin.tokens import NAMELESS, Tokens

ACTOR = "forewarn.actor"
"""Where a request's scope keeps who sent it."""

OPEN_PATHS = frozenset({"/", "/docs", "/healthz", "/readyz", "/openapi.json"})
"""What needs no token."""


class Gate:
    """Lets a request in with its sender's name, or answers it."""

    def __init__(self, app: ASGIApp, *, tokens: Tokens | None) -> None:
        """Stand before `app`; None: no tokens, and loopback callers only."""
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = self._refusal(scope)
        if answer is not None:
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        scope[ACTOR] = NAMELESS
        if self._tokens is None:
            if not is_loopback(headers.get("host", "")):
                return problem(
                    Kind.FORBIDDEN,
                    "without tokens this API answers to a loopback name only",
                    hint="use http://127.0.0.1, or set [admin] token_file",
                )
        elif scope["path"] not in OPEN_PATHS:
            name = self._tokens.name_of(_bearer(headers))
            if name is None:
                return problem(
                    Kind.UNAUTHORIZED,
                    "a good bearer token is needed",
                    hint="set FOREWARN_TOKEN, or send Authorization: Bearer TOKEN",
                )
            scope[ACTOR] = name
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and media_type != "application/json":
            return problem(
                Kind.NOT_JSON,
                "a POST must have Content-Type: application/json",
            )
        return None


FLEET_PATHS = "/v1/fleet/"
"""Under this path bodies are fleet files, which are longer than orders."""


class BodyLimit:
    """Refuses a body that is too long, before it is held."""

    def __init__(self, app: ASGIApp) -> None:
        """Stand before `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_fleet = scope["path"].startswith(FLEET_PATHS)
        limit = limits.FLEET_BYTES_MAX if is_fleet else limits.ORDER_BYTES_MAX
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and int(length) > limit:
            answer = problem(Kind.TOO_LARGE, _too_large(limit))
            await answer(scope, receive, send)
            return
        size = 0

        async def receiving() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > limit:
                raise HTTPException(Kind.TOO_LARGE.status, _too_large(limit))
            return message

        await self._app(scope, receiving, send)


def _too_large(limit: int) -> str:
    return f"a body may have {limit} bytes here"


def _bearer(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def is_loopback(host: str) -> bool:
    """Tell whether a Host header names this machine's own loopback."""
    name = host.strip().lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    else:
        name = name.partition(":")[0]
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
