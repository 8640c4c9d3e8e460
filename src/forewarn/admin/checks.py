"""Checks: questions to other systems, and their last answers. For operators only."""

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from forewarn.admin.answers import answer, documented
from forewarn.admin.context import v1_router
from forewarn.admin.gateways import CheckGateway
from forewarn.admin.limits import NAME_CHARACTERS_MAX
from forewarn.admin.shapes import list_of, shape

CheckShape = shape(
    "CheckShape",
    "A check of [check.NAME].",
    name=str,
    kind=(str, "`promql`, `http` or `command`."),
    asks=(str, "The question, without secrets."),
    every=(str, "Time between two questions while the check is needed."),
    timeout=str,
    needed=(bool, "Whether a running campaign needs the check."),
    outcome=(str, "`pass`, `fail` or `unknown`."),
    reason=str,
    asked=(str | None, "Time of the last question, RFC 3339; null before the first."),
)

CheckList = shape("CheckList", "All checks.", checks=list_of(CheckShape))


class RunCheck(BaseModel):
    """A question has no arguments."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{}]})


def router(gateway: CheckGateway) -> APIRouter:
    """Return the routes of /v1/checks."""
    routes = v1_router(tags=["checks"])

    @routes.get("/checks", responses=documented(CheckList))
    async def checks() -> Response:
        """List the checks of [check.NAME] with their last results."""
        return answer({"checks": list(await gateway.checks())})

    @routes.post("/checks/{name}/run", responses=documented(CheckShape, 400, 404))
    async def run_check(
        name: Annotated[str, Path(max_length=NAME_CHARACTERS_MAX)],
        body: RunCheck,  # noqa: ARG001 - a POST has a body
    ) -> Response:
        """Ask a check now, and return its result. If it is being asked, wait for that
        answer."""
        return answer(await gateway.run_check(name))

    return routes
