"""A campaign survives a crash at any commit, and its cost does not grow with its hosts."""

from pathlib import Path

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.control.requests import campaigns
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.protocol.operations import Action, OperationState
from forewarn.store.memory import MemoryStore
from forewarn.store.sqlite import SqliteStore
from tests.support.campaigns import (
    ONE_STAGE,
    announced,
    campaign,
    ended,
    start,
    steer,
)
from tests.support.profiles import amounts
from tests.support.rollouts import check_of, name_of, world_of
from tests.support.worlds import CrashError, World

pytestmark = pytest.mark.amounts

STORY = """
[campaign.budget]
in_flight = 2
[[campaign.stage]]
hosts = 1
soak = "10m"
approval = true
[[campaign.stage]]
hosts = "100%"
"""


class Story:
    """A campaign with a canary that fails, an approval, a halt and a pause."""

    def __init__(self, file: Path) -> None:
        driver = SimulatedDriver()
        driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, times=3))
        self.world = world_of(
            [{f"s{number}": 0} for number in range(4)],
            store=lambda: SqliteStore(file),
            driver=driver,
        )

    def tell(self) -> None:
        """Continue the story from any of its states to its end."""
        it = self.world
        for _ in range(300):
            it.advance("3m")
            found = campaign(it)
            if found.state is CampaignState.DONE:
                return
            self._act()
        raise AssertionError(f"the campaign has not ended: {campaign(it)}")

    def _act(self) -> None:
        it = self.world
        found = campaign(it)
        if found.state is CampaignState.HALTED:
            steer(it, lambda work: campaigns.resume(work, "bios", by_all=True))
        elif found.failed:
            steer(it, lambda work: campaigns.retry(work, "bios", []))
        elif found.soaks_until and not found.is_approved and not found.is_last_stage:
            steer(it, lambda work: campaigns.approve(work, "bios", 2))
        elif found.is_last_stage and not found.withdrawn and announced(it):
            steer(it, lambda work: campaigns.halt(work, "bios"))

    def check(self) -> None:
        """Check that each host was rebooted once, and nothing was lost."""
        it = self.world
        done = sorted(each.host for each in ended(it, OperationState.DONE))
        assert done == [name_of(number) for number in range(4)]
        found = campaign(it)
        assert (found.done, found.skipped, found.failed) == (4, 0, ())
        started = [each for each in it.operations() if each.started_at]
        assert len(started) == 5, "four hosts, and one failed attempt"


def test_a_crash_at_any_commit_loses_nothing(tmp_path: Path) -> None:
    for number in range(1, 200, amounts().crash_stride):
        file = tmp_path / f"{number}.db"
        story = Story(file)
        it = story.world
        start(it, STORY)
        before = it.passed["committed"]
        it.crash_at = lambda place, count, at=before + number: (
            place == "committed" and count == at
        )
        try:
            story.tell()
        except CrashError:
            it.restart()
            assert check_of(it, file) == []
            story.tell()
        else:
            break
        story.check()
        it.store.close()
    else:
        raise AssertionError("the story has more commits than were tried")


def commits_of(hosts: int) -> int:
    """Return the commits of a whole campaign of hosts, without its start."""
    it: World = world_of(
        [{f"s{number}": 0} for number in range(hosts)], store=MemoryStore
    )
    start(it, f'[campaign.budget]\nin_flight = "25%"\n{ONE_STAGE}')
    before = it.passed["committed"]
    while campaign(it).state is not CampaignState.DONE:
        it.advance("10m")
    return it.passed["committed"] - before


def test_commits_of_a_campaign_grow_with_its_hosts_and_not_with_the_waiting_ones() -> (
    None
):
    few = amounts().rollout_hosts // 8
    assert commits_of(8 * few) / 8 <= 1.3 * commits_of(few)
