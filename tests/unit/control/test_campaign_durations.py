"""A campaign measures its own hosts, and counts those that outlast their window."""

from forewarn.campaigns import progress
from forewarn.control.rules import campaign_gate
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import MINUTE, SECOND, format_instant
from forewarn.protocol.operations import Action
from tests.support.campaigns import ONE_STAGE, campaign, start
from tests.support.rollouts import world_of
from tests.support.worlds import World

EXPECT = '[campaign.expect]\ntypical = "1m"\nslow = "2m"\n'


def of(hosts: int, minutes: int) -> World:
    driver = SimulatedDriver(impacts={Action.REBOOT: minutes * MINUTE})
    return world_of([{f"s{number}": 0} for number in range(hosts)], driver=driver)


def window(service: World, length: str) -> str:
    opens = format_instant(service.now)[11:16]
    return f'[[campaign.window]]\nstart = "{opens}"\nlength = "{length}"\n'


def pass_until(service: World, hosts: int, *, step: str = "1m") -> None:
    for _ in range(2 * 24 * 60):
        if campaign(service).done == hosts:
            return
        service.advance(step)
    raise AssertionError(campaign(service))


def test_the_slow_time_grows_with_its_own_hosts_and_never_shrinks() -> None:
    service = of(12, 9)
    start(service, EXPECT + ONE_STAGE)
    assert campaign(service).slow == 2 * MINUTE
    pass_until(service, 9)
    assert campaign(service).slow == 2 * MINUTE
    pass_until(service, 10)
    assert campaign(service).slow == 9 * MINUTE
    # The next decision leaves this time before a window closes.
    assert campaign_gate.own_hours(campaign(service)).work == 9 * MINUTE
    quick = of(12, 1)
    start(quick, EXPECT + ONE_STAGE)
    pass_until(quick, 11)
    assert campaign(quick).slow == 2 * MINUTE


def test_hosts_that_outlast_their_window_are_counted() -> None:
    service = of(3, 20)
    start(service, window(service, "10m") + EXPECT + ONE_STAGE)
    pass_until(service, 1)
    assert campaign(service).overran == 1


def test_a_time_that_fits_into_no_window_is_not_used() -> None:
    service = of(12, 20)
    start(
        service,
        window(service, "10m")
        + EXPECT
        + "[campaign.budget]\nin_flight = 9\n"
        + ONE_STAGE,
    )
    pass_until(service, 12, step="5m")
    assert campaign(service).overran == 12
    assert progress.own_slow(campaign(service)) == 20 * MINUTE
    assert campaign(service).slow == 2 * MINUTE


def test_few_hosts_and_hosts_within_their_window_change_nothing() -> None:
    service = of(2, 1)
    record = start(service, window(service, "6h") + EXPECT + ONE_STAGE)
    timed = progress.host_timed(record, service.now, service.now + 5 * SECOND)
    assert (timed.overran, progress.own_slow(timed)) == (0, 2 * MINUTE)
    assert timed.works == (5 * SECOND,)
