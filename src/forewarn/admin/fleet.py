"""The fleet: what is, as JSON or as a file, and how a file changes it."""

from collections.abc import Callable
from typing import Annotated, Any, cast

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import PlainTextResponse, Response

from forewarn.admin import bodies, limits, shapes
from forewarn.admin.answers import answer, documented
from forewarn.admin.context import Actor, Desk
from forewarn.admin.lists import Name
from forewarn.control import reports
from forewarn.control.work import Who
from forewarn.fleet import export
from forewarn.fleet.changes import Action, MergePlan
from forewarn.fleet.file import FleetText
from forewarn.protocol.errors import BadRequestError
from forewarn.store import kinds
from forewarn.store.kinds import Query as StoreQuery
from forewarn.store.port import Reader, Record, every

router = APIRouter(tags=["fleet"])

FLEET_TYPE = "application/toml"

_Report = Callable[[Reader, Any], dict[str, Any]]

_SECTIONS: tuple[tuple[str, StoreQuery[Any], _Report], ...] = (
    ("tenants", kinds.ALL_TENANTS, lambda _reader, one: reports.tenant_report(one)),
    ("scopes", kinds.ALL_SCOPES, reports.scope_report),
    ("hosts", kinds.ALL_HOSTS, reports.host_report),
    ("vms", kinds.ALL_VMS, lambda _reader, one: reports.vm_report(one)),
)
"""The parts of a fleet, in the order in which pages go through them."""


class FleetQuery(BaseModel):
    """Which page of the fleet is listed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    after: Name = Field(default="", description="`next` of the page before.")
    limit: int = Field(
        default=limits.PAGE_OBJECTS_MAX, ge=1, le=limits.PAGE_OBJECTS_MAX
    )


@router.get("/fleet", responses=documented(shapes.FleetPage, 400))
async def fleet(query: Annotated[FleetQuery, Query()], desk: Desk) -> Response:
    """List the fleet: tenants, scopes with who listens, hosts, VMs."""
    section, _, name = query.after.partition(":")
    names = [each for each, _, _ in _SECTIONS]
    if query.after and section not in names:
        raise BadRequestError(f"after: {query.after!r} is not the `next` of a page")
    first = names.index(section) if section else 0
    return answer(
        await desk.read(lambda reader: _page(reader, first, name, query.limit))
    )


def _page(reader: Reader, first: int, after: str, limit: int) -> dict[str, Any]:
    page: dict[str, Any] = {name: [] for name, _, _ in _SECTIONS}
    left = limit
    for name, query, report in _SECTIONS[first:]:
        rows = cast("list[Record]", reader.select(query, after=after, limit=left))
        page[name] = [report(reader, row) for row in rows]
        left -= len(rows)
        if left == 0:
            return {**page, "next": f"{name}:{rows[-1].key if rows else ''}"}
        after = ""
    return {**page, "next": None}


@router.get(
    "/fleet/export",
    response_class=PlainTextResponse,
    responses={200: {"content": {FLEET_TYPE: {}}}},
)
async def fleet_export(desk: Desk) -> Response:
    """Return the fleet as it is, as the text of a fleet file."""
    text = await desk.read(
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
    responses=documented(shapes.FleetCount, 400),
)
async def fleet_validate(body: bodies.FleetText, desk: Desk) -> Response:
    """Check a fleet file by itself; nothing is compared or changed."""
    return answer(dict(await desk.count_fleet(_text_of(body))))


@router.post(
    "/fleet/plan",
    responses=documented(shapes.PlanShape, 400, 409),
)
async def fleet_plan(body: bodies.FleetText, desk: Desk) -> Response:
    """Say what applying a fleet file would change; nothing is changed."""
    plan = await desk.merge_fleet(_text_of(body), who=None)
    return answer(_plan_report(plan, applied=False))


@router.post(
    "/fleet/apply",
    responses=documented(shapes.PlanShape, 400, 409),
)
async def fleet_apply(body: bodies.FleetText, desk: Desk, actor: Actor) -> Response:
    """Apply a fleet file: all of it, or nothing.

    Only what its author changed is changed: a VM that a migration moved stays.
    """
    who = Who(actor=actor, reason=body.reason)
    plan = await desk.merge_fleet(_text_of(body), who=who)
    return answer(_plan_report(plan, applied=True))


def _text_of(body: bodies.FleetText) -> FleetText:
    return FleetText(name=body.name, text=body.text, may_be_empty=body.allow_empty)


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
                    {"name": each.name, "before": each.before, "after": each.after}
                    for each in change.fields
                ],
            }
            for change in plan.changes
            if change.action is not Action.ADOPT
        ],
    }
