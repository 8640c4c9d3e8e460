"""`store check` finds damage of campaigns, and none in their usual states."""

from pathlib import Path

import pytest

from forewarn.control.requests import campaigns
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.protocol.operations import Action
from forewarn.store.check import check
from forewarn.store.sqlite import SqliteStore
from tests.support.campaigns import ONE_STAGE, campaign, start, steer
from tests.support.rollouts import check_of, world_of
from tests.support.worlds import World
from tests.unit.store.written import damaged

TOLERANT = "[campaign.tolerance]\nfailures = 1\nin_a_row = 1\n" + ONE_STAGE

DAMAGES = {
    "UPDATE campaigns SET state = 'Halted'": "is Halted, but its halt contradicts that",
    "UPDATE campaigns SET state = 'Paused'": "is Paused, but no pause is stored",
    "UPDATE campaigns SET state = 'Draft'": "is Draft, which is never stored",
    "UPDATE campaigns SET state = 'Done'": "but the time of its end contradicts that",
    "UPDATE campaigns SET done = done + 1": "hosts, but 2 have ended and 2",
    "UPDATE campaigns SET hosts = hosts + 1": "but its stages have other ones",
    "UPDATE campaigns SET stage = 7": "is in stage 7 of",
    "UPDATE campaigns SET request = 'ro-x'": "which is not its own",
    "DELETE FROM campaigns": "of campaign ca-",
    "UPDATE campaigns SET failed = json_array(json_array('h0000', 'op-x'))": (
        "has no operation op-x of its failed host h0000"
    ),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with a campaign of which one of three hosts has failed."""
    directory = tmp_path_factory.mktemp("store")
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s0-0", times=3))
    world = world_of(
        [{f"s{number}": 0} for number in range(3)],
        store=lambda: SqliteStore(directory / "forewarn.db"),
        driver=driver,
    )
    start(world, TOLERANT)
    world.advance("20m")
    assert campaign(world).failed_hosts == ("h0000",)
    world.store.close()
    return directory / "forewarn.db"


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_reported(written: Path, tmp_path: Path, damage: str) -> None:
    assert check(written) == []
    problems = damaged(written, tmp_path, damage)
    assert any(DAMAGES[damage] in problem for problem in problems), problems


def checked(world: World, file: Path) -> list[str]:
    """Check a copy of the file, and remove the copy."""
    violations = check_of(world, file)
    file.with_suffix(".copy").unlink()
    return violations


def test_a_campaign_with_only_failed_hosts_and_an_ended_one_are_valid(
    tmp_path: Path,
) -> None:
    file = tmp_path / "forewarn.db"
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, times=3))
    world = world_of([{"s": 0}], store=lambda: SqliteStore(file), driver=driver)
    start(world, TOLERANT)
    world.advance("2h")
    assert campaign(world).failed
    assert checked(world, file) == []
    steer(world, lambda work: campaigns.halt(work, "bios"))
    assert checked(world, file) == []
    steer(world, lambda work: campaigns.abort(work, "bios"))
    assert checked(world, file) == []
    world.store.close()
