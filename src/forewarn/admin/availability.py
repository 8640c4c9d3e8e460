"""Planned and unplanned downtime of VMs in a period."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from forewarn.admin import limits, period, shapes
from forewarn.admin.answers import answer, documented
from forewarn.admin.context import Desk
from forewarn.admin.lists import Name
from forewarn.fleet.availability import Period
from forewarn.reporting import uptime

router = APIRouter(tags=["history"])


class AvailabilityQuery(BaseModel):
    """VMs and period of a request for availability."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vm: Name = Field(default="", description="Only this VM.")
    scope: Name = Field(default="", description="Only VMs of this scope.")
    tenant: Name = Field(default="", description="Only VMs of this tenant.")
    since: Name = Field(
        default="7d",
        description="Start of the period: RFC 3339, or a duration before now.",
        examples=["2026-11-21T10:00:00Z", "30d"],
    )
    until: Name = Field(
        default="",
        description="End of the period, in the same form. Default: now.",
    )
    after: Name = Field(default="", description="`next` of the previous page.")
    limit: int = Field(default=limits.PAGE_OBJECTS, ge=1, le=limits.PAGE_OBJECTS_MAX)


@router.get("/availability", responses=documented(shapes.AvailabilityPage, 400, 404))
async def availability(
    query: Annotated[AvailabilityQuery, Query()], gateway: Desk
) -> Response:
    """List the downtime of VMs in a period by cause, and the time without records.

    `total` is the total of this page. Add the totals of all pages for the whole list.
    """
    now = gateway.now()
    since = period.instant_of("since", query.since or "7d", now=now)
    until = now
    if query.until:
        # There are no records of the future.
        until = min(now, period.instant_of("until", query.until, now=now))
    period.check_order(since, until)
    asked = uptime.Asked(
        period=Period(since=since, until=until),
        vm=query.vm,
        scope=query.scope,
        tenant=query.tenant,
    )
    return answer(
        await gateway.read(
            lambda reader: uptime.page(
                reader, asked, after=query.after, limit=query.limit
            )
        )
    )
