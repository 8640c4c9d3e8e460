"""`forewarn blackout`: what an operator sees and can do about blackouts of the service."""

import json
from collections.abc import Callable

import pytest

from forewarn.instants import DAY, cut_to_second, format_instant
from tests.unit.admin.gateway import START
from tests.unit.cli.conftest import Ended

Run = Callable[..., Ended]

UNTIL = format_instant(cut_to_second(START + 30 * DAY)).removesuffix("Z")
LINE = f"2020-01-01 {UNTIL} UTC"


@pytest.mark.usefixtures("service")
def test_blackout_is_set_shown_and_removed(forewarn: Run) -> None:
    assert forewarn("blackout", "show").out == "the service has no blackouts\n"
    ended = forewarn("blackout", "set", "freeze", LINE, "--reason", "quiet")
    assert ended.status == 0, ended.err
    assert ended.out.startswith(
        f"blackout freeze: 2020-01-01T00:00:00Z to {UNTIL}Z (now), "
        "the whole fleet, set by operator at "
    )
    assert ended.out.endswith(": quiet\n")
    (told,) = json.loads(forewarn("blackout", "show", "--json").out)["blackouts"]
    assert (told["name"], told["in_force"], told["where"]) == ("freeze", True, [])
    assert told["line"].startswith("freeze 2020-01-01T00:00 ")
    ended = forewarn("blackout", "remove", "freeze", "--reason", "over")
    assert (ended.status, ended.out) == (0, "the service has no blackouts\n")


@pytest.mark.usefixtures("service")
def test_host_waits_for_the_blackout_and_an_emergency_does_not(forewarn: Run) -> None:
    forewarn("blackout", "set", "freeze", LINE, "--reason", "quiet")
    assert forewarn("maintain", "h1", "--impact", "reboot").status == 0
    assert "blackout freeze forbids it until" in forewarn("explain", "h1").out
    (held,) = json.loads(forewarn("waits", "--json").out)["held"]
    assert (held["kind"], held["blackout"], held["campaign"], held["hosts"]) == (
        "blackout",
        "freeze",
        None,
        1,
    )
    shown = forewarn("waits")
    assert (shown.status, shown.err) == (0, "")
    assert "freeze" in shown.out


@pytest.mark.usefixtures("service")
def test_refusals_say_how_to_write_it(forewarn: Run) -> None:
    ended = forewarn("blackout", "set", "freeze", "tomorrow", "--reason", "quiet")
    assert ended.status != 0
    assert "is not a time of a blackout" in ended.err
    assert "hint: Write it like" in ended.err
    ended = forewarn("blackout", "remove", "other", "--reason", "over")
    assert "there is no blackout" in ended.err
    ended = forewarn("blackout", "set", "freeze", LINE)
    assert "a blackout needs a reason" in ended.err
    where = ("--where", "rack=none")
    ended = forewarn("blackout", "set", "freeze", LINE, *where, "--reason", "quiet")
    assert "no host stands at rack=none" in ended.err
