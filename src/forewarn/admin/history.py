"""What was: the trail of every change, by what it is about."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from forewarn.admin import limits, selection, shapes
from forewarn.admin.answers import answer, documented
from forewarn.admin.context import Desk
from forewarn.admin.lists import Name
from forewarn.control import reports
from forewarn.instants import Micros, parse_duration, parse_instant
from forewarn.protocol.errors import BadRequestError
from forewarn.protocol.operations import Request
from forewarn.store import kinds
from forewarn.store.port import Reader

router = APIRouter(tags=["history"])


class HistoryQuery(BaseModel):
    """Which lines of the history are listed; several conditions must all hold."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vm: Name = Field(default="", description="Only what concerns this VM.")
    operation: Name = Field(
        default="", description="Only this operation, rollout or request."
    )
    event: Name = Field(default="", description="Only this event; a GUID in any case.")
    host: Name = Field(default="", description="Only what concerns this host.")
    scope: Name = Field(default="", description="Only what concerns this scope.")
    tenant: Name = Field(default="", description="Only what concerns this tenant.")
    since: Name = Field(
        default="",
        description="Only from here on: RFC 3339, or a duration for so long ago.",
        examples=["2026-11-21T10:00:00Z", "24h"],
    )
    after: Name = Field(default="", description="`next` of the page before.")
    limit: int = Field(default=limits.PAGE_OBJECTS, ge=1, le=limits.PAGE_OBJECTS_MAX)

    def subjects(self, reader: Reader) -> list[str]:
        """Return what the lines must be about."""
        found = {
            "vm": self.vm,
            "event": self.event.upper(),
            "host": self.host,
            "scope": self.scope,
            "tenant": self.tenant,
        }
        is_request = reader.get(Request, self.operation) is not None
        found["request" if is_request else "operation"] = self.operation
        return [f"{kind}:{name}" for kind, name in found.items() if name]


@router.get("/history", responses=documented(shapes.HistoryPage, 400))
async def history(query: Annotated[HistoryQuery, Query()], desk: Desk) -> Response:
    """List who did what, when and why, the oldest first."""
    after = query.after or _before(query.since, now=desk.now())

    def ask(reader: Reader) -> dict[str, Any]:
        subjects = query.subjects(reader)
        found, following = selection.scan(
            reader,
            kinds.AUDIT_OF_SUBJECT if subjects else kinds.ALL_AUDIT,
            subjects[0] if subjects else "",
            matches=lambda entry: all(each in entry.subjects for each in subjects),
            after=after,
            limit=query.limit,
        )
        return {
            "entries": [reports.audit_report(entry) for entry in found],
            "next": following or None,
        }

    return answer(await desk.read(ask))


def _before(since: str, *, now: Micros) -> str:
    """Return a key before all entries from `since` on: they sort by their time."""
    if not since:
        return ""
    try:
        if since[:1].isdigit() and "T" in since:
            instant = parse_instant(since)
        else:
            instant = now - parse_duration(since)
    except ValueError as error:
        raise BadRequestError(
            f"since: {error}", hint="write a time, or a duration for so long ago"
        ) from error
    return f"{max(0, instant):017d}"
