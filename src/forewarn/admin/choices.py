"""Deferrals and expedited maintenance of tenants."""

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from forewarn.admin.answers import answer, documented
from forewarn.admin.choice_shapes import ChoicesPage, ChosenShape
from forewarn.admin.context import RouteGateway, v1_router
from forewarn.admin.lists import Name, Paged
from forewarn.admin.orders import route_of
from forewarn.control.redaction.tenant_places import END_OF_KEYS
from forewarn.control.transactions.named import need
from forewarn.fleet.model import Scope
from forewarn.reporting.choices import choice_report, in_force
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.verbs.table import VERBS

router = v1_router(tags=["tenants"])


class ChoiceQuery(Paged):
    """Filter and paging parameters of the choices."""

    tenant: Name = Field(default="", description="Only choices of this tenant.")
    scope: Name = Field(default="", description="Only choices about this scope.")


@router.get("/tenant/deferrals", responses=documented(ChoicesPage, 400, 404))
async def list_choices(
    query: Annotated[ChoiceQuery, Query()], gateway: RouteGateway
) -> Response:
    """List what tenants have deferred or expedited in open rollouts."""

    now = gateway.now()

    def ask(reader: Reader) -> dict[str, Any]:
        if query.scope:
            need(reader, Scope, query.scope)
        choices = (
            choice
            for choice in every(reader, kinds.ALL_CHOICES)
            if choice.choice_id > query.after
            and query.tenant in {"", choice.tenant}
            and query.scope in {"", choice.scope}
        )
        page: list[dict[str, Any]] = []
        last = ""
        for choice in in_force(reader, choices):
            report = choice_report(choice, now=now)
            # A page ends between two targets: a key has an ID that tenants must not see.
            if len(page) >= query.limit and report["choice"] != last:
                return {"deferrals": page, "next": f"{last}/{END_OF_KEYS}"}
            last = report["choice"]
            page.append(report)
        return {"deferrals": page, "next": None}

    return answer(await gateway.read(ask))


router.add_api_route(
    "/tenant/deferrals",
    route_of(VERBS["defer"]),
    methods=["POST"],
    name="defer_by_tenant",
    description="Defer maintenance, as `/v1/defer`.",
    responses=documented(ChosenShape, 400, 404, 409, 422),
)
