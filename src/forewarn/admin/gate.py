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
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from forewarn.admin import limits
from forewarn.admin.access import (
    CALLER,
    NOBODY,
    OPEN_PATHS,
    PAGES,
    UNIX_PEER,
    Caller,
    UnixPeer,
    is_of_console,
    unauthorized,
)
from forewarn.admin.decisions import Decision, Use
from forewarn.admin.error_responses import of_error, problem
from forewarn.admin.errors import Kind, TooManyError, UnauthorizedError
from forewarn.admin.throttle import RefusalLog, Throttle, source_of
from forewarn.admin.tokens import NAMELESS, Tokens
from forewarn.control import tokens
from forewarn.control.gateway import OperatorGateway
from forewarn.fleet.validators import is_loopback
from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.store.records import Token

logger = logging.getLogger("forewarn.admin")


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
        tokens: Tokens | None,
        throttle: Throttle,
        refused: RefusalLog,
        relay_refused: Callable[[], None],
    ) -> None:
        """Wrap `app`; None means no token file, and loopback callers only.

        `relay_refused` is called after a request of a relay without a valid token.
        """
        self._app = app
        self._throttle = throttle
        self._refused = refused
        self._relay_refused = relay_refused
        self._tokens = tokens
        self._uses: dict[str, asyncio.Task[None]] = {}
        """The tasks that store the last use of a token, by its ID."""
        self._anonymous_turn = asyncio.Lock()
        """Held by one request without a token at a time, for one step of the loop."""
        self._doubtful_turn = asyncio.Lock()
        """Held while an unknown token of an exhausted source is checked."""

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
        peer: UnixPeer | None = scope.get(UNIX_PEER)
        needs_nothing = self._tokens is None and peer is None
        if needs_nothing and not names_loopback(headers.get("host", "")):
            return problem(
                Kind.FORBIDDEN,
                "without tokens, this API accepts only a loopback name as its host",
                hint="Use http://127.0.0.1, or set [admin] token_file.",
            )
        by_credentials = peer is not None and "authorization" not in headers
        if (needs_nothing or by_credentials) and (
            proxied := sign_of_proxy(scope, headers)
        ):
            return problem(
                Kind.FORBIDDEN,
                f"without tokens, this API accepts no forwarded requests, and {proxied} shows "
                "that a proxy forwarded this one: every client of the proxy would "
                "be the operator",
                hint="Set [admin] token_file, and send Authorization: Bearer TOKEN "
                "through the proxy.",
            )
        try:
            caller = await self._caller(scope, headers)
            if caller is NOBODY and scope["path"] in PAGES:
                self._throttle.read_page(source_of(peer_of(scope)))
            scope[CALLER] = replace(caller, peer=peer_of(scope))
        except ForewarnError as error:
            if isinstance(error, UnauthorizedError | TooManyError):
                self._refused.note(error.message, peer=peer_of(scope))
                if scope["path"].startswith(_OF_RELAYS):
                    self._relay_refused()
            return of_error(error)
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and media_type != "application/json":
            return problem(
                Kind.NOT_JSON,
                "a POST must have Content-Type: application/json",
            )
        return None

    async def _caller(self, scope: Scope, headers: Headers) -> Caller:
        """Return the sender of a request; raises UnauthorizedError and StoreError.

        A token is checked even if none is needed: its holder may be another caller than
        the operator.
        """
        if is_of_console(scope["path"]):
            self._throttle.read_file(source_of(peer_of(scope)))
            return NOBODY
        is_open = scope["path"] in OPEN_PATHS
        if "authorization" not in headers:
            peer: UnixPeer | None = scope.get(UNIX_PEER)
            if peer is not None:
                return _of_peer(peer, is_open=is_open)
            if self._tokens is None:
                return Caller(name=NAMELESS, is_authenticated=False)
            await self._wait_for_turn()
            if is_open:
                return NOBODY
            raise unauthorized()
        text, source = _bearer(headers), source_of(peer_of(scope))
        gateway = cast("OperatorGateway", scope["app"].state.gateway)
        if self._throttle.is_known(text) or not self._throttle.is_exhausted(source):
            caller = await self._identify(gateway, text)
        else:
            # Invalid tokens must not keep the readers of the store busy.
            async with self._doubtful_turn:
                caller = await self._identify(gateway, text)
        if caller is not None:
            self._throttle.succeeded(text)
            return caller
        self._throttle.failed(source, text)
        if is_open:
            return NOBODY
        raise unauthorized()

    async def _identify(self, gateway: OperatorGateway, text: str) -> Caller | None:
        """Return the holder of a token; None: it is invalid."""
        if tokens.looks_like_one(text):
            now = gateway.now()
            token = await gateway.read(
                lambda reader: tokens.judge(reader, text, now=now)
            )
            if token is not None and not self._is_anothers(token):
                self._note_use(gateway, token, now=now)
                return Caller.of_token(token)
        name = self._tokens.name_of(text) if self._tokens else None
        return None if name is None else Caller(name=name)

    async def _wait_for_turn(self) -> None:
        """Let the event loop serve others before each request without a token."""
        async with self._anonymous_turn:
            await asyncio.sleep(0)

    def _note_use(self, gateway: OperatorGateway, token: Token, *, now: Micros) -> None:
        """Store the use of a token, if an hour has passed since the last stored use.

        No request waits for this, or fails because of it.
        """
        if (
            not tokens.is_use_due(token, now=now)
            or token.token_id in self._uses
            or len(self._uses) >= limits.USES_MAX
        ):
            return
        task = asyncio.create_task(_store(gateway, Caller.of_token(token)))
        self._uses[token.token_id] = task
        task.add_done_callback(lambda _: self._uses.pop(token.token_id))

    def _is_anothers(self, token: Token) -> bool:
        """Return whether an operator of the token file has the name of the token.

        The name may have been added to the file after the token was created. Two
        holders would act under one name.
        """
        return (
            not token.tenant
            and not token.host
            and self._tokens is not None
            and token.name in self._tokens
        )


async def _store(gateway: OperatorGateway, caller: Caller) -> None:
    name = "relay-use" if caller.host else "use"
    order = Decision(name=name, body=Use(), caller=caller)
    try:
        await gateway.order(order.who, order)
    except ForewarnError as error:
        # The next request with this token tries to store it again.
        logger.debug("the use of %s is not stored: %s", caller.token_id, error.message)


def _of_peer(peer: UnixPeer, *, is_open: bool) -> Caller:
    """Return a local process as a caller; raises UnauthorizedError for other users."""
    if peer.is_operator:
        return Caller(name=peer.name)
    if is_open:
        return NOBODY
    raise UnauthorizedError(
        f"{peer.name.removeprefix('unix:')} is not in the group {peer.wanted}",
        hint=f"Add the user to the group {peer.wanted}, or send a token "
        "(FOREWARN_TOKEN).",
    )


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


_FORWARDING = frozenset(
    {
        "cf-connecting-ip",
        "client-ip",
        "fastly-client-ip",
        "forwarded",
        "forwarded-for",
        "proxy-connection",
        "true-client-ip",
        "via",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-envoy-external-address",
        "x-real-ip",
    }
)
"""Headers that proxies add to requests."""

_FORWARDING_PREFIXES = ("x-forwarded", "x-original-")


def forwarding_header(headers: Headers) -> str:
    """Return the name of a header that a proxy added; empty if there is none."""
    for name in headers:
        folded = name.lower()
        if folded in _FORWARDING or folded.startswith(_FORWARDING_PREFIXES):
            return folded
    return ""


def sign_of_proxy(scope: Scope, headers: Headers) -> str:
    """Return the sign of a forwarded request; empty if there is none.

    nginx adds no header by default, but it uses HTTP/1.0 then. No client of the API
    does, except health probes.
    """
    if scope["http_version"] == "1.0" and scope["path"] not in OPEN_PATHS:
        return "HTTP/1.0"
    return forwarding_header(headers)


_HOST = re.compile(
    r"(?:\[([0-9a-f.]*:[0-9a-f:.]*)\]|([a-z0-9.-]+))(?::[0-9]{1,5})?", re.ASCII
)
"""An IPv6 address in brackets, or another name, with an optional port."""


def names_loopback(host: str) -> bool:
    """Return whether a Host header names the machine's loopback.

    The whole header must be a name with an optional port: other programs may read
    `localhost:1@elsewhere` differently.
    """
    matched = _HOST.fullmatch(host.strip().lower())
    return matched is not None and is_loopback(matched[1] or matched[2])
