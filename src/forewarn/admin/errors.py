"""Every error of the operator API, translated at one door.

A body says what is wrong (`error`), what to do next (`hint`) and which of few
kinds it is (`kind`), so that programs need not read sentences. Nothing of the
program's inside is told: what nobody foresaw is in the log, once.
"""

import enum
import logging
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forewarn.admin import limits, wording
from forewarn.admin.answers import SafeJsonResponse
from forewarn.control.requests.idempotency import KeyReusedError
from forewarn.control.transactions.parts import NothingTakenError, Refused
from forewarn.fleet.errors import FleetFileError
from forewarn.protocol.errors import (
    BadRequestError,
    ForewarnError,
    NotFoundError,
    RefusedError,
)
from forewarn.wording import operators

logger = logging.getLogger("forewarn.admin")

PLACES_MAX = 20
"""Places of a bad body that are told: more are mostly one mistake, repeated."""


class UnauthorizedError(ForewarnError):
    """Who asks has no good token."""


class ForbiddenError(ForewarnError):
    """Who asks has a good token, and may not do this with it."""


class TooManyError(ForewarnError):
    """Who asks has had what it may have, for the moment."""

    def __init__(self, message: str, *, hint: str = "", retry_seconds: int) -> None:
        """Say also when to ask again, in seconds."""
        super().__init__(message, hint=hint)
        self.retry_seconds = retry_seconds


class Kind(enum.Enum):
    """What kind of error it is; the value is in the body, the number the status."""

    BAD_REQUEST = ("bad-request", 400)
    BAD_FLEET = ("bad-fleet", 400)
    UNAUTHORIZED = ("unauthorized", 401)
    FORBIDDEN = ("forbidden", 403)
    NOT_FOUND = ("not-found", 404)
    NOT_ALLOWED = ("method-not-allowed", 405)
    REFUSED = ("refused", 409)
    TOO_LARGE = ("too-large", 413)
    NOT_JSON = ("not-json", 415)
    KEY_REUSED = ("key-reused", 422)
    TOO_MANY = ("too-many", 429)
    INTERNAL = ("internal", 500)
    UNAVAILABLE = ("unavailable", 503)

    def __init__(self, word: str, status: int) -> None:
        """Keep the word and the HTTP status apart."""
        self.word = word
        self.status = status


def problem(
    kind: Kind,
    error: str,
    *,
    hint: str = "",
    problems: Sequence[dict[str, Any]] | None = None,
    refused: Sequence[dict[str, Any]] | None = None,
) -> JSONResponse:
    """Return the answer that tells of an error."""
    body: dict[str, Any] = {"error": error, "hint": hint, "kind": kind.word}
    if problems is not None:
        body["problems"] = list(problems)
    if refused:
        body["refused"] = list(refused)
    headers: dict[str, str] = {}
    if kind is Kind.UNAVAILABLE:
        headers["Retry-After"] = str(limits.RETRY_SECONDS)
    if kind is Kind.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return SafeJsonResponse(body, status_code=kind.status, headers=headers)


def of_error(error: ForewarnError) -> JSONResponse:
    """Return the answer to an error of ours.

    What is neither refused nor malformed is a store or a service that cannot do
    its work now.
    """
    match error:
        case FleetFileError():
            return _of_fleet(error)
        case TooManyError():
            answer = problem(Kind.TOO_MANY, error.message, hint=error.hint)
            answer.headers["Retry-After"] = str(error.retry_seconds)
            return answer
        case UnauthorizedError():
            kind = Kind.UNAUTHORIZED
        case ForbiddenError():
            kind = Kind.FORBIDDEN
        case NotFoundError():
            kind = Kind.NOT_FOUND
        case KeyReusedError():
            kind = Kind.KEY_REUSED
        case RefusedError():
            kind = Kind.REFUSED
        case BadRequestError():
            kind = Kind.BAD_REQUEST
        case _:
            kind = Kind.UNAVAILABLE
            logger.warning("an operator was not served: %s", error.message)
    refused = error.refused if isinstance(error, NothingTakenError) else ()
    return problem(
        kind,
        operators.refusal(error),
        hint=error.hint,
        refused=refused_report(refused),
    )


def refused_report(refused: Sequence[Refused]) -> list[dict[str, str]]:
    """Return what a caller is told of the targets that an order leaves out."""
    return [
        {
            "name": each.name,
            "error": operators.refusal(each.error),
            "hint": each.error.hint,
        }
        for each in refused
    ]


def _of_fleet(error: FleetFileError) -> JSONResponse:
    return problem(
        Kind.BAD_FLEET,
        error.message,
        hint=error.hint,
        problems=[
            {
                "file": each.file,
                "line": each.line,
                "key": each.key,
                "message": each.message,
                "name": each.name,
                "text": str(each),
            }
            for each in error.problems
        ],
    )


def of_validation(error: RequestValidationError) -> JSONResponse:
    """Return the answer to a request that does not fit its model."""
    problems: list[dict[str, Any]] = [
        {"place": wording.place(each), "message": wording.sentence(each)}
        for each in error.errors()[:PLACES_MAX]
    ]
    sentence = "; ".join(
        f"{each['place']}: {each['message']}" if each["place"] else each["message"]
        for each in problems
    )
    return problem(
        Kind.BAD_REQUEST,
        sentence or "the request is malformed",
        hint="/openapi.json says what each request takes",
        problems=problems,
    )


_BY_STATUS = {kind.status: kind for kind in Kind if kind is not Kind.BAD_FLEET}


def of_http(request: Request, error: HTTPException) -> JSONResponse:
    """Return the answer to what the framework refuses by itself."""
    kind = _BY_STATUS.get(error.status_code)
    where = f"{request.method} {request.url.path}"
    if kind is Kind.NOT_FOUND:
        answer = problem(
            kind, f"there is nothing at {where}", hint="/docs lists what there is"
        )
    elif kind is None:
        answer = problem(Kind.BAD_REQUEST, f"{where}: {error.detail}")
        answer.status_code = error.status_code
    else:
        answer = problem(kind, f"{where}: {error.detail}")
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    return answer


def install(app: FastAPI) -> None:
    """Have the application answer errors through this door."""

    def ours(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, ForewarnError)
        return of_error(error)

    def invalid(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return of_validation(error)

    def framework(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return of_http(request, error)

    def late(_request: Request, _error: Exception) -> JSONResponse:
        return problem(
            Kind.UNAVAILABLE,
            "the service did not answer in time; whether it did it is not known",
            hint="look before you order it again: `forewarn operations`",
        )

    app.add_exception_handler(ForewarnError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, framework)
    app.add_exception_handler(TimeoutError, late)


class LastResort:
    """Answers 500 for what nobody foresaw, and logs it once."""

    def __init__(self, app: ASGIApp) -> None:
        """Stand before `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception:
            logger.exception("the operator API failed at %s", scope.get("path", ""))
            if begun:
                # The answer cannot be taken back; the connection ends instead.
                raise
            answer = problem(
                Kind.INTERNAL,
                "the service met a fault of its own",
                hint="its log says more; `forewarn operations` shows what was done",
            )
            await answer(scope, receive, send)
