"""Authentication: tokens, and the rules for a loopback address without tokens.

A token is in the operators' file or in the store; tokens in the store can belong to a
tenant. Any web page can make a browser on the operator's machine send requests. Without
tokens, the Host header must therefore name a loopback address, because a page that
rebinds its DNS name to 127.0.0.1 sends its own name. A body must be `application/json`,
which no page sends to another origin without asking first. A reverse proxy on that
machine would give all its clients the rights of operators, so a forwarded request is
refused.

Routes without authentication reveal nothing about the fleet.
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from forewarn.admin.access import (
    CALLER,
    IN_BROWSER,
    LOCAL_USER,
    LOG_OUT,
    NOBODY,
    OPEN_PATHS,
    OPEN_REQUESTS,
    PAGES,
    SESSION,
    UNIX_PEER,
    Caller,
    UnixPeer,
    is_of_console,
    unauthorized,
)
from forewarn.admin.cookies import session_text
from forewarn.admin.error_responses import of_error, problem
from forewarn.admin.errors import (
    ForbiddenError,
    Kind,
    TooManyError,
    UnauthorizedError,
)
from forewarn.admin.identity import Identity, PassHolder
from forewarn.admin.origins import check_origin, is_of_browser
from forewarn.admin.provenance import names_loopback, sign_of_proxy
from forewarn.admin.throttle import RefusalLog, source_of
from forewarn.admin.tokens import NAMELESS
from forewarn.control.gateway import OperatorGateway
from forewarn.control.sessions import PassKind
from forewarn.protocol.errors import ForewarnError

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
"""Characters that no name in a path has."""


_OF_RELAYS = "/v1/relay/"
"""The begin of the paths of relays."""


class Gate:
    """Middleware that adds the caller to a request, or refuses it."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        identity: Identity,
        refused: RefusalLog,
        relay_refused: Callable[[], None],
    ) -> None:
        """Wrap `app`. Without a token file there are loopback callers only.

        `relay_refused` is called after a request of a relay without a valid token.
        """
        self._app = app
        self._identity = identity
        self._refused = refused
        self._relay_refused = relay_refused
        self._anonymous_turn = asyncio.Lock()
        """Held by one request without a token at a time, for one step of the loop."""

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
        if _CONTROL.search(scope["path"]):
            # The router would ignore a newline at the end, but the table of rights not.
            return problem(
                Kind.NOT_FOUND,
                "there is no route with control characters in its path",
                hint="See /docs for all routes.",
            )
        headers = Headers(scope=scope)
        try:
            if self._identity.known is None and UNIX_PEER not in scope:
                _check_loopback(scope, headers)
            caller = await self._caller(scope, headers)
            if caller is NOBODY and scope["path"] in PAGES:
                self._identity.throttle.read_page(source_of(peer_of(scope)))
            scope[CALLER] = replace(caller, peer=peer_of(scope))
        except ForewarnError as error:
            if isinstance(error, UnauthorizedError | ForbiddenError | TooManyError):
                self._refused.note(error.message, peer=peer_of(scope))
                if scope["path"].startswith(_OF_RELAYS):
                    self._relay_refused()
            return of_error(error)
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if _must_be_json(scope) and media_type != "application/json":
            return problem(
                Kind.NOT_JSON,
                f"a {scope['method']} must have Content-Type: application/json",
            )
        return None

    async def _caller(self, scope: Scope, headers: Headers) -> Caller:
        """Return the sender of a request; raises UnauthorizedError and StoreError.

        A token is checked even if none is needed: its holder may be another caller than
        the operator.
        """
        if is_of_console(scope["path"]):
            self._identity.throttle.read_file(source_of(peer_of(scope)))
            return NOBODY
        if "authorization" not in headers:
            return await self._without_token(scope, headers)
        gateway = cast("OperatorGateway", scope["app"].state.gateway)
        caller = await self._identity.of_token(
            gateway, _bearer(headers), source=source_of(peer_of(scope))
        )
        if caller is not None:
            return caller
        if is_open(scope):
            return NOBODY
        raise unauthorized()

    async def _without_token(self, scope: Scope, headers: Headers) -> Caller:
        """Return the sender of a request without a bearer token."""
        text = session_text(scope, headers)
        if scope["path"] not in OPEN_PATHS:
            check_origin(scope, headers, has_session=bool(text))
            scope[IN_BROWSER] = is_of_browser(headers)
        if text and (holder := await self._holder(scope, text)) is not None:
            scope[SESSION] = holder.ends
            return holder.caller
        peer: UnixPeer | None = scope.get(UNIX_PEER)
        if peer is not None:
            return _of_peer(peer, scope, headers)
        if self._identity.known is None:
            return Caller(name=NAMELESS, is_authenticated=False)
        await self._wait_for_turn()
        if is_open(scope):
            return NOBODY
        raise unauthorized()

    async def _holder(self, scope: Scope, text: str) -> PassHolder | None:
        """Return the session of a cookie; None: it is that of another service.

        Raises UnauthorizedError for a session that is over and TooManyError, unless the
        request needs none.
        """
        gateway = cast("OperatorGateway", scope["app"].state.gateway)
        try:
            return await self._identity.of_pass(
                gateway,
                text,
                PassKind.SESSION,
                source=source_of(peer_of(scope)),
                # Its end may not be stored yet.
                even_forgotten=f"{scope['method']} {scope['path']}" == LOG_OUT,
            )
        except (UnauthorizedError, TooManyError):
            if is_open(scope):
                return None
            raise

    async def _wait_for_turn(self) -> None:
        """Let the event loop serve others before each request without a token."""
        async with self._anonymous_turn:
            await asyncio.sleep(0)


def is_open(scope: Scope) -> bool:
    """Return whether a request needs no token."""
    path = scope["path"]
    return path in OPEN_PATHS or f"{scope['method']} {path}" in OPEN_REQUESTS


def _must_be_json(scope: Scope) -> bool:
    """Return whether a request must have the type of JSON, which no form has.

    A DELETE of a program has no body and no type.
    """
    if scope["method"] != "DELETE":
        return scope["method"] == "POST"
    return bool(scope.get(SESSION) or scope.get(IN_BROWSER))


def _check_loopback(scope: Scope, headers: Headers) -> None:
    """Raise ForbiddenError for a request that may not come from this machine."""
    if not names_loopback(headers.get("host", "")):
        raise ForbiddenError(
            "without tokens, this API accepts only a loopback name as its host",
            hint="Use http://127.0.0.1, or set [admin] token_file.",
        )
    if proxied := sign_of_proxy(scope, headers):
        raise _forwarded(proxied)


def _forwarded(sign: str) -> ForbiddenError:
    return ForbiddenError(
        f"without tokens, this API accepts no forwarded requests, and {sign} shows "
        "that a proxy forwarded this one: every client of the proxy would "
        "be the operator",
        hint="Set [admin] token_file, and send Authorization: Bearer TOKEN "
        "through the proxy.",
    )


def _of_peer(peer: UnixPeer, scope: Scope, headers: Headers) -> Caller:
    """Return a local process as a caller.

    Raises UnauthorizedError for other users, and ForbiddenError for a request that
    another program passes on: of a proxy, or of a browser whose page has bound its name
    to the local end of a forwarded port.
    """
    proxied = sign_of_proxy(scope, headers)
    if is_open(scope):
        return Caller(name=peer.name) if peer.is_operator and not proxied else NOBODY
    if proxied:
        raise _forwarded(proxied)
    if not peer.is_operator:
        raise UnauthorizedError(
            f"{peer.name.removeprefix(LOCAL_USER)} is not in the group {peer.wanted}",
            hint=f"Add the user to the group {peer.wanted}, or send a token "
            "(FOREWARN_TOKEN).",
        )
    if not names_loopback(headers.get("host", "")):
        raise ForbiddenError(
            "at a Unix socket, this API accepts only a loopback name as its host, unless "
            "the request has a token",
            hint="Use http://localhost.",
        )
    return Caller(name=peer.name)


def peer_of(scope: Scope) -> str:
    """Return the address of the connection's peer, without its port.

    For a Unix socket, the peer is the process.
    """
    local: UnixPeer | None = scope.get(UNIX_PEER)
    if local is not None:
        return local.where
    client = scope.get("client")
    return str(client[0]) if client else ""


def _bearer(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
