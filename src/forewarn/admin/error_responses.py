"""The conversion of every error to a response of the operator API.

A body has the error (`error`), the next step (`hint`) and one of a few kinds (`kind`),
so that programs do not parse sentences. A body has nothing about the program itself: an
unexpected error is logged once.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forewarn.admin import limits, wording
from forewarn.admin.access import CALLER, Caller
from forewarn.admin.answers import SafeJsonResponse
from forewarn.admin.errors import (
    ForbiddenError,
    Kind,
    TooManyError,
    UnauthorizedError,
    refused_report,
)
from forewarn.admin.throttle import RefusalLog
from forewarn.campaigns.plan_drift import DriftedError, PlanDrift
from forewarn.campaigns.text import CampaignFileError
from forewarn.control.requests.dry_run import ChangedError, DryRunError
from forewarn.control.requests.idempotency import KeyReusedError
from forewarn.control.transactions.parts import NothingTakenError
from forewarn.fleet.errors import FleetFileError
from forewarn.instants import instant_or_none
from forewarn.protocol.errors import (
    BadRequestError,
    ForewarnError,
    NotFoundError,
    RefusedError,
)
from forewarn.reporting.entry_kinds import name_of
from forewarn.settings.tables import FileError
from forewarn.wording import operators

logger = logging.getLogger("forewarn.admin")

PLACES_MAX = 20
"""Maximum invalid places of a body that are listed: more are usually one mistake,
repeated."""


def problem(
    kind: Kind,
    error: str,
    *,
    hint: str = "",
    problems: Sequence[dict[str, Any]] | None = None,
    refused: Sequence[dict[str, Any]] | None = None,
    leader: str = "",
    more: Mapping[str, Any] | None = None,
) -> JSONResponse:
    """Return the response for an error; `more` has further members of its body."""
    body: dict[str, Any] = {"error": error, "hint": hint, "kind": kind.word}
    if problems is not None:
        body["problems"] = list(problems)
    if refused:
        body["refused"] = list(refused)
    if leader:
        body["leader"] = leader
    body.update(more or {})
    headers: dict[str, str] = {}
    if kind.status == Kind.UNAVAILABLE.status:
        headers["Retry-After"] = str(limits.RETRY_SECONDS)
    if kind is Kind.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return SafeJsonResponse(body, status_code=kind.status, headers=headers)


def of_error(error: ForewarnError) -> JSONResponse:
    """Return the response for an error of forewarn.

    An error that is neither a refusal nor a malformed request means that a store or a
    service is not available.
    """
    if isinstance(error, FleetFileError):
        return _of_file(error, Kind.BAD_FLEET)
    if isinstance(error, CampaignFileError):
        return _of_file(error, Kind.BAD_CAMPAIGN)
    kinds = (kind for type_, kind in _KINDS.items() if isinstance(error, type_))
    kind = next(kinds, Kind.UNAVAILABLE)
    if kind is Kind.UNAVAILABLE:
        logger.warning("a request of an operator failed: %s", error.message)
    refused = error.refused if isinstance(error, NothingTakenError) else ()
    answer = problem(
        kind,
        operators.refusal(error),
        hint=error.hint,
        refused=refused_report(refused),
        more=_more_of(error),
    )
    if isinstance(error, TooManyError):
        answer.headers["Retry-After"] = str(error.retry_seconds)
    return answer


def _more_of(error: ForewarnError) -> dict[str, Any]:
    """Return the members that only the responses of a kind of error have."""
    match error:
        case ChangedError():
            return {"changed": _changed(error)}
        case DriftedError():
            return {"drift": _drift(error.drift)}
        case _:
            return {}


def _drift(drift: PlanDrift) -> dict[str, Any]:
    """Return what has changed since a plan that cannot be started any more."""
    return {
        "gone": list(drift.gone),
        "gone_count": drift.gone_count,
        "new": list(drift.new),
        "new_count": drift.new_count,
        "moved_count": drift.moved_count,
        "vms_before": drift.vms_before,
        "vms_after": drift.vms_after,
        "other_file": drift.has_other_file,
        "other_limits": drift.has_other_limits,
    }


def _changed(error: ChangedError) -> dict[str, Any]:
    """Return the decision for which a request is refused."""
    return {
        "by": None if error.by is None else error.by.text,
        "at": instant_or_none(error.at),
        "reason": error.reason,
        "kind": None if error.what is None else name_of(error.what),
        "what": "" if error.what is None else error.what.value,
    }


_KINDS: Mapping[type[ForewarnError], Kind] = {
    TooManyError: Kind.TOO_MANY,
    UnauthorizedError: Kind.UNAUTHORIZED,
    ForbiddenError: Kind.FORBIDDEN,
    NotFoundError: Kind.NOT_FOUND,
    KeyReusedError: Kind.KEY_REUSED,
    ChangedError: Kind.CONFLICT,
    RefusedError: Kind.REFUSED,
    BadRequestError: Kind.BAD_REQUEST,
}
"""The kind of each error; the first type that fits decides."""


def _of_file(error: FileError, kind: Kind) -> JSONResponse:
    return problem(
        kind,
        error.message,
        hint=error.hint,
        problems=[
            {
                "file": wrong.file,
                "line": wrong.line,
                "key": wrong.key,
                "message": wrong.message,
                "name": wrong.name,
                "text": str(wrong),
            }
            for wrong in error.problems
        ],
    )


def of_validation(error: RequestValidationError) -> JSONResponse:
    """Return the response for a request that does not fit its model."""
    problems: list[dict[str, Any]] = [
        {"place": wording.place(fault), "message": wording.sentence(fault)}
        for fault in error.errors()[:PLACES_MAX]
    ]
    sentence = "; ".join(
        f"{fault['place']}: {fault['message']}" if fault["place"] else fault["message"]
        for fault in problems
    )
    return problem(
        Kind.BAD_REQUEST,
        sentence or "the request is malformed",
        hint="See /openapi.json for the form of each request.",
        problems=problems,
    )


_OF_ONE_CASE = frozenset(
    {Kind.BAD_FLEET, Kind.BAD_CAMPAIGN, Kind.CONFLICT, Kind.FOLLOWS}
)
"""Kinds of special cases, which have the status of another kind."""

_BY_STATUS = {kind.status: kind for kind in Kind if kind not in _OF_ONE_CASE}


def of_http(request: Request, error: HTTPException) -> JSONResponse:
    """Return the response for a request that the framework refuses."""
    kind = _BY_STATUS.get(error.status_code, Kind.BAD_REQUEST)
    where = f"{request.method} {request.url.path}"
    if kind is Kind.NOT_FOUND:
        answer = problem(
            kind, f"there is no route {where}", hint="See /docs for all routes."
        )
    else:
        answer = problem(kind, f"{where}: {error.detail}")
    answer.status_code = error.status_code
    answer.headers.update(error.headers or {})
    return answer


_RIGHTS = (ForbiddenError, UnauthorizedError, TooManyError)
"""Errors of callers without a right, which are logged."""


def install(app: FastAPI, refused: RefusalLog) -> None:
    """Install the handlers that convert errors; those for rights are logged too."""

    def of_forewarn(request: Request, error: ForewarnError) -> JSONResponse:
        if isinstance(error, DryRunError):
            return SafeJsonResponse(error.result)
        if isinstance(error, _RIGHTS):
            caller: Caller = request.scope[CALLER]
            refused.note(error.message, peer=caller.peer, who=caller.name)
        return of_error(error)

    handlers: dict[type[Exception], Callable[[Request, Any], JSONResponse]] = {
        ForewarnError: of_forewarn,
        RequestValidationError: lambda _request, error: of_validation(error),
        HTTPException: of_http,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


class LastResort:
    """Middleware that answers 500 for an unexpected error and logs it once."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap `app`."""
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
                # The response has begun, so only the connection can be closed.
                raise
            answer = problem(
                Kind.INTERNAL,
                "internal error of the service",
                hint="See the log of the service. `forewarn operations` shows the current state.",
            )
            await answer(scope, receive, send)
