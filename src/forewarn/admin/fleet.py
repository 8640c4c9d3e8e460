"""The fleet as JSON and as a file, and changes by a fleet file."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Query
from fastapi.routing import APIRoute
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from forewarn.admin import bodies, fleet_shapes, limits
from forewarn.admin.answers import answer, documented
from forewarn.admin.context import RouteGateway, v1_router
from forewarn.admin.flat import FlatError, FlatObject
from forewarn.admin.fleet_selection import FleetSelection
from forewarn.admin.lists import Name, Selectors, checked
from forewarn.admin.orders import Giving
from forewarn.admin.selection import Wanted
from forewarn.control.redaction import tenant_reader
from forewarn.control.requests.idempotency import RepeatedError
from forewarn.fleet import export
from forewarn.fleet.file import FleetText
from forewarn.fleet.merge import Action, MergePlan
from forewarn.fleet.sources import removals_of
from forewarn.protocol.errors import BadRequestError
from forewarn.reporting import reports
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.questions import Query as StoreQuery


class _FleetRequest(Request):
    """A request whose body is parsed as it arrives if it is long."""

    _flat: FlatObject | None = None
    _first = b""
    _is_taken = False

    async def body(self) -> bytes:
        """Return the body, or a placeholder for a long body."""
        if self._is_taken:
            return self._first
        self._is_taken = True
        pieces: list[bytes] = []
        size = 0
        async for piece in self.stream():
            size += len(piece)
            if self._flat is not None:
                self._feed(piece)
                continue
            pieces.append(piece)
            if size > limits.ORDER_BYTES_MAX:
                self._flat = FlatObject()
                self._feed(b"".join(pieces))
                pieces.clear()
        self._first = b"".join(pieces) if self._flat is None else b"{}"
        return self._first

    def _feed(self, data: bytes) -> None:
        assert self._flat is not None
        # Each step takes about a millisecond of the event loop.
        for start in range(0, len(data), limits.FLEET_STEP_BYTES):
            try:
                self._flat.feed(data[start : start + limits.FLEET_STEP_BYTES])
            except FlatError as error:
                raise HTTPException(400, str(error)) from error

    async def json(self) -> Any:
        """Return the parsed body."""
        body = await self.body()
        if self._flat is None:
            return json.loads(body)
        try:
            return self._flat.finish()
        except FlatError as error:
            raise HTTPException(400, str(error)) from error


class _FleetRoute(APIRoute):
    """A route whose body can be a fleet file."""

    def get_route_handler(
        self,
    ) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, which gets the body as it arrives."""
        handle = super().get_route_handler()

        async def handle_fleet(request: Request) -> Response:
            return await handle(_FleetRequest(request.scope, request.receive))

        return handle_fleet


router = v1_router(tags=["fleet"], route_class=_FleetRoute)

FLEET_TYPE = "application/toml"

_Report = Callable[[Reader, Any], dict[str, Any]]

_SECTIONS: tuple[tuple[str, StoreQuery[Any], _Report], ...] = (
    ("tenants", kinds.ALL_TENANTS, lambda _reader, one: reports.tenant_report(one)),
    ("scopes", kinds.ALL_SCOPES, reports.scope_report),
    ("hosts", kinds.ALL_HOSTS, reports.host_report),
    ("vms", kinds.ALL_VMS, lambda _reader, one: reports.vm_report(one)),
)
"""The parts of a fleet in the order of the pages."""


class FleetQuery(Selectors):
    """Selectors and paging of the fleet: VMs, and all objects that have one of them."""

    after: Name = Field(
        default="",
        description="`next` of the previous page; `vms:` or `hosts:` begins with "
        "the first VM or host.",
    )
    limit: int = Field(
        default=limits.PAGE_OBJECTS_MAX, ge=1, le=limits.PAGE_OBJECTS_MAX
    )


@router.get("/fleet", responses=documented(fleet_shapes.FleetPage, 400, 404))
async def fleet(
    query: Annotated[FleetQuery, Query()], gateway: RouteGateway
) -> Response:
    """List the fleet: tenants, scopes with their enabled views, hosts, VMs.

    With a selector, a page can have fewer objects than `limit`, or none.
    """
    section, _, name = query.after.partition(":")
    names = [section for section, *_ in _SECTIONS]
    if query.after and section not in names:
        raise BadRequestError(f"after: {query.after!r} is not the `next` of a page")
    first = names.index(section) if section else 0

    return answer(
        await gateway.read(
            lambda reader: _page(
                reader, checked(reader, query), first, name, query.limit
            )
        )
    )


def _page(
    reader: Reader, wanted: Wanted, first: int, after: str, limit: int
) -> dict[str, Any]:
    page: dict[str, Any] = {name: [] for name, *_ in _SECTIONS}
    if wanted != Wanted():
        # The VMs decide about each section.
        reader = tenant_reader.remembered(reader)
    selected = FleetSelection(reader, wanted)
    left = limit
    for name, query, report in _SECTIONS[first:]:
        found, following = selected.page(name, query, after, left)
        page[name] = [report(reader, row) for row in found]
        if following:
            return {**page, "next": f"{name}:{following}"}
        left -= len(found)
        after = ""
    return {**page, "next": None}


@router.get(
    "/fleet/export",
    # Give no media type here: errors are JSON, and the type of the file is given below.
    response_class=Response,
    responses={
        **documented(fleet_shapes.FleetCount),
        200: {"content": {FLEET_TYPE: {"schema": {"type": "string"}}}},
    },
)
async def fleet_export(gateway: RouteGateway) -> Response:
    """Return the current fleet as the text of a fleet file."""
    text = await gateway.read(
        lambda reader: export.export_fleet(
            every(reader, kinds.ALL_TENANTS),
            every(reader, kinds.ALL_SCOPES),
            every(reader, kinds.ALL_HOSTS),
            every(reader, kinds.ALL_VMS),
        )
    )
    return Response(text, media_type=f"{FLEET_TYPE}; charset=utf-8")


@router.post(
    "/fleet/validate",
    responses=documented(fleet_shapes.FleetCount, 400),
)
async def fleet_validate(body: bodies.FleetText, gateway: RouteGateway) -> Response:
    """Check only the fleet file, without comparing or changing anything."""
    return answer(dict(await gateway.count_fleet(_text_of(body))))


@router.post(
    "/fleet/plan",
    responses=documented(fleet_shapes.PlanShape, 400, 409),
)
async def fleet_plan(body: bodies.FleetText, gateway: RouteGateway) -> Response:
    """Return the changes that a fleet file would make, without making them."""
    plan = await gateway.merge_fleet(_text_of(body), who=None)
    return answer(_plan_report(plan, applied=False))


@router.post(
    "/fleet/apply",
    responses=documented(fleet_shapes.PlanShape, 400, 409, 422),
)
async def fleet_apply(body: bodies.FleetText, giver: Giving) -> Response:
    """Apply a fleet file completely, or not at all.

    Only fields that the author changed are changed: a VM that a migration moved stays
    there. The response to a repeated request has the first lines of the plan, and no
    changes.
    """
    who = giver.who(body.reason)
    text = _text_of(body)
    # Hashing a large file takes a while, and releases the GIL.
    digest = await asyncio.to_thread(text.digest)
    request_text = json.dumps(
        [text.name, body.reason, text.may_be_empty, str(text.removals_max), digest]
    )
    try:
        plan = await giver.gateway.merge_fleet(
            text, who=who, once=giver.once(request_text)
        )
    except RepeatedError as repeated:
        report = giver.taken(repeated.result)
        return giver.answer({"applied": True, **report, "changes": []})
    return giver.answer(_plan_report(plan, applied=True))


def _text_of(body: bodies.FleetText) -> FleetText:
    return FleetText(
        name=body.name,
        text=body.text,
        may_be_empty=body.allow_empty,
        removals_max=removals_of(body.removals_max) if body.inventory else None,
    )


def _plan_report(plan: MergePlan, *, applied: bool) -> dict[str, Any]:
    return {
        "applied": applied,
        "is_empty": plan.is_empty,
        "lines": list(plan.lines()),
        "changes": [
            {
                "kind": change.kind.value,
                "action": change.action.value,
                "name": change.name,
                "fields": [
                    {"name": field.name, "before": field.before, "after": field.after}
                    for field in change.fields
                ],
            }
            for change in plan.changes
            if change.action is not Action.ADOPT
        ],
    }
