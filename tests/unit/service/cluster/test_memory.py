"""The file in which a replica remembers the highest number of its database."""

from pathlib import Path

import pytest

from forewarn.service.cluster.memory import ReplicaMemory


def test_number_is_remembered_for_its_database_only(tmp_path: Path) -> None:
    path = tmp_path / "forewarn.replica"
    memory = ReplicaMemory(path, "first")
    assert memory.number == 0
    memory.keep(7)
    memory.keep(5)
    assert ReplicaMemory(path, "first").number == 7
    assert path.stat().st_mode & 0o777 == 0o600
    assert [path_.name for path_ in tmp_path.iterdir()] == [path.name]
    other = ReplicaMemory(path, "second")
    assert other.number == 0
    other.keep(1)
    assert ReplicaMemory(path, "second").number == 1


def test_store_in_memory_has_no_file(tmp_path: Path) -> None:
    ReplicaMemory(tmp_path / "forewarn.replica", "").keep(7)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"database": "a", "number": "x"}']
)
def test_damaged_file_is_named_and_replaced(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "forewarn.replica"
    path.write_text(text)
    memory = ReplicaMemory(path, "a")
    assert memory.number == 0
    [message] = caplog.messages
    assert message.startswith(f"{path} cannot be used")
    memory.keep(3)
    assert ReplicaMemory(path, "a").number == 3


def test_file_that_cannot_be_written_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "state"
    memory = ReplicaMemory(directory / "forewarn.replica", "a")
    memory.keep(1)
    memory.keep(2)
    [message] = caplog.messages
    assert "cannot be written" in message
    directory.mkdir()
    memory.keep(2)
    assert ReplicaMemory(directory / "forewarn.replica", "a").number == 2
