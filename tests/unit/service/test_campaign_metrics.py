"""The metrics of campaigns follow their records, and are zero without campaigns."""

from forewarn.admin.meters import Reading
from forewarn.control.requests import campaigns
from forewarn.instants import HOUR, SECOND
from forewarn.service.campaign_metrics import OpenCampaigns
from tests.support.campaigns import campaign, start, steer
from tests.support.rollouts import world_of
from tests.support.worlds import World


def values(found: list[Reading]) -> dict[str, object]:
    return {each.meter.name.removeprefix("forewarn_"): each.values for each in found}


def read(world: World) -> OpenCampaigns:
    """Return the campaigns as the service reads them at its start."""
    found = OpenCampaigns(world.clock)
    world.read(found.load)
    return found


def test_metrics_of_a_campaign_from_its_start_to_its_end() -> None:
    it = world_of([{f"s{number}": 0} for number in range(3)])
    none = values(read(it).readings())
    assert none["campaigns"] == {"Running": 0, "Paused": 0, "Halted": 0}
    start(it)
    it.advance("30m")
    told = read(it)
    first = values(told.readings())
    assert first["campaigns"] == {"Running": 1, "Paused": 0, "Halted": 0}
    assert first["campaign_hosts"] == {"done": 1, "skipped": 0, "failed": 0, "left": 2}
    steer(it, lambda work: campaigns.halt(work, "bios"))
    halted = campaign(it)
    told.changed(halted.campaign_id, halted)
    assert values(told.readings()) == values(read(it).readings())
    causes = values(told.readings())["campaigns_halted"]
    assert isinstance(causes, dict)
    assert {cause for cause, number in causes.items() if number} == {"operator"}
    it.advance("2h")
    age = values(told.readings())["campaign_progress_age_seconds"]
    assert isinstance(age, float)
    assert age >= 2 * HOUR / SECOND
    steer(it, lambda work: campaigns.abort(work, "bios"))
    aborted = campaign(it)
    told.changed(aborted.campaign_id, aborted)
    assert values(told.readings()) == none
