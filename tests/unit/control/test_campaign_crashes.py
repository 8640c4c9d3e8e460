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
        world = self.world
        for _ in range(300):
            world.advance("3m")
            row = campaign(world)
            if row.state is CampaignState.DONE:
                return
            self._act()
        raise AssertionError(f"the campaign has not ended: {campaign(world)}")

    def _act(self) -> None:
        world = self.world
        row = campaign(world)
        if row.state is CampaignState.HALTED:
            steer(world, lambda work: campaigns.resume(work, "bios", by_all=True))
        elif row.failed:
            steer(world, lambda work: campaigns.retry(work, "bios", []))
        elif row.soaks_until and not row.is_approved and not row.is_last_stage:
            steer(world, lambda work: campaigns.approve(work, "bios", 2))
        elif row.is_last_stage and not row.withdrawn and announced(world):
            steer(world, lambda work: campaigns.halt(work, "bios"))

    def check(self) -> None:
        """Check that each host was rebooted once, and nothing was lost."""
        world = self.world
        done = sorted(operation.host for operation in ended(world, OperationState.DONE))
        assert done == [name_of(number) for number in range(4)]
        row = campaign(world)
        assert (row.done, row.skipped, row.failed) == (4, 0, ())
        started = [
            operation for operation in world.operations() if operation.started_at
        ]
        assert len(started) == 5, "four hosts, and one failed attempt"


def test_a_crash_at_any_commit_loses_nothing(tmp_path: Path) -> None:
    for number in range(1, 200, amounts().crash_stride):
        file = tmp_path / f"{number}.db"
        story = Story(file)
        world = story.world
        start(world, STORY)
        before = world.passed["committed"]
        world.crash_at = lambda place, count, at=before + number: (
            place == "committed" and count == at
        )
        try:
            story.tell()
        except CrashError:
            world.restart()
            assert check_of(world, file) == []
            story.tell()
        else:
            break
        story.check()
        world.store.close()
    else:
        raise AssertionError("the story has more commits than were tried")


def commits_of(hosts: int) -> int:
    """Return the commits of a whole campaign of hosts, without its start."""
    world: World = world_of(
        [{f"s{number}": 0} for number in range(hosts)], store=MemoryStore
    )
    start(world, f'[campaign.budget]\nin_flight = "25%"\n{ONE_STAGE}')
    before = world.passed["committed"]
    while campaign(world).state is not CampaignState.DONE:
        world.advance("10m")
    return world.passed["committed"] - before


def test_commits_of_a_campaign_grow_with_its_hosts_and_not_with_the_waiting_ones() -> (
    None
):
    few = amounts().rollout_hosts // 8
    assert commits_of(8 * few) / 8 <= 1.3 * commits_of(few)
