"""`campaign set` by the starter: it can allow the campaign less, and more only by another."""

from dataclasses import replace

import pytest

from forewarn.campaigns.loosening import loosened
from forewarn.control.requests import campaign_changes
from forewarn.protocol.errors import RefusedError
from tests.support.campaigns import ONE_STAGE, campaign, start, steer
from tests.support.worlds import World
from tests.unit.control.test_campaigns import of

TERMS = """
[campaign.budget]
in_flight = 2
unavailable = 3
overlap_notice = 1
[campaign.tolerance]
failures = 2
in_a_row = 2
vms_down = 4
[[campaign.blackout]]
name = "trading"
days = ["mon", "fri"]
start = "09:00"
length = "8h"
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
    {"blackout": "year-end 2031-12-24T18:00 2032-01-02T06:00"},
]


def running(*, is_strict: bool) -> World:
    it = of(4)
    it.plane.policy = replace(it.plane.policy, second_person=is_strict)
    start(it, TERMS + ONE_STAGE)
    return it


def change(it: World, values: dict[str, str], actor: str) -> None:
    steer(
        it,
        lambda work: campaign_changes.change(work, campaign(it), values),
        actor=actor,
    )


@pytest.mark.parametrize("values", MORE)
def test_starter_cannot_allow_more_alone(values: dict[str, str]) -> None:
    it = running(is_strict=True)
    before = campaign(it)
    with pytest.raises(
        RefusedError, match="alice started the campaign and cannot loosen"
    ):
        change(it, values, "alice")
    assert campaign(it) == before
    change(it, values, "bob")
    assert len(loosened(before, campaign(it))) == 1


@pytest.mark.parametrize("values", LESS)
def test_starter_can_allow_less_at_once(values: dict[str, str]) -> None:
    it = running(is_strict=True)
    before = campaign(it)
    change(it, values, "alice")
    assert loosened(before, campaign(it)) == ()


def test_refusal_names_the_terms_and_a_mixed_change_is_refused_whole() -> None:
    it = running(is_strict=True)
    with pytest.raises(
        RefusedError, match="cannot loosen in_flight, failures of"
    ) as error:
        change(it, {"in_flight": "3", "failures": "3", "in_a_row": "1"}, "alice")
    assert "second_person is on" in error.value.hint


def test_service_without_second_person_lets_the_starter_change_all() -> None:
    it = running(is_strict=False)
    for values in MORE:
        change(it, values, "alice")
