"""The hosts of a campaign over time: by cluster and rack, as rows, and one with its VMs."""

from typing import Annotated, Any, cast

from fastapi import Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forewarn.admin import limits, timeline_shapes
from forewarn.admin.answers import answer, documented
from forewarn.admin.campaign_memories import CampaignMemories
from forewarn.admin.context import Actor, RouteGateway, Service, v1_router
from forewarn.admin.history import check_order, instant_of
from forewarn.admin.lists import Name
from forewarn.admin.shared_reads import shared_answer
from forewarn.control.redaction import tenant_reader
from forewarn.control.requests import campaigns
from forewarn.control.rules.second_person import Asker
from forewarn.fleet.model import place
from forewarn.instants import Micros
from forewarn.reporting import campaign_rows
from forewarn.reporting.campaign_host import campaign_host as one_host
from forewarn.reporting.campaign_rows import RowSelection
from forewarn.reporting.campaign_states import HostState
from forewarn.reporting.campaign_tree import LANES_HOSTS_MAX
from forewarn.reporting.campaign_tree import campaign_tree as tree_of
from forewarn.reporting.expected import expected_of
from forewarn.reporting.outlook import outlook
from forewarn.store.port import Reader

router = v1_router(tags=["campaigns"])


class Spanned(BaseModel):
    """The time of a timeline."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    since: Name = Field(
        default="", description="Only what ends later: RFC 3339, or an age like `4h`."
    )
    until: Name = Field(default="", description="Only what begins earlier.")

    def span(self, now: Micros) -> tuple[Micros, Micros]:
        """Return both ends, 0 for one that is not given; raises BadRequestError."""
        first = instant_of("since", self.since, now=now) if self.since else 0
        last = instant_of("until", self.until, now=now) if self.until else 0
        if last:
            check_order(first, last)
        return first, last


class TreeQuery(Spanned):
    """The part of a campaign, and the time."""

    cluster: Name | None = Field(
        default=None,
        description="Only this cluster and its racks; empty: hosts without a cluster.",
    )


def _known_states(text: str) -> str:
    known = {state.value for state in HostState}
    for name in text.split(",") if text else ():
        if name not in known:
            raise ValueError(
                f"must be some of {', '.join(state.value for state in HostState)}"
            )
    return text


class RowQuery(Spanned):
    """The hosts of a campaign, their time, and paging."""

    zone: Name = Field(default="", description="Only hosts of this zone.")
    cluster: Name = Field(default="", description="Only hosts of this cluster.")
    rack: Name = Field(default="", description="Only hosts of this rack.")
    pool: Name = Field(default="", description="Only hosts of this pool.")
    state: Annotated[Name, AfterValidator(_known_states)] = Field(
        default="",
        description="Only hosts in these states, separated by commas.",
        examples=["failed,ready"],
    )
    after: Name = Field(default="", description="`next` of the previous page.")
    limit: int = Field(default=limits.TIMELINE_ROWS, ge=1, le=limits.TIMELINE_ROWS_MAX)

    def selection(self, now: Micros) -> RowSelection:
        """Return the hosts of the page."""
        first, last = self.span(now)
        named = ("rack", "cluster", "pool", "zone")
        return RowSelection(
            places=tuple(
                place(kind, name) for kind in named if (name := getattr(self, kind))
            ),
            states=frozenset(map(HostState, filter(None, self.state.split(",")))),
            first=first,
            last=last,
            after=self.after,
            limit=self.limit,
        )


@router.get(
    "/campaigns/{name}/tree",
    responses=documented(timeline_shapes.CampaignTreeShape, 400, 404),
)
async def campaign_tree(
    name: str,
    query: Annotated[TreeQuery, Query()],
    gateway: RouteGateway,
    service: Service,
    request: Request,
) -> Response:
    """Return the hosts of a campaign by cluster, and by rack if there are few racks.

    A campaign of more than 2,000 hosts has no racks here. After its first read, only what
    has changed is read.
    """
    now = gateway.now()
    first, last = query.span(now)

    memories = cast("CampaignMemories", request.app.state.campaign_memories)

    def read(reader: Reader) -> dict[str, Any]:
        campaign = campaigns.find(reader, name)
        if query.cluster is None and campaign.hosts > LANES_HOSTS_MAX:
            memory = memories.of(campaign.campaign_id)
            return memory.tree(reader, campaign, first=first, last=last, now=now)
        return tree_of(
            reader, campaign, cluster=query.cluster, first=first, last=last, now=now
        )

    # The caller's rights are checked for each request, and the same for all operators.
    # The shared answer does not depend on the token of the first caller.
    campaign = await gateway.read(lambda reader: campaigns.find(reader, name))
    key = ("tree", campaign.campaign_id, query)
    return await shared_answer(request, key, lambda: service.read(read))


@router.get(
    "/campaigns/{name}/outlook",
    responses=documented(timeline_shapes.CampaignOutlookShape, 400, 404),
)
async def campaign_outlook(
    name: str,
    query: Annotated[Spanned, Query()],
    gateway: RouteGateway,
    service: Service,
    actor: Actor,
    request: Request,
) -> Response:
    """Return when a campaign is expected to end, its budgets, windows and verbs."""
    now = gateway.now()
    asker = Asker(actor=actor, second_person=gateway.second_person)
    first, last = query.span(now)

    def read(reader: Reader) -> dict[str, Any]:
        known = tenant_reader.remembered(reader)
        expected = expected_of(known, campaigns.find(known, name), now=now)
        return outlook(expected, asker, first=first, last=last)

    campaign = await gateway.read(lambda reader: campaigns.find(reader, name))
    # The answer depends on the caller only where another person must approve.
    key = (
        "outlook",
        campaign.campaign_id,
        query,
        actor if asker.second_person else None,
    )
    return await shared_answer(request, key, lambda: service.read(read))


@router.get(
    "/campaigns/{name}/hosts",
    responses=documented(timeline_shapes.CampaignRowPage, 400, 404),
)
async def campaign_hosts(
    name: str,
    query: Annotated[RowQuery, Query()],
    gateway: RouteGateway,
    service: Service,
    request: Request,
) -> Response:
    """List the hosts of a campaign by name, with what each did, does and waits for.

    The work depends on the page, and not on the size of the campaign. A page can have few
    hosts, even none, and still have a next page.
    """
    now = gateway.now()
    selection = query.selection(now)

    def read(reader: Reader) -> dict[str, Any]:
        known = tenant_reader.remembered(reader)
        campaign = campaigns.find(known, name)
        return campaign_rows.campaign_rows(
            expected_of(known, campaign, now=now), selection
        )

    campaign = await gateway.read(lambda reader: campaigns.find(reader, name))
    key = ("hosts", campaign.campaign_id, query)
    return await shared_answer(request, key, lambda: service.read(read))


@router.get(
    "/campaigns/{name}/hosts/{host}",
    responses=documented(timeline_shapes.CampaignHostShape, 404),
)
async def campaign_host(name: str, host: str, gateway: RouteGateway) -> Response:
    """Return a host of a campaign with its VMs, its steps, and what the driver said."""
    now = gateway.now()

    def read(reader: Reader) -> dict[str, Any]:
        known = tenant_reader.remembered(reader)
        campaign = campaigns.find(known, name)
        return one_host(expected_of(known, campaign, now=now), host)

    return answer(await gateway.read(read))
