"""Checks of a request's head: rights, rate, and maximum length of the body.

`Gate` has identified the caller. `Head` refuses a caller without the right before it
reads the body, so the cost of a refusal does not depend on the body. Only an operator
can send a large body, and only to the routes for fleet files. The service receives one
of them at a time.
"""

import asyncio
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forewarn.admin import limits
from forewarn.admin.access import (
    CALLER,
    NOBODY,
    Caller,
    Demand,
    check,
    check_program,
    demand_of,
)
from forewarn.admin.error_responses import of_error, problem
from forewarn.admin.errors import ForbiddenError, Kind
from forewarn.admin.throttle import Paces, RefusalLog
from forewarn.protocol.errors import ForewarnError

PATIENCE = "forewarn.patience"
"""Key of the function in a request's scope that extends the time for its body."""

OF_RELAY = "forewarn.of_relay"
"""Key of the function in a request's scope that gives its connection a place of the relay
of a host."""

_VALUE_MARKS = (b",", b"[", b"{")
"""At least one of these bytes precedes each value of a JSON document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The limits of a body."""

    bytes_max: int
    values_max: int = 0
    """Maximum values in the JSON of the body; 0 for a text in which commas and brackets
    mean nothing."""
    is_large: bool = False
    """Whether the body is a fleet file, which can be longer than any other body."""


class Head:
    """Middleware that refuses requests by their head, and limits the bodies of the
    others."""

    def __init__(self, app: ASGIApp, *, paces: Paces, refused: RefusalLog) -> None:
        """Wrap `app`, and enforce `paces`."""
        self._app = app
        self._paces = paces
        self._refused = refused
        self._large_turn = asyncio.Semaphore(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        caller: Caller = scope.get(CALLER, NOBODY)
        headers = Headers(scope=scope)
        try:
            self._admit(scope, caller, demand_of(scope["method"], scope["path"]))
        except ForewarnError as error:
            if isinstance(error, ForbiddenError):
                self._refused.note(error.message, peer=caller.peer, who=caller.name)
            await of_error(error)(scope, receive, send)
            return
        allowed = allowance(caller, scope["path"], headers)
        refusal = self._refusal(allowed, headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        if not allowed.is_large:
            await self._app(scope, _bounded(receive, allowed), send)
        elif await self._is_its_turn(scope):
            try:
                await self._app(scope, _bounded(receive, allowed), send)
            finally:
                self._large_turn.release()
        else:
            busy = problem(
                Kind.UNAVAILABLE,
                "the service is receiving another large fleet file",
                hint="Send the file again in a moment.",
            )
            await busy(scope, receive, send)

    def _admit(self, scope: Scope, caller: Caller, demand: Demand | None) -> None:
        """Raise ForbiddenError or TooManyError if the head is sufficient to refuse.

        A refused request counts too, but only against its token: a token without a
        right cannot keep the tenant's other tokens from using theirs. A route without a
        demand counts like a refused one, whatever the router finds.
        """
        if caller.host:
            self._admit_relay(scope, caller, demand)
            return
        check_program(scope, f"{scope['method']} {scope['path']}")
        if not caller.tenant:
            if demand is not None:
                check(caller, demand)
            return
        if (allowed := self._allowed(caller, demand)) is not None:
            writes = allowed.writes or scope["method"] != "GET"
            pace = self._paces.writes if writes else self._paces.reads
            pace.take(caller.tenant)

    def _admit_relay(self, scope: Scope, caller: Caller, demand: Demand | None) -> None:
        """Raise ForbiddenError or TooManyError for the request of a relay.

        The rate limit is that of its host, so that a stolen token is a matter of one
        host. Its connection no longer takes a place of operators and tenants.
        """
        if self._allowed(caller, demand) is not None:
            self._paces.relays.take(caller.host)
            if (be_of_relay := scope.get(OF_RELAY)) is not None:
                be_of_relay(caller.host)

    def _allowed(self, caller: Caller, demand: Demand | None) -> Demand | None:
        """Return the demand of a route that the caller may use; None: it has none.

        Both a refused request and one without a demand count against the token. Raises
        ForbiddenError.
        """
        if demand is None:
            self._paces.refused.take(caller.token_id)
            return None
        try:
            check(caller, demand)
        except ForbiddenError:
            self._paces.refused.take(caller.token_id)
            raise
        return demand

    def _refusal(self, allowed: Allowance, headers: Headers) -> Response | None:
        length = headers.get("content-length", "")
        if length.isdecimal() and _size(length) > allowed.bytes_max:
            return problem(Kind.TOO_LARGE, _too_large(allowed.bytes_max))
        return None

    async def _is_its_turn(self, scope: Scope) -> bool:
        """Wait until no other large body is in memory; False after a timeout."""
        if (be_patient := scope.get(PATIENCE)) is not None:
            be_patient(limits.FLEET_BODY_SECONDS)
        try:
            async with asyncio.timeout(limits.FLEET_TURN_SECONDS):
                return await self._large_turn.acquire()
        except TimeoutError:
            return False


class Unread:
    """Middleware that closes the connection if a response precedes the body.

    The rest of the body is useless, and the next request cannot be found before its
    end.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Stand before `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or not has_body(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        is_read = False

        async def receiving() -> Message:
            nonlocal is_read
            message = await receive()
            is_read = is_read or not message.get("more_body", False)
            return message

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and not is_read:
                headers = [*message.get("headers", ()), (b"connection", b"close")]
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receiving, sending)


def has_body(headers: Headers) -> bool:
    """Return whether a request has a body, according to its head."""
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


FLEET_PATHS = "/v1/fleet/"
"""Below this path, bodies are fleet files, which are longer than other bodies."""


CAMPAIGN_PATHS = frozenset({"/v1/campaigns/plan", "/v1/campaigns/simulate"})
"""The bodies of these paths are campaign files, whose commas are no JSON values."""


def allowance(caller: Caller, path: str, headers: Headers) -> Allowance:
    """Return the limits of the body of a caller's request."""
    if not caller.is_operator:
        most = limits.BODY_VALUES_MAX
        return Allowance(bytes_max=limits.TENANT_BYTES_MAX, values_max=most)
    if path in CAMPAIGN_PATHS:
        return Allowance(bytes_max=limits.ORDER_BYTES_MAX)
    if not path.startswith(FLEET_PATHS):
        most = limits.BODY_VALUES_MAX
        return Allowance(bytes_max=limits.ORDER_BYTES_MAX, values_max=most)
    length = headers.get("content-length", "")
    is_short = length.isdecimal() and _size(length) <= limits.ORDER_BYTES_MAX
    if is_short or not has_body(headers):
        return Allowance(bytes_max=limits.ORDER_BYTES_MAX)
    return Allowance(bytes_max=limits.FLEET_BYTES_MAX, is_large=True)


def _size(length: str) -> int:
    """Return a length from decimal digits; a longer number counts as too long."""
    # Python does not parse numbers with thousands of digits.
    return int(length.lstrip("0")[:_DIGITS_MAX] or "0")


_DIGITS_MAX = 18


def _bounded(receive: Receive, allowed: Allowance) -> Receive:
    """Return a receiver that raises an error if the body is longer than allowed.

    The number of values is limited too, unless the body is a fleet file: JSON with very
    many empty lists takes a hundred times as long to parse as names.
    """
    size = 0
    values = 0

    async def receiving() -> Message:
        nonlocal size, values
        message = await receive()
        body: bytes = message.get("body", b"")
        size += len(body)
        if size > allowed.bytes_max:
            raise HTTPException(Kind.TOO_LARGE.status, _too_large(allowed.bytes_max))
        if allowed.values_max:
            values += sum(body.count(mark) for mark in _VALUE_MARKS)
            if values > allowed.values_max:
                wrong = f"the body has more than {allowed.values_max} JSON values"
                raise HTTPException(400, wrong)
        return message

    return receiving


def _too_large(limit: int) -> str:
    return f"the body has more than {limit} bytes"
