"""Plans of campaigns."""

from fastapi import APIRouter
from starlette.responses import Response

from forewarn.admin import bodies, campaign_shapes
from forewarn.admin.answers import documented
from forewarn.admin.context import Desk
from forewarn.campaigns.text import CampaignText

router = APIRouter(tags=["campaigns"])


@router.post(
    "/campaigns/plan",
    responses=documented(campaign_shapes.CampaignPlanShape, 400, 409),
)
async def campaign_plan(body: bodies.CampaignFile, gateway: Desk) -> Response:
    """Return what a campaign file would do, without announcing or changing anything.

    The plan is a forecast. It says in which order hosts would be announced, which
    constraint binds, which hosts cannot be done, and when the campaign would end.
    """
    text = CampaignText(name=body.name, text=body.text)
    report = await gateway.plan_campaign(text, hosts_max=body.hosts_max)
    return Response(report, media_type="application/json")
