"""A plan without any opening is refused, and names the blackouts that leave no time."""

from dataclasses import replace

import pytest

from forewarn.campaigns.model import Budget, Campaign
from forewarn.campaigns.never import Needs, needed, refusal
from forewarn.campaigns.part_blackouts import PartBlackout, StoppedPart
from forewarn.fleet.blackout_fields import blackout_of
from forewarn.fleet.windows import Window
from forewarn.instants import HOUR, MINUTE
from forewarn.protocol.errors import RefusedError
from forewarn.settings.amounts import Amount
from tests.unit.campaigns.test_plans import CAMPAIGN, NOW, SMALL, TERMS, planned

EVERY_DAY = (0, 1, 2, 3, 4, 5, 6)
ALWAYS = blackout_of("always 00:00 24h")
NIGHTS = blackout_of("nights 21:00 9h")
MORNINGS = blackout_of("mornings 06:00 6h")
AFTERNOONS = blackout_of("afternoons 12:00 12h")
EARLY = blackout_of("early 00:00 7h")
XMAS = blackout_of("xmas 2026-12-24 2026-12-27")
BY_NIGHT = Window(days=EVERY_DAY, start=22 * 60, length=4 * HOUR)
ONE_STAGE = replace(CAMPAIGN, stages=(), budget=Budget(in_flight=Amount(value=1)))


def needs(**changes: object) -> Needs:
    usual = Needs(at=NOW, notice=15 * MINUTE, work=30 * MINUTE)
    return replace(usual, **changes)


def refused(campaign: Campaign, **terms: object) -> RefusedError:
    with pytest.raises(RefusedError) as raised:
        planned(campaign, SMALL, replace(TERMS, **terms))
    return raised.value


def test_blackout_of_the_file_that_never_ends_is_named_with_its_place() -> None:
    error = refused(replace(ONE_STAGE, blackouts=(XMAS, ALWAYS)))
    assert error.message.startswith(
        "no opening ever comes for a host, which takes up to "
    )
    assert error.message.endswith(": blackout always leaves no time")
    assert error.hint == "Shorten [[campaign.blackout]] always in the file."


def test_blackout_of_the_service_that_covers_the_windows_is_named() -> None:
    error = refused(replace(ONE_STAGE, windows=(BY_NIGHT,)), blackouts=(NIGHTS,))
    assert error.message.endswith(": blackout nights leaves no time in its windows")
    assert error.hint == "Run `forewarn blackout remove nights --reason TEXT`."


def test_blackouts_that_leave_no_time_only_together_are_all_named() -> None:
    campaign = replace(ONE_STAGE, blackouts=(EARLY, XMAS, MORNINGS))
    error = refused(campaign, blackouts=(AFTERNOONS,))
    message = "blackout early, blackout mornings, blackout afternoons leave no time"
    assert error.message.endswith(message)
    assert error.hint == (
        "Shorten [[campaign.blackout]] early, mornings in the file, or run `forewarn "
        "blackout remove afternoons --reason TEXT`."
    )


def test_short_windows_are_no_fault_of_a_blackout() -> None:
    short = replace(BY_NIGHT, length=20 * MINUTE)
    error = refused(replace(ONE_STAGE, windows=(short,), blackouts=(XMAS,)))
    assert error.message.startswith("no window is long enough for a host")
    assert "[[campaign.window]]" in error.hint


def test_only_needed_blackouts_are_left() -> None:
    all_of_them = (EARLY, XMAS, MORNINGS, AFTERNOONS, ALWAYS)
    assert needed(needs(), all_of_them) == (ALWAYS,)
    assert needed(needs(), all_of_them[:-1]) == (EARLY, MORNINGS, AFTERNOONS)


def test_hosts_under_the_same_blackouts_are_counted() -> None:
    def part(line: str, *hosts: int) -> StoppedPart:
        time = PartBlackout(time=blackout_of(line), places=(("rack", "r0"),))
        return StoppedPart(blackout=time, hosts=frozenset(hosts))

    parts = (part("x 2026-12-24 2026-12-27", 0), part("all 00:00 24h", 1, 2, 3))
    error = refusal(needs(), parts)
    assert error.message.startswith("no opening ever comes for 3 hosts")
    # Time is left for each of them: only hosts that wait for others find none.
    later = refusal(needs(), parts[:1])
    assert "no window outside the blackouts is long enough" in later.message
