"""The requests of the table of verbs: each is executed in one transaction."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response

from forewarn.admin import bodies, limits, shapes
from forewarn.admin.access import Caller
from forewarn.admin.answers import documented
from forewarn.admin.idempotency import Giver, Giving
from forewarn.control.transactions.event_json import event_report
from forewarn.control.transactions.work import need
from forewarn.instants import Micros
from forewarn.protocol.errors import BadRequestError
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation, Request
from forewarn.reporting import reports
from forewarn.store.port import Reader
from forewarn.verbs.model import Answer, Entry, Form
from forewarn.verbs.table import VERBS

router = APIRouter(tags=["orders"])


def check_texts(caller: Caller, **texts: str) -> None:
    """Raise BadRequestError if a tenant's text is too long."""
    most = limits.TENANT_TEXT_CHARACTERS_MAX
    for name, text in texts.items():
        if caller.tenant and len(text) > most:
            raise BadRequestError(
                f"{name}: a tenant's text has at most {most} characters, not {len(text)}"
            )


Report: TypeAlias = Callable[[Reader, Any, Micros], dict[str, Any]]
"""Returns the report of a request's result for a caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The response to a request."""

    shape: type[BaseModel]
    report: Report
    status: int = 200


def _operation(reader: Reader, made: str, now: Micros) -> dict[str, Any]:
    return reports.operation_report(reader, need(reader, Operation, made), now=now)


def _request(reader: Reader, made: str, now: Micros) -> dict[str, Any]:
    return reports.request_report(reader, need(reader, Request, made), now=now)


ANSWERS: Mapping[Answer, Told] = {
    Answer.REQUEST: Told(shape=shapes.MadeShape, report=_request, status=201),
    Answer.RESTORED: Told(
        shape=shapes.RestoredShape, report=lambda _, made, _now: {"restored": made}
    ),
    Answer.CANCELLED: Told(
        shape=shapes.CancelledShape,
        report=lambda reader, made, now: {
            "cancelled": [_operation(reader, each, now) for each in made]
        },
    ),
    # Read the operations again, as the caller may see them.
    Answer.APPROVED: Told(
        shape=shapes.ApprovedShape,
        report=lambda reader, made, _: {
            "approved": [event_report(need(reader, Event, each)) for each in made]
        },
    ),
    Answer.OPERATION: Told(shape=shapes.OperationShape, report=_operation),
}


def _route(entry: Entry) -> Callable[[Any, Giver], Awaitable[Response]]:
    told = ANSWERS[entry.answer]
    texts = ["reason", *(a.key for a in entry.arguments if a.form is Form.TEXT)]

    async def order(body: Any, giver: Giver) -> Response:
        check_texts(giver.caller, **{key: getattr(body, key) or "" for key in texts})
        result = await giver.give(entry.name, body)
        now = giver.gateway.now()
        report = await giver.gateway.read(
            lambda reader: told.report(reader, result["made"], now)
        )
        if entry.targets.is_list:
            report["refused"] = result["refused"]
        return giver.answer(report, status=told.status)

    order.__annotations__ |= {"body": bodies.BODIES[entry.name], "giver": Giving}
    return order


for _entry in VERBS.values():
    _told = ANSWERS[_entry.answer]
    router.add_api_route(
        f"/{_entry.name}",
        _route(_entry),
        methods=["POST"],
        name=_entry.name.replace("-", "_"),
        description=_entry.text,
        status_code=_told.status,
        responses=documented(_told.shape, 400, 404, 409, 422, status=_told.status),
    )
