"""`campaign set` by the starter: it can allow the campaign less, and more only by another."""

from dataclasses import replace

import pytest

from forewarn.campaigns.loosening import loosened
from forewarn.control.requests import campaign_changes
from forewarn.protocol.errors import RefusedError
from tests.support.campaigns import campaign, start, steer
from tests.support.worlds import World
from tests.unit.control.test_campaigns import of

TERMS = """
[campaign.budget]
in_flight = 2
unavailable = 3
overlap_notice = 1
tenant_vms = 10
[[campaign.budget.by]]
label = "rack"
max = 1
[campaign.tolerance]
failures = 2
in_a_row = 2
vms_down = 4
[[campaign.blackout]]
name = "trading"
days = ["mon", "fri"]
start = "09:00"
length = "8h"
[[campaign.window]]
start = "00:00"
length = "24h"
[[campaign.stage]]
hosts = 1
soak = "1h"
approval = true
"""

MORE = [
    {"in_flight": "3"},
    {"in_flight": "100%"},
    {"unavailable": "4"},
    {"unavailable": "none"},
    {"overlap_notice": "2"},
    {"failures": "3"},
    {"in_a_row": "3"},
    {"vms_down": "5"},
    {"tenant_vms": "11"},
    {"tenant_vms": "none"},
    {"by": "rack=2"},
    {"by": "rack=10%"},
    {"by": "rack=none"},
    {"of_last": "40"},
    {"soak": "1=30m"},
    {"approval": "1=no"},
    {"window": "12:00 4h"},
    {"remove_window": "00:00 24h"},
    {"remove_blackout": "trading"},
    {"blackout": "trading mon 09:00 1h"},
]

LESS = [
    {"in_flight": "1"},
    # Of 4 hosts.
    {"in_flight": "50%"},
    {"unavailable": "1"},
    {"overlap_notice": "0"},
    {"failures": "1"},
    {"in_a_row": "1"},
    {"vms_down": "0"},
    {"tenant_vms": "4"},
    {"by": "zone=1"},
    {"of_last": "60"},
    {"soak": "1=2h"},
    {"priority": "9"},
    {"blackout": "year-end 2031-12-24T18:00 2032-01-02T06:00"},
]


def running(*, is_strict: bool) -> World:
    world = of(4)
    world.plane.policy = replace(world.plane.policy, second_person=is_strict)
    start(world, TERMS)
    return world


def change(world: World, values: dict[str, str], actor: str) -> None:
    steer(
        world,
        lambda work: campaign_changes.change(work, campaign(world), values),
        actor=actor,
    )


@pytest.mark.parametrize("values", MORE)
def test_starter_cannot_allow_more_alone(values: dict[str, str]) -> None:
    world = running(is_strict=True)
    before = campaign(world)
    with pytest.raises(
        RefusedError, match="alice started the campaign and cannot loosen"
    ):
        change(world, values, "alice")
    assert campaign(world) == before
    change(world, values, "bob")
    assert len(loosened(before, campaign(world))) == 1


@pytest.mark.parametrize("values", LESS)
def test_starter_can_allow_less_at_once(values: dict[str, str]) -> None:
    world = running(is_strict=True)
    before = campaign(world)
    change(world, values, "alice")
    assert loosened(before, campaign(world)) == ()


def test_refusal_names_the_terms_and_a_mixed_change_is_refused_whole() -> None:
    world = running(is_strict=True)
    with pytest.raises(
        RefusedError, match="cannot loosen in_flight, failures of"
    ) as error:
        change(world, {"in_flight": "3", "failures": "3", "in_a_row": "1"}, "alice")
    assert "second_person is on" in error.value.hint


def test_service_without_second_person_lets_the_starter_change_all() -> None:
    world = running(is_strict=False)
    for values in MORE:
        change(world, values, "alice")
