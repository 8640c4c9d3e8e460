"""Who comes in: tokens, and on a loopback address without tokens, its own rules.

A token is one of the operator's file, or one of the store, which may be a tenant's.

A browser on the operator's machine can be made to send requests by any page.
Without tokens, therefore, the Host header must name a loopback address (a page
that rebinds its DNS name to 127.0.0.1 sends its own name), and a body must be
`application/json`, which no page sends across origins without asking first.
What is open to everybody tells nothing about the fleet.
"""

import re
from typing import cast

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forewarn.admin import limits
from forewarn.admin.access import CALLER, NOBODY, Caller, unauthorized
from forewarn.admin.problems import Kind, of_error, problem
from forewarn.admin.tokens import NAMELESS, Tokens
from forewarn.control import tokens
from forewarn.control.desk import OperatorDesk
from forewarn.fleet.values import is_loopback
from forewarn.protocol.errors import ForewarnError

OPEN_PATHS = frozenset({"/", "/docs", "/healthz", "/readyz", "/openapi.json"})
"""What needs no token."""


class Gate:
    """Lets a request in with its sender's name, or answers it."""

    def __init__(self, app: ASGIApp, *, tokens: Tokens | None) -> None:
        """Stand before `app`; None: no token file, and loopback callers only."""
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = await self._refusal(scope)
        if answer is not None:
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self._tokens is None and not names_loopback(headers.get("host", "")):
            return problem(
                Kind.FORBIDDEN,
                "without tokens this API answers to a loopback name only",
                hint="use http://127.0.0.1, or set [admin] token_file",
            )
        try:
            scope[CALLER] = await self._caller(scope, headers)
        except ForewarnError as error:
            return of_error(error)
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and media_type != "application/json":
            return problem(
                Kind.NOT_JSON,
                "a POST must have Content-Type: application/json",
            )
        return None

    async def _caller(self, scope: Scope, headers: Headers) -> Caller:
        """Return who sent the request; raises UnauthorizedError, and StoreError.

        Whatever is presented is judged: where no token is needed, a bad one is
        refused nevertheless, since its holder means to be somebody else.
        """
        is_open = scope["path"] in OPEN_PATHS
        if "authorization" not in headers:
            if self._tokens is None:
                return Caller(name=NAMELESS)
            if is_open:
                return NOBODY
            raise unauthorized()
        text = _bearer(headers)
        if tokens.looks_like_one(text):
            desk = cast("OperatorDesk", scope["app"].state.desk)
            now = desk.now()
            token = await desk.read(lambda reader: tokens.judge(reader, text, now=now))
            if token is not None:
                return Caller.of_token(token)
        name = self._tokens.name_of(text) if self._tokens else None
        if name is not None:
            return Caller(name=name)
        if is_open:
            return NOBODY
        raise unauthorized()


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


_HOST = re.compile(
    r"(?:\[([0-9a-f.]*:[0-9a-f:.]*)\]|([a-z0-9.-]+))(?::[0-9]{1,5})?", re.ASCII
)
"""An IPv6 address in brackets, or another name, and perhaps a port."""


def names_loopback(host: str) -> bool:
    """Tell whether a Host header names this machine's own loopback.

    It must be a whole name with nothing behind it but a port: what reads otherwise
    to others, such as `localhost:1@elsewhere`, names nothing here.
    """
    matched = _HOST.fullmatch(host.strip().lower())
    return matched is not None and is_loopback(matched[1] or matched[2])
