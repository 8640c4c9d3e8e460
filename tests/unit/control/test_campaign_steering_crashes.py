"""Campaigns that are steered through every arrow of their table, with a crash at any commit.

A new arrow needs a story here.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from forewarn.campaigns import lifecycle
from forewarn.campaigns.lifecycle import (
    CAMPAIGN_STEPS,
    ENDED,
    CampaignInput,
    CampaignState,
)
from forewarn.campaigns.record import CampaignRecord
from forewarn.control.requests import campaigns
from forewarn.control.transactions.work import Work
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import OperationState
from forewarn.store.sqlite import SqliteStore
from tests.support.campaigns import campaign, ended, start, steer
from tests.support.profiles import amounts
from tests.support.rollouts import check_of, name_of, world_of
from tests.support.worlds import CrashError

pytestmark = pytest.mark.amounts

HOSTS = 3

Decision = Callable[[Work], CampaignRecord]
Order = tuple[str, Decision]
"""An actor and its decision."""

HOSTS_IN_TURN = """
[campaign.budget]
in_flight = 1
[[campaign.stage]]
hosts = "100%"
"""


def pause(work: Work) -> CampaignRecord:
    return campaigns.pause(work, "bios")


def halt(work: Work) -> CampaignRecord:
    return campaigns.halt(work, "bios")


def resume(work: Work) -> CampaignRecord:
    return campaigns.resume(work, "bios", by_all=False)


def abort(work: Work) -> CampaignRecord:
    return campaigns.abort(work, "bios")


BEGIN: tuple[Order, ...] = (
    ("alice", pause),
    ("bob", pause),
    ("alice", resume),
    ("alice", halt),
    ("alice", pause),
    ("carol", resume),
    ("alice", resume),
    ("bob", resume),
    ("alice", halt),
    ("alice", resume),
)
"""Two operators pause a campaign, and one of them halts it meanwhile; then it runs."""

STORIES: dict[str, tuple[Sequence[Order], Sequence[Order], CampaignState]] = {
    "it runs to its end": (BEGIN, (), CampaignState.DONE),
    "the last host ends in a pause": (BEGIN, [("bob", pause)], CampaignState.DONE),
    "the last host ends in a halt": (BEGIN, [("bob", halt)], CampaignState.DONE),
    "it is aborted": ([("bob", abort)], (), CampaignState.ABORTED),
    "it is aborted in a pause": (
        [("bob", pause), ("bob", abort)],
        (),
        CampaignState.ABORTED,
    ),
    "it is aborted in a halt": (
        [("bob", halt), ("bob", abort)],
        (),
        CampaignState.ABORTED,
    ),
}
"""The orders at the start, those while the last host is in work, and the end."""


class Story:
    """A campaign of a few hosts, and its orders in turn."""

    def __init__(self, file: Path, name: str) -> None:
        first, last, self.end = STORIES[name]
        self.orders, self.last_orders = [*first], [*last]
        self.has_crashed = False
        self.world = world_of(
            [{f"s{number}": 0} for number in range(HOSTS)],
            store=lambda: SqliteStore(file),
        )

    def play(self) -> None:
        """Continue the story from any of its states to its end."""
        for _ in range(300):
            if campaign(self.world).state in ENDED:
                return
            if self.orders:
                self._give(self.orders)
            elif self.last_orders and self._is_last_in_work():
                self._give(self.last_orders)
            else:
                self.world.advance("1m")
        raise AssertionError(f"the campaign has not ended: {campaign(self.world)}")

    def _give(self, orders: list[Order]) -> None:
        actor, decision = orders[0]
        try:
            steer(self.world, decision, actor=actor)
        except RefusedError:
            # It was carried out before the crash. Otherwise the story has another end.
            assert self.has_crashed
        orders.pop(0)

    def _is_last_in_work(self) -> bool:
        states = [operation.state for operation in self.world.operations()]
        return (
            campaign(self.world).done == HOSTS - 1
            and OperationState.IMPACTING in states
        )

    def check(self) -> None:
        """Check the end, and that no host was rebooted twice."""
        record = campaign(self.world)
        assert record.state is self.end
        done = sorted(
            operation.host for operation in ended(self.world, OperationState.DONE)
        )
        started = [
            operation for operation in self.world.operations() if operation.started_at
        ]
        if self.end is CampaignState.DONE:
            assert done == [name_of(number) for number in range(HOSTS)]
        assert len(started) == len(done) == record.done


@pytest.mark.parametrize("name", STORIES)
def test_a_crash_at_any_commit_of_an_order_loses_nothing(
    tmp_path: Path, name: str
) -> None:
    for number in range(1, 200, amounts().crash_stride):
        file = tmp_path / f"{number}.db"
        story = Story(file, name)
        world = story.world
        start(world, HOSTS_IN_TURN)
        before = world.passed["committed"]
        world.crash_at = lambda place, count, at=before + number: (
            place == "committed" and count == at
        )
        try:
            story.play()
        except CrashError:
            story.has_crashed = True
            world.restart()
            assert check_of(world, file) == []
            story.play()
        story.check()
        world.store.close()
        if not story.has_crashed:
            break
    else:
        raise AssertionError("the story has more commits than were tried")


def test_every_arrow_of_the_table_is_in_a_story(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = set[tuple[CampaignState, CampaignInput]]()
    look_up = lifecycle.look_up

    def noting(table: object, state: CampaignState, given: CampaignInput) -> object:
        taken.add((state, given))
        return look_up(CAMPAIGN_STEPS, state, given)

    monkeypatch.setattr(lifecycle, "look_up", noting)
    for name in STORIES:
        story = Story(tmp_path / "store.db", name)
        start(story.world, HOSTS_IN_TURN)
        story.play()
        story.world.store.close()
        (tmp_path / "store.db").unlink()
    arrows = {(state, given) for state, row in CAMPAIGN_STEPS.items() for given in row}
    assert arrows - taken == set()
