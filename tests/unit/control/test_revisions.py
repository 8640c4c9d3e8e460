"""Each decision about a campaign changes its revision, and nothing else does."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from forewarn.campaigns.steering import revision_of
from forewarn.control.requests import brake, campaigns
from forewarn.control.requests.dry_run import ChangedError, check_revision
from forewarn.control.requests.verbs.campaigns import CAMPAIGN_DECISIONS
from forewarn.control.transactions.work import Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.protocol.operations import Action
from forewarn.verbs.model import VerbRequest
from tests.support.campaigns import campaign, start, steer
from tests.support.worlds import World
from tests.unit.control.test_campaign_tree import TWO_AT_ONCE, world_of
from tests.unit.control.test_outlook import ARGUMENTS, STAGES


def decide(world: World, verb: str) -> None:
    request = VerbRequest(
        targets=("bios",), values={"hosts": ("h0007",), **ARGUMENTS.get(verb, {})}
    )
    if verb not in {"campaign-add", "campaign-skip"}:
        request = VerbRequest(targets=("bios",), values=ARGUMENTS.get(verb, {}))

    def decision(work: Work) -> None:
        CAMPAIGN_DECISIONS[verb](work, request)

    world.order(decision, actor="bob", reason="a reason")


def until(world: World, is_so: Callable[[World], object]) -> None:
    for _ in range(600):
        if is_so(world):
            return
        world.advance("1m")
    raise AssertionError("it never came")


BEFORE: Mapping[str, Callable[[World], None]] = {
    "campaign-resume": lambda it: decide(it, "campaign-pause"),
    "campaign-add": lambda it: decide(it, "campaign-skip"),
    "campaign-retry": lambda it: until(it, lambda it: campaign(it).failed),
    "campaign-approve": lambda it: until(it, lambda it: campaign(it).done),
}
"""What must come before a decision."""


@pytest.mark.parametrize("verb", CAMPAIGN_DECISIONS)
def test_each_decision_changes_the_revision(verb: str) -> None:
    driver = SimulatedDriver()
    if verb == "campaign-retry":
        fault = Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s0-0", times=3)
        driver.inject(fault)
    world = world_of(8, driver=driver)
    start(world, STAGES if verb == "campaign-approve" else TWO_AT_ONCE)
    first = revision_of(campaign(world))
    BEFORE.get(verb, lambda _: None)(world)
    before = revision_of(campaign(world))
    decide(world, verb)
    after = revision_of(campaign(world))
    # An earlier revision never comes back: a resumption does not undo a pause.
    assert after not in {first, before}


def test_refusal_names_the_last_decision() -> None:
    world = world_of(8)
    start(world, TWO_AT_ONCE)
    revision = revision_of(campaign(world))
    decide(world, "campaign-pause")
    decide(world, "campaign-resume")
    with pytest.raises(ChangedError, match="campaign resumed by bob") as caught:
        world.read(lambda reader: check_revision(reader, "bios", revision))
    assert caught.value.reason == "a reason"
    now = revision_of(campaign(world))
    world.read(lambda reader: check_revision(reader, "bios", now))


def test_decisions_of_the_service_change_the_revision() -> None:
    world = world_of(8)
    start(world, TWO_AT_ONCE)
    revision = revision_of(campaign(world))
    steer(world, lambda work: brake.put_on(work, withdraw=True) and campaign_of(work))
    assert campaign(world).halt
    assert revision_of(campaign(world)) != revision


def campaign_of(work: Work) -> Any:
    return campaigns.find(work.tx, "bios")


def test_progress_of_hosts_leaves_the_revision() -> None:
    world = world_of(8)
    start(world, TWO_AT_ONCE)
    revision = revision_of(campaign(world))
    until(world, lambda it: campaign(it).done >= 3)
    assert revision_of(campaign(world)) == revision
