"""The hosts that a campaign leaves out, each with its reason."""

from typing import Any

import pytest

from forewarn.control.requests import campaigns
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.protocol.operations import Action
from forewarn.reporting import campaign_skips
from tests.support.campaigns import ONE_STAGE, campaign, start, steer
from tests.support.rollouts import name_of, world_of
from tests.support.worlds import World

TOLERANT = "[campaign.tolerance]\nfailures = 1\nin_a_row = 1\n" + ONE_STAGE


def of(hosts: int, *, driver: SimulatedDriver | None = None) -> World:
    return world_of([{f"s{number}": 0} for number in range(hosts)], driver=driver)


def skips(service: World) -> dict[str, Any]:
    return service.read(
        lambda reader: campaign_skips.campaign_skips(reader, campaign(service))
    )


def reasons(service: World) -> dict[str, str]:
    return {skip["host"]: skip["reason"] for skip in skips(service)["skipped"]}


def test_a_host_that_an_operator_skips_has_the_operators_reason() -> None:
    service = of(3)
    start(service)
    assert skips(service) == {"skipped_count": 0, "skipped": []}
    steer(
        service,
        lambda work: campaigns.skip(work, "bios", [name_of(2)]),
        reason="will be replaced",
    )
    assert reasons(service) == {
        name_of(2): "left out of campaign bios by alice: will be replaced"
    }
    assert skips(service)["skipped"][0]["stage"] == 1


def test_a_failed_host_that_is_given_up_has_its_failure() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s0-0", times=9))
    service = of(3, driver=driver)
    start(service, TOLERANT)
    while not campaign(service).failed:
        service.advance("1m")
    steer(service, lambda work: campaigns.skip(work, "bios", [name_of(0)]))
    assert list(reasons(service)) == [name_of(0)]
    assert "fail" in reasons(service)[name_of(0)]


def test_the_hosts_of_an_aborted_campaign_are_named_in_its_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(campaign_skips, "SKIPS_MAX", 2)
    service = of(4)
    start(service)
    steer(service, lambda work: campaigns.abort(work, "bios"))
    assert skips(service)["skipped_count"] == 4
    assert reasons(service) == {
        name_of(0): "campaign bios was aborted",
        name_of(1): "campaign bios was aborted",
    }
