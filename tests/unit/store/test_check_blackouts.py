"""`store check` finds damage of the blackouts of the service."""

from pathlib import Path

import pytest

from tests.unit.store.written import damaged

TIME = '{"name":"freeze","begins":"2026-12-24T18:00","ends":"2027-01-02T06:00"}'
ROW = (
    "INSERT INTO blackouts (name, time, places, by, reason, since, revision) VALUES "
    "('{}', '{}', '{}', json_object('name', 'alice', 'kind', '{}'), '{}', {}, 0)"
)
DAMAGES = {
    ROW.format("other", TIME, "[]", "operator", "why", 5): "has the time of freeze",
    ROW.format("freeze", TIME, "[]", "platform", "why", 5): "freeze is redacted",
    ROW.format("freeze", TIME, "[]", "operator", "why", 0): "no time at which it was",
    ROW.format(
        "freeze", TIME, "[]", "operator", "", 5
    ): "blackout freeze has no reason",
    ROW.format("freeze", TIME, '["r7"]', "operator", "why", 5): "place without a kind",
    ROW.format("freeze", TIME.replace("2027", "2025"), "[]", "operator", "why", 5): (
        "has no valid time: until must be after from"
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_reported(written: Path, tmp_path: Path, damage: str) -> None:
    problems = damaged(written, tmp_path, damage)
    assert any(DAMAGES[damage] in problem for problem in problems), problems


def test_right_blackout_is_no_damage(written: Path, tmp_path: Path) -> None:
    right = ROW.format("freeze", TIME, '["rack=r7"]', "operator", "why", 5)
    assert damaged(written, tmp_path, right) == []
