"""A file that is replaced has its old content or the new, whatever was left beside it."""

from pathlib import Path

import pytest

from forewarn.replacing import replace_file, unfinished


def test_file_is_replaced_with_its_permissions(tmp_path: Path) -> None:
    file = tmp_path / "state"
    unfinished(file).write_bytes(b"left by a crash")
    replace_file(file, b"one", mode=0o600)
    replace_file(file, b"two", mode=0o600)
    assert file.read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_failed_replacement_leaves_the_old_content(tmp_path: Path) -> None:
    file = tmp_path / "state"
    replace_file(file, b"one", mode=0o600)
    unfinished(file).mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(file, b"two", mode=0o600)
    assert file.read_bytes() == b"one"
