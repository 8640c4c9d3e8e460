"""The coming work on the VMs of a tenant."""

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from forewarn.admin.answers import answer, documented
from forewarn.admin.choice_shapes import UpcomingPage
from forewarn.admin.context import RouteGateway, v1_router
from forewarn.admin.lists import Name, Paged
from forewarn.control.redaction.tenant_reader import TenantReader
from forewarn.control.transactions.named import need
from forewarn.fleet.model import Scope, Tenant, Vm
from forewarn.protocol.errors import BadRequestError
from forewarn.reporting.upcoming import upcoming_report
from forewarn.store.port import Reader

router = v1_router(tags=["tenants"])

UNNAMED_TENANT = "name the tenant whose coming work to list"
NAME_TENANT = "Add --tenant NAME, or use a token of the tenant."


class UpcomingQuery(Paged):
    """Filter and paging parameters of the coming work."""

    tenant: Name = Field(
        default="", description="The tenant; required without a tenant's token."
    )
    scope: Name = Field(default="", description="Only VMs of this scope.")
    vm: Name = Field(default="", description="Only this VM.")


@router.get("/tenant/upcoming", responses=documented(UpcomingPage, 400, 404))
async def list_upcoming(
    query: Annotated[UpcomingQuery, Query()], gateway: RouteGateway
) -> Response:
    """List the announced and planned work on the VMs of a tenant, and when it begins.

    An operator gets exactly what the tenant gets. `limit` counts the VMs that are looked
    at, and at most 200 are, so a page can have little work although another one follows.
    """
    now = gateway.now()

    def ask(reader: Reader) -> dict[str, Any]:
        if query.tenant:
            need(reader, Tenant, query.tenant)
        own = _reader_for_tenant(reader, query.tenant)
        if query.scope:
            need(own, Scope, query.scope)
        if query.vm:
            need(own, Vm, query.vm)
        page = own.upcoming(
            scope=query.scope,
            vm=query.vm,
            after=query.after,
            limit=query.limit,
            now=now,
        )
        return {
            "upcoming": [upcoming_report(operation) for operation in page.work],
            "next": page.next or None,
        }

    return answer(await gateway.read(ask))


def _reader_for_tenant(reader: Reader, tenant: str) -> TenantReader:
    """Return the reader of the tenant; raises BadRequestError if none is named."""
    if isinstance(reader, TenantReader):
        return reader
    if not tenant:
        raise BadRequestError(
            UNNAMED_TENANT,
            hint=NAME_TENANT,
        )
    return TenantReader(reader, tenant)
