"""The fleet at a glance, and objects by the beginning of their names; for operators."""

from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forewarn.admin import limits
from forewarn.admin.answers import answer, documented
from forewarn.admin.context import RouteGateway, Service, v1_router
from forewarn.admin.shapes import list_of, shape
from forewarn.admin.shared_reads import shared_answer
from forewarn.reporting.fleet_overview import fleet_overview
from forewarn.reporting.searching import search as found_in
from forewarn.store.port import Reader

router = v1_router(tags=["fleet"])

_COUNTS = (
    "Hosts by state: down, failed, working, announced, cordoned, up; without states that "
    "no host has."
)

OverviewClusterShape = shape(
    "OverviewClusterShape",
    "The hosts of a cluster.",
    cluster=(str, "Empty for hosts without a cluster."),
    hosts=int,
    counts=(dict[str, int], _COUNTS),
    done=(int, "Hosts that an open campaign has done."),
    racks=(
        list[list[str | int]],
        "Name, state of the worst host, hosts and done hosts of each rack.",
    ),
    squares=(
        list[list[str]],
        "Rack, name and state of each host; empty in a fleet of more than 1,000 hosts.",
    ),
)

FleetOverviewShape = shape(
    "FleetOverviewShape",
    "The state of all hosts.",
    at=(str, "When it was read; of a large fleet, some seconds ago."),
    hosts=int,
    vms=(int, "VMs on hosts, with places that are reserved for them."),
    counts=(dict[str, int], _COUNTS),
    clusters=list_of(OverviewClusterShape),
    at_least=(
        bool,
        "Whether more hosts are in work or failed: very many are not counted as such.",
    ),
)

FoundShape = shape(
    "FoundShape",
    "An object whose name or ID begins with the text.",
    kind=(str, "host, vm, campaign, operation, event, scope or tenant."),
    name=(str, "Its name or ID, for other requests."),
    title=(str, "Its name for people."),
    state=str | None,
    tenant=str | None,
    scope=(str | None, "Of a VM."),
    host=str | None,
    cluster=str | None,
    rack=str | None,
)

SearchShape = shape(
    "SearchShape",
    "Objects by the beginning of their names or IDs.",
    found=list_of(FoundShape),
    more=(bool, "Whether a kind has more than `limit` of them."),
)


class SearchQuery(BaseModel):
    """The beginning of names, and the number of objects."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    q: str = Field(
        min_length=1,
        max_length=limits.NAME_CHARACTERS_MAX,
        description="The beginning of a name or ID, in the same case.",
        examples=["web_"],
    )
    limit: int = Field(
        default=limits.FOUND,
        ge=1,
        le=limits.FOUND_MAX,
        description="Maximum objects of each kind.",
    )


@router.get("/fleet/overview", responses=documented(FleetOverviewShape))
async def overview(
    gateway: RouteGateway, service: Service, request: Request
) -> Response:
    """Return the state of all hosts by cluster and rack.

    In a large fleet, callers share an answer that is at most some seconds old.
    """
    now = gateway.now()

    def read(reader: Reader) -> dict[str, Any]:
        return fleet_overview(reader, now=now)

    # The caller's token is checked for each request. The shared answer does not depend on
    # it: the token may end, or the caller leave, while others wait.
    await gateway.read(lambda _reader: None)
    return await shared_answer(request, "overview", lambda: service.read(read))


@router.get("/search", responses=documented(SearchShape, 400))
async def search(
    query: Annotated[SearchQuery, Query()], gateway: RouteGateway
) -> Response:
    """Find hosts, VMs, campaigns, operations, events, scopes and tenants.

    The work does not depend on the size of the fleet.
    """
    found, has_more = await gateway.read(
        lambda reader: found_in(reader, query.q, limit=query.limit)
    )
    return answer({"found": found, "more": has_more})
