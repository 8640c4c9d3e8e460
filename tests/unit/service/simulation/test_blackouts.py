"""Simulations, plans and the times of tenants agree about blackouts of the service."""

from collections.abc import Sequence
from typing import Any

import pytest

from forewarn.control.requests import blackouts
from forewarn.instants import DAY, HOUR, MINUTE, Micros, format_instant, parse_instant
from tests.support import campaigns
from tests.support.worlds import START, World
from tests.unit.control.test_upcoming import at, upcoming
from tests.unit.service.simulation.test_play import fleet, gap, simulation, world_of

HOSTS = 20
"""Two hosts in each of ten racks; each rack has a fault domain."""
BEGINS, ENDS = START - HOUR, START + DAY
ONCE = " ".join(format_instant(instant).removesuffix("Z") for instant in (BEGINS, ENDS))
DAILY = "mon,tue,wed,thu,fri,sat,sun 02:00 20h"
EXPECT = (
    "[campaign.budget]\nin_flight = 2\n"
    '[campaign.expect]\ntypical = "30m"\nslow = "30m"\n' + campaigns.ONE_STAGE
)
STOPPED = ["rack=r0", "rack=r1", "rack=r2"]
STOPPED_HOSTS = [f"h{number:04d}" for number in range(6)]


def with_blackout(line: str, where: Sequence[str] = ()) -> World:
    world = world_of(fleet(HOSTS, per_host=1))
    world.order(
        lambda work: blackouts.set_blackout(work, "freeze", line, where),
        actor="alice",
        reason="quiet",
    )
    world.settle()
    return world


def begins(found: Any) -> dict[str, Micros]:
    return {host["host"]: parse_instant(host["begins"]) for host in found["hosts"]}


def agrees(found: Any) -> None:
    """The forecast of the plan is near the end of the simulation."""
    forecast = gap(found["begins"], found["forecast_ends"])
    assert abs(gap(found["begins"], found["ends"]) - forecast) < 0.1 * forecast


@pytest.mark.parametrize("line", [ONCE, DAILY])
def test_blackout_of_the_fleet_stops_all_hosts(line: str) -> None:
    world = with_blackout(line)
    result = simulation(world, EXPECT, approve=0)
    assert (result["state"], result["done"]) == ("Done", HOSTS)
    agrees(result)
    assert {blackout["name"] for blackout in result["blackouts"]} == {"freeze"}
    for blackout in result["blackouts"]:
        opens, closes = (parse_instant(blackout[key]) for key in ("begins", "ends"))
        for host in result["hosts"]:
            announced, starts = (
                parse_instant(host[key]) for key in ("begins", "starts")
            )
            assert not opens <= announced < closes, host
            assert starts + 30 * MINUTE <= opens or starts >= closes, host


@pytest.mark.parametrize("line", [ONCE, DAILY])
def test_blackout_of_some_racks_lets_the_other_hosts_go_first(line: str) -> None:
    world = with_blackout(line, STOPPED)
    result = simulation(world, EXPECT, approve=0)
    assert (result["state"], result["done"]) == ("Done", HOSTS)
    agrees(result)
    begin_by_host = begins(result)
    if line == ONCE:
        assert min(begin_by_host[host] for host in STOPPED_HOSTS) >= ENDS
        others = [
            begin_by_host[host] for host in begin_by_host if host not in STOPPED_HOSTS
        ]
        assert max(others) < ENDS
    assert [blackout["name"] for blackout in result["blackouts"]][:1] == ["freeze"]


@pytest.mark.parametrize("where", [(), STOPPED])
def test_tenants_hear_a_time_that_is_kept(where: Sequence[str]) -> None:
    world = with_blackout(DAILY, where)
    campaigns.start(world, EXPECT)
    row_by_vm = {
        row["vm"]: row for number in range(4) for row in upcoming(world, f"t{number}")
    }
    assert len(row_by_vm) == HOSTS
    world.advance("10d")
    for operation in world.operations():
        for vm in operation.vms:
            assert operation.started_at >= at(row_by_vm[vm]["earliest"]), vm
            assert operation.started_at <= at(row_by_vm[vm]["latest"]), vm


def test_emergency_is_simulated_without_blackouts() -> None:
    world = with_blackout(ONCE)
    result = simulation(world, "emergency = true\n" + EXPECT, approve=0)
    assert result["blackouts"] == []
    assert parse_instant(result["ends"]) < ENDS
