"""The file of a relay: written before a document is served, or removed."""

import json
import os
from pathlib import Path

import pytest

from forewarn.instants import SECOND
from forewarn.relay import knowledge
from forewarn.relay.memory import Memory
from tests.unit.relay.test_knowledge import HELD


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "relay.json"
    memory = Memory(path)
    memory.write(HELD)
    os.utime(path, (100, 100))
    assert memory.read() == (HELD, 100 * SECOND)
    assert path.stat().st_mode & 0o077 == 0
    memory.note_heard()
    assert memory.read()[1] > 100 * SECOND
    assert [path.name for path in tmp_path.iterdir()] == ["relay.json"]


def test_a_missing_file_means_that_nothing_is_known(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert Memory(tmp_path / "relay.json").read() == (knowledge.Knowledge(), 0)
    assert not caplog.records


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"position": "1.2.a"})])
def test_a_damaged_file_means_that_nothing_is_known(tmp_path: Path, text: str) -> None:
    path = tmp_path / "relay.json"
    path.write_text(text, encoding="utf-8")
    assert Memory(path).read()[0] == knowledge.Knowledge()


def test_a_file_that_cannot_be_replaced_is_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "relay.json"
    memory = Memory(path)
    memory.write(HELD)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    memory.write(HELD)
    memory.write(HELD)
    # An older document must not come back after a restart.
    assert [*tmp_path.iterdir()] == []
    assert caplog.text.count("No space left on device") == 1
    monkeypatch.undo()
    memory.write(HELD)
    assert memory.read()[0] == HELD
