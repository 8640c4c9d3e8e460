"""Plan, simulate, start, list and show campaigns; the table of verbs has the steering ones."""

from typing import Annotated

from fastapi import Path, Query
from pydantic import Field
from starlette.responses import Response

from forewarn.admin import (
    bodies,
    campaign_shapes,
    campaign_sums_shapes,
    limits,
    simulation_shapes,
)
from forewarn.admin.answers import answer, documented
from forewarn.admin.context import RouteGateway, v1_router
from forewarn.admin.dry_run_shapes import DRY_RUN
from forewarn.admin.lists import Ordered, Paged
from forewarn.admin.orders import Giving, Key, said_in
from forewarn.admin.shapes import shape
from forewarn.campaigns.simulated import Assumptions
from forewarn.campaigns.text import CampaignText
from forewarn.control.requests import campaigns
from forewarn.protocol.errors import NotFoundError
from forewarn.reporting import campaign_pages, campaign_reports
from forewarn.reporting.campaign_racks import campaign_racks as racks_of_campaign
from forewarn.reporting.campaign_skips import campaign_skips
from forewarn.reporting.campaign_sums import sums_and_figures
from forewarn.reporting.campaigns import campaign_report
from forewarn.store.port import Reader

router = v1_router(tags=["campaigns"])

CampaignProgressShape = shape(
    "CampaignProgressShape",
    "How far a plan or simulation has come.",
    part=(str, "waiting, reading, planning or playing."),
    done=(int, "Hosts that are done in this part."),
    of=(int, "Hosts of this part; 0: they are not counted."),
)


class CampaignQuery(Ordered):
    """Filters and paging parameters of the campaigns."""

    ended: bool = Field(
        default=False, alias="all", description="Include ended campaigns."
    )


@router.post(
    "/campaigns/plan",
    responses=documented(campaign_shapes.CampaignPlanShape, 400, 409),
)
async def campaign_plan(
    body: bodies.CampaignFile, gateway: RouteGateway, key: Key = None
) -> Response:
    """Return what a campaign file would do, without announcing or changing anything.

    The plan is a forecast. It says in which order hosts would be announced, which
    constraint binds, which hosts cannot be done, and when the campaign would end.
    """
    text = CampaignText(name=body.name, text=body.text, key=key or "")
    report = await gateway.plan_campaign(text, hosts_max=body.hosts_max)
    return Response(report, media_type="application/json")


@router.post(
    "/campaigns/simulate",
    responses=documented(simulation_shapes.CampaignSimulationShape, 400, 409),
)
async def campaign_simulate(
    body: bodies.CampaignSimulation, gateway: RouteGateway, key: Key = None
) -> Response:
    """Play a campaign on a copy of the fleet and a virtual clock, and return what happens.

    Nothing is announced or changed. Tenants approve and hosts fail by chance. The same
    seed, file, fleet and time of the request give the same result.
    """
    text = CampaignText(name=body.name, text=body.text, key=key or "")
    assumed = Assumptions(
        approve=None if body.approve_percent is None else body.approve_percent / 100,
        failures=body.failure_percent / 100,
        seed=body.seed,
    )
    report = await gateway.simulate_campaign(text, assumed, hosts_max=body.hosts_max)
    return Response(report, media_type="application/json")


@router.get(
    "/campaigns/progress/{key}",
    responses=documented(CampaignProgressShape, 404),
)
async def campaign_progress(
    key: Annotated[str, Path(max_length=limits.KEY_CHARACTERS_MAX)],
    gateway: RouteGateway,
) -> Response:
    """Return how far a plan or simulation has come, by its Idempotency-Key.

    There is progress while the request is under way.
    """
    progress = await gateway.campaign_progress(key)
    if progress is None:
        raise NotFoundError(
            "no campaign is planned or simulated with this key",
            hint="Send the Idempotency-Key of a request that has no answer yet.",
        )
    return answer(
        {"part": progress.part.value, "done": progress.done, "of": progress.of}
    )


@router.post(
    "/campaigns",
    responses={
        **DRY_RUN,
        **documented(campaign_shapes.CampaignShape, 400, 409, 422, status=201),
    },
    status_code=201,
)
async def campaign_start(body: bodies.CampaignStart, giver: Giving) -> Response:
    """Start a campaign, if its plan still has the given digest.

    The digest changes with the file and with the fleet, so that nothing is started that
    its operator has not seen. With `dry_run`, the file is planned again and the start is
    decided, and then everything is rolled back.
    """
    text = CampaignText(name=body.name, text=body.text)
    started = giver.taken(
        await giver.gateway.start_campaign(
            text,
            digest=body.digest,
            who=giver.who(body.reason, is_dry_run=body.dry_run),
            once=giver.once(said_in(body)),
        )
    )
    now = giver.gateway.now()
    report = await giver.gateway.read(
        lambda reader: campaign_report(reader, campaigns.find(reader, started), now=now)
    )
    return giver.answer(report, status=201)


@router.get("/campaigns", responses=documented(campaign_shapes.CampaignPage, 400))
async def campaign_list(
    query: Annotated[CampaignQuery, Query()], gateway: RouteGateway
) -> Response:
    """List campaigns: the open ones, or with `all` the ended ones too.

    A rollout of several hosts that no verb of campaigns has steered comes after the
    others, with the ID of the rollout; with `newest`, in the order of the starts.
    """
    now = gateway.now()

    def page(reader: Reader) -> dict[str, object]:
        # One more than the page has, to know whether there is another page.
        most = query.limit + 1
        campaigns = (
            campaign_pages.newest_of(
                reader, before=query.after, limit=most, with_ended=query.ended
            )
            if query.newest
            else campaign_pages.page_of(
                reader, after=query.after, limit=most, with_ended=query.ended
            )
        )
        shown = campaigns[: query.limit]
        return {
            "total": campaign_pages.total_of(reader, with_ended=query.ended),
            "campaigns": [
                campaign_report(reader, campaign, now=now) for campaign in shown
            ],
            "next": shown[-1].campaign_id if len(campaigns) == most else None,
        }

    return answer(await gateway.read(page))


@router.get(
    "/campaigns/{name}", responses=documented(campaign_shapes.CampaignShape, 404)
)
async def campaign_show(name: str, gateway: RouteGateway) -> Response:
    """Return one campaign, by its ID, or by its name the open or newest one.

    `/v1/operations?rollout=` lists its operations.
    """
    now = gateway.now()
    return answer(
        await gateway.read(
            lambda reader: campaign_report(
                reader, campaigns.find(reader, name), now=now
            )
        )
    )


@router.get(
    "/campaigns/{name}/file",
    responses=documented(campaign_shapes.CampaignFileShape, 404),
)
async def campaign_file(name: str, gateway: RouteGateway) -> Response:
    """Return the file that a campaign was started with, such as to plan it again."""

    def file(reader: Reader) -> dict[str, object]:
        campaign = campaigns.find(reader, name)
        return {"campaign": campaign.campaign_id, "text": campaign.text}

    return answer(await gateway.read(file))


@router.get(
    "/campaigns/{name}/sums",
    responses=documented(campaign_sums_shapes.CampaignSums, 404),
)
async def campaign_sums(name: str, gateway: RouteGateway) -> Response:
    """Return the sums of all attempts of a campaign, while it runs and later."""
    now = gateway.now()

    def sums(reader: Reader) -> dict[str, object]:
        campaign = campaigns.find(reader, name)
        return {
            "campaign": campaign.campaign_id,
            **sums_and_figures(reader, campaign, now=now),
            **campaign_skips(reader, campaign),
        }

    return answer(await gateway.read(sums))


@router.get(
    "/campaigns/{name}/racks",
    responses=documented(campaign_shapes.CampaignRacks, 404),
)
async def campaign_racks(name: str, gateway: RouteGateway) -> Response:
    """Return the numbers of hosts of a campaign by stage and rack."""
    return answer(
        await gateway.read(
            lambda reader: racks_of_campaign(reader, campaigns.find(reader, name))
        )
    )


@router.get(
    "/campaigns/{name}/skipped",
    responses=documented(campaign_shapes.CampaignSkips, 404),
)
async def campaign_skipped(name: str, gateway: RouteGateway) -> Response:
    """Return the hosts that a campaign leaves out, with the reason of each."""

    def skipped(reader: Reader) -> dict[str, object]:
        campaign = campaigns.find(reader, name)
        return {
            "campaign": campaign.campaign_id,
            **campaign_skips(reader, campaign),
        }

    return answer(await gateway.read(skipped))


@router.get(
    "/campaigns/{name}/report",
    responses=documented(campaign_shapes.CampaignReport, 400, 404),
)
async def campaign_attempts(
    name: str, query: Annotated[Paged, Query()], gateway: RouteGateway
) -> Response:
    """Return the result of each attempt on a host, while the campaign runs and later.

    An attempt is an operation. A host has several if it was retried, or if a halt withdrew
    its announcement.
    """
    now = gateway.now()

    def page(reader: Reader) -> dict[str, object]:
        campaign = campaigns.find(reader, name)
        attempts = campaign_reports.attempts(
            reader, campaign, after=query.after, limit=query.limit, now=now
        )
        return {"campaign": campaign.campaign_id, **attempts}

    return answer(await gateway.read(page))
