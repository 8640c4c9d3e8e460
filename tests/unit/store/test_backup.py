"""A backup is a complete copy of a store in use, or nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.store.backup import backup
from forewarn.store.check import check
from forewarn.store.port import StoreError
from tests.unit.store.written import write_a_life


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a store in which something of everything is under way."""
    file = tmp_path / "forewarn.db"
    write_a_life(file)
    return file


def leftovers(directory: Path) -> Iterator[Path]:
    return directory.glob(".*")


def test_backup_is_one_complete_private_file(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    assert backup(file, target) == target.stat().st_size
    assert check(target) == []
    assert target.stat().st_mode & 0o777 == 0o600
    assert not list(leftovers(tmp_path))
    assert not list(tmp_path.glob("copy.db-*"))


def test_backup_does_not_overwrite_a_file(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_text("precious")
    for path in (target, file):
        with pytest.raises(StoreError, match="exists already"):
            backup(file, path)
    assert target.read_text() == "precious"
    with pytest.raises(StoreError, match="there is no store"):
        backup(tmp_path / "missing", tmp_path / "new")
    with pytest.raises(StoreError, match="cannot be written"):
        backup(file, tmp_path / "no" / "where")
    (tmp_path / "empty").touch()
    with pytest.raises(StoreError, match="is empty"):
        backup(tmp_path / "empty", tmp_path / "new")
    assert not list(leftovers(tmp_path))
    assert not (tmp_path / "new").exists()
