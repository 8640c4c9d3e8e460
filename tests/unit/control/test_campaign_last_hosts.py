"""Texts for operators about the last hosts of a campaign: they failed, or wait for a window."""

import pytest

from forewarn.control.requests import campaigns, windows
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.fleet.window_fields import window_of
from forewarn.instants import DAY, HOUR, MINUTE
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import Action
from forewarn.reporting import campaign_skips, expected
from tests.support.campaigns import ONE_STAGE, campaign, start, steer, waits_for
from tests.support.rollouts import world_of
from tests.support.worlds import World
from tests.unit.control.test_campaign_steps import STEPS, of

STRICT = "[campaign.tolerance]\nfailures = 0\nin_a_row = 0\n" + ONE_STAGE


def of_failing_vm() -> World:
    """Return a service with one host whose VM fails in its first attempt."""
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s0-0", times=3))
    return world_of([{"s0": 0}], driver=driver)


def reasons(service: World) -> list[str]:
    skips = service.read(
        lambda reader: campaign_skips.campaign_skips(reader, campaign(service))
    )
    return [skip["reason"] for skip in skips["skipped"]]


def test_halted_campaign_with_failed_hosts_only_names_retry_and_resume() -> None:
    service = of_failing_vm()
    start(service, STRICT)
    service.advance("1d")
    text = waits_for(service)
    assert "`forewarn campaign retry bios --failed` tries it again" in text
    assert "is halted until `forewarn campaign resume bios --reason TEXT`" in text
    steer(service, lambda work: campaigns.retry(work, "bios", []))
    service.advance(HOUR)
    assert campaign(service).done == 0
    steer(service, lambda work: campaigns.resume(work, "bios", by_all=True))
    service.advance("1d")
    assert campaign(service).done == 1


@pytest.mark.parametrize("has_steps", [True, False])
def test_failed_host_that_was_skipped_has_the_reason(*, has_steps: bool) -> None:
    if has_steps:
        service = of(1, "work fail")
        start(service, STEPS + ONE_STAGE, impact="none")
    else:
        service = of_failing_vm()
        start(service, ONE_STAGE)
    service.advance("4h")
    assert campaign(service).failed_hosts == ("h0000",)
    steer(
        service,
        lambda work: campaigns.skip(work, "bios", ["h0000"]),
        reason="broken DIMM",
    )
    (reason,) = reasons(service)
    assert "fail" in reason
    assert reason.endswith("; left out of campaign bios by alice: broken DIMM")


def test_retry_of_a_skipped_host_does_not_say_that_it_had_not_failed() -> None:
    service = of(2, "work fail")
    start(service, STEPS + ONE_STAGE, impact="none")
    service.advance("1d")
    steer(service, lambda work: campaigns.skip(work, "bios", ["h0000"]))
    with pytest.raises(
        RefusedError, match=r"h0000 is not a failed host|campaign bios is Done"
    ):
        steer(service, lambda work: campaigns.retry(work, "bios", ["h0000"]))


def test_host_that_missed_its_window_is_expected_in_the_next_one() -> None:
    service = world_of([{"s0": 0}, {"s1": 0}])
    service.advance((12 * HOUR - service.now) % DAY)
    service.order(
        lambda work: windows.set_windows(work, "s1", (window_of("02:30 1h"),))
    )
    service.settle()
    nights = '[[campaign.window]]\nstart = "22:00"\nlength = "6h"\ntimezone = "UTC"\n'
    start(service, '[campaign.expect]\nslow = "1h"\n' + nights + ONE_STAGE)
    service.advance(12 * HOUR)
    assert campaign(service).done == 1
    # The host can begin until an hour before the window closes at 04:00.
    service.clock.step(3 * HOUR + 20 * MINUTE)
    service.advance(MINUTE)
    assert campaign(service).done == 1
    end = service.read(
        lambda reader: expected.expected_of(
            reader, campaign(service), now=service.now
        ).end()
    )
    assert end is not None
    assert end > service.now + 12 * HOUR
