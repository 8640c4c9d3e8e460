"""The maintenance windows of scopes."""

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from forewarn.admin.answers import answer, documented
from forewarn.admin.context import RouteGateway, v1_router
from forewarn.admin.lists import Name, Paged
from forewarn.admin.window_shapes import WindowsPage
from forewarn.control.transactions.named import need
from forewarn.fleet.model import Scope
from forewarn.reporting.windows import windows_report
from forewarn.store import kinds
from forewarn.store.port import Reader

router = v1_router(tags=["windows"])


class WindowQuery(Paged):
    """Filter and paging parameters of the windows."""

    scope: Name = Field(default="", description="Only this scope.")


@router.get("/windows", responses=documented(WindowsPage, 400, 404))
async def list_windows(
    query: Annotated[WindowQuery, Query()], gateway: RouteGateway
) -> Response:
    """List the scopes with maintenance windows, and when they open.

    With a scope, list it even if it has no window.
    """

    def ask(reader: Reader) -> dict[str, Any]:
        if query.scope:
            scopes = [need(reader, Scope, query.scope)]
        else:
            scopes = reader.select(
                kinds.SCOPES_WITH_WINDOW, after=query.after, limit=query.limit + 1
            )
        page = scopes[: query.limit]
        return {
            "windows": [windows_report(scope, now=gateway.now()) for scope in page],
            "next": page[-1].name if len(scopes) > query.limit else None,
        }

    return answer(await gateway.read(ask))
