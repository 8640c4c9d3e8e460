"""`store check` finds damage of the blackouts of the service."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from forewarn.store.check import check
from tests.unit.store.written import write_a_life

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


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("store") / "forewarn.db"
    write_a_life(file)
    return file


def damaged(written: Path, tmp_path: Path, damage: str) -> list[str]:
    file = Path(shutil.copy(written, tmp_path / "forewarn.db"))
    connection = sqlite3.connect(file)
    connection.execute(damage)
    connection.commit()
    connection.close()
    return [str(each) for each in check(file)]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_reported(written: Path, tmp_path: Path, damage: str) -> None:
    found = damaged(written, tmp_path, damage)
    assert any(DAMAGES[damage] in each for each in found), found


def test_right_blackout_is_no_damage(written: Path, tmp_path: Path) -> None:
    right = ROW.format("freeze", TIME, '["rack=r7"]', "operator", "why", 5)
    assert damaged(written, tmp_path, right) == []
