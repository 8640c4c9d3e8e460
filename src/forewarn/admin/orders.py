"""The requests of the table of verbs: each is executed in one transaction.

A `Giver` sends a request, once for each Idempotency-Key. Other routes use it too.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, TypeAlias

from fastapi import Depends, Header
from pydantic import BaseModel
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from forewarn.admin import (
    blackout_shapes,
    bodies,
    campaign_shapes,
    choice_shapes,
    host_shapes,
    limits,
    shapes,
    window_shapes,
)
from forewarn.admin.access import Caller
from forewarn.admin.answers import answer, documented
from forewarn.admin.context import caller_of, v1_router
from forewarn.admin.decisions import Decision
from forewarn.admin.dry_run_shapes import DRY_RUN
from forewarn.admin.gateways import gateway_for
from forewarn.campaigns.record import CampaignRecord
from forewarn.control.gateway import CallerGateway
from forewarn.control.requests.idempotency import Once, Result
from forewarn.control.transactions.event_json import event_report
from forewarn.control.transactions.named import need
from forewarn.control.transactions.work import Who
from forewarn.fleet.model import Host, Scope
from forewarn.instants import Micros
from forewarn.protocol.errors import BadRequestError
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation, Request
from forewarn.reporting import reports
from forewarn.reporting.campaigns import campaign_report
from forewarn.reporting.choices import choice_report
from forewarn.reporting.wide_blackouts import wide_blackouts_report
from forewarn.reporting.windows import windows_report
from forewarn.store.port import Reader
from forewarn.store.records import Choice
from forewarn.verbs.model import Answer, Entry, Form
from forewarn.verbs.table import VERBS

REPEATED_HEADER = "Idempotent-Replayed"
"""Header that marks the result of an earlier request with the same key."""

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=limits.KEY_CHARACTERS_MAX,
        pattern="^[!-~]+$",
        description="A new text for each request, such as a UUID. A request that is "
        "sent again with its key within 24 hours is executed once, and gets the "
        "first result.",
    ),
]


_ADDED = ("dry_run", "revision")
"""Members that were added to requests, the newest last."""


def said_in(body: BaseModel) -> str:
    """Return a body as the text that the digest of a repeated request is made of.

    Members that were added later are left out while they have their defaults: a request
    that was executed before an upgrade can be repeated after it.
    """
    fields = type(body).model_fields
    unsaid = {
        name
        for name in _ADDED
        if name in fields and getattr(body, name) == fields[name].default
    }
    return body.model_dump_json(exclude=unsaid)


class Giver:
    """A caller that sends one request."""

    def __init__(
        self, gateway: CallerGateway, *, caller: Caller, path: str, key: str | None
    ) -> None:
        """Send requests to `gateway` on behalf of `caller`, once for each `key`."""
        self.gateway = gateway
        self.caller = caller
        self._path = path
        self._key = key
        self.is_repeated = False
        """Whether an earlier request with this key was executed."""

    def who(self, reason: str, *, is_dry_run: bool = False) -> Who:
        """Return the actor and the reason of the request."""
        return Who(actor=self.caller.actor, reason=reason, is_dry_run=is_dry_run)

    def once(self, said: str) -> Once | None:
        """Return the key with the digest of the request; None without a key."""
        if self._key is None:
            return None
        return Once(
            caller=self.caller.token_id or self.caller.name,
            key=self._key,
            digest=hashlib.sha256(f"{self._path}\n{said}".encode()).hexdigest(),
        )

    async def give(self, name: str, body: BaseModel, **made: str) -> Any:
        """Execute the request `name` of `DECISIONS`, and return its JSON value.

        For a repeated request it is the value of the first one.
        """
        order = Decision(
            name=name,
            body=body,
            caller=self.caller,
            once=self.once(said_in(body)),
            made=made,
        )
        return self.taken(await self.gateway.order(order.who, order))

    def taken(self, result: Result) -> Any:
        """Return the value of a result, and remember whether it is a repetition."""
        self.is_repeated = result.is_repeated
        return result.value

    def answer(self, content: Any, *, status: int = 200) -> JSONResponse:
        """Return a JSON response, marked if the request was a repetition."""
        response = answer(content, status=status)
        if self.is_repeated:
            response.headers[REPEATED_HEADER] = "true"
        return response


async def giver_of(request: HttpRequest, key: Key = None) -> Giver:
    """Return the sender of a request."""
    caller = caller_of(request)
    return Giver(
        gateway_for(request.app.state.gateway, caller),
        caller=caller,
        path=request.url.path,
        key=key,
    )


Giving = Annotated[Giver, Depends(giver_of)]


router = v1_router(tags=["orders"])


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


def _campaign(reader: Reader, made: str, now: Micros) -> dict[str, Any]:
    return campaign_report(reader, need(reader, CampaignRecord, made), now=now)


ANSWERS: Mapping[Answer, Told] = {
    Answer.REQUEST: Told(
        shape=shapes.MadeShape,
        report=lambda reader, made, now: reports.request_report(
            reader, need(reader, Request, made), now=now
        ),
        status=201,
    ),
    Answer.RESTORED: Told(
        shape=shapes.RestoredShape, report=lambda _, made, _now: {"restored": made}
    ),
    Answer.CANCELLED: Told(
        shape=shapes.CancelledShape,
        report=lambda reader, made, now: {
            "cancelled": [
                _operation(reader, operation_id, now) for operation_id in made
            ]
        },
    ),
    # Read the operations again, as the caller may see them.
    Answer.APPROVED: Told(
        shape=shapes.ApprovedShape,
        report=lambda reader, made, _: {
            "approved": [
                event_report(need(reader, Event, event_id)) for event_id in made
            ]
        },
    ),
    Answer.HOSTS: Told(
        shape=host_shapes.HostsShape,
        report=lambda reader, made, _: {
            "hosts": [
                reports.host_report(reader, need(reader, Host, host_id))
                for host_id in made
            ]
        },
    ),
    Answer.CHOICES: Told(
        shape=choice_shapes.ChosenShape,
        report=lambda reader, made, now: {
            "deferrals": [
                choice_report(need(reader, Choice, choice_id), now=now)
                for choice_id in made
            ]
        },
    ),
    Answer.SCOPES: Told(
        shape=window_shapes.ScopesShape,
        report=lambda reader, made, now: {
            "scopes": [
                windows_report(need(reader, Scope, scope_id), now=now)
                for scope_id in made
            ]
        },
    ),
    Answer.CAMPAIGN: Told(shape=campaign_shapes.CampaignShape, report=_campaign),
    Answer.CAMPAIGN_HOSTS: Told(
        shape=campaign_shapes.ChangedCampaignShape, report=_campaign
    ),
    Answer.BLACKOUTS: Told(
        shape=blackout_shapes.WideBlackoutsShape,
        report=lambda reader, _, now: wide_blackouts_report(reader, now=now),
    ),
    Answer.OPERATION: Told(shape=shapes.OperationShape, report=_operation),
}


def route_of(entry: Entry) -> Callable[[Any, Giver], Awaitable[Response]]:
    """Return the handler of a verb's requests."""
    answer_kind = ANSWERS[entry.answer]
    texts = ["reason", *(a.key for a in entry.arguments if a.form is Form.TEXT)]

    async def order(body: Any, giver: Giver) -> Response:
        check_texts(giver.caller, **{key: getattr(body, key) or "" for key in texts})
        result = await giver.give(entry.name, body)
        now = giver.gateway.now()
        report = await giver.gateway.read(
            lambda reader: answer_kind.report(reader, result["made"], now)
        )
        if entry.is_in_parts:
            report["refused"] = result["refused"]
        return giver.answer(report, status=answer_kind.status)

    order.__annotations__ |= {"body": bodies.BODIES[entry.name], "giver": Giving}
    return order


for _entry in VERBS.values():
    _told = ANSWERS[_entry.answer]
    router.add_api_route(
        f"/{_entry.name}",
        route_of(_entry),
        methods=["POST"],
        name=_entry.name.replace("-", "_"),
        description=_entry.text,
        status_code=_told.status,
        responses=documented(_told.shape, 400, 404, 409, 422, status=_told.status)
        | ({} if _told.status == HTTPStatus.OK else DRY_RUN),
    )
