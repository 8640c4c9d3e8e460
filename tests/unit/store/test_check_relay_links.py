"""`store check` finds damage of what is stored about relays."""

from pathlib import Path

import pytest

from tests.unit.store.written import damaged

ROW = (
    "INSERT INTO relay_links (host, term, silent_since, revision) "
    "VALUES ({}, {}, {}, 0)"
)
HOST = "(SELECT name FROM hosts LIMIT 1)"
DAMAGES = {
    ROW.format(
        "'h-unknown'", 1, 0
    ): "the relay of host h-unknown is of an unknown host",
    ROW.format(HOST, 1, -1): "is silent since no time",
    ROW.format(HOST, 99, 0): "was heard in term 99, which has not been",
    ROW.format(HOST, 0, 0): "was heard in term 0, which has not been",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_reported(written: Path, tmp_path: Path, damage: str) -> None:
    problems = damaged(written, tmp_path, damage)
    assert any(DAMAGES[damage] in problem for problem in problems), problems


@pytest.mark.parametrize("silent_since", [0, 5])
def test_right_row_is_no_damage(
    written: Path, tmp_path: Path, silent_since: int
) -> None:
    assert damaged(written, tmp_path, ROW.format(HOST, 1, silent_since)) == []
