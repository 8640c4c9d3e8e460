"""Values become JSON and come back, also from another version."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.agent.core.model import Memory, Note, Task
from forewarn.agent.journal import codec
from forewarn.agent.journal.port import JournalDamagedError
from tests.support.agent_journals import note_of, task_of


@given(st.from_type(Task))
def test_any_task_survives_a_round_trip(task: Task) -> None:
    assert codec.load(Task, codec.dump(task)) == task


@given(st.from_type(Note))
def test_any_note_survives_a_round_trip(note: Note) -> None:
    assert codec.load(Note, codec.dump(note)) == note


def test_a_default_is_not_written() -> None:
    assert codec.dump(Memory()) == "{}"


def test_unknown_and_missing_members_are_accepted() -> None:
    members = json.loads(codec.dump(note_of()))
    members["colour"] = "blue"
    del members["event_id"]
    assert codec.load(Note, json.dumps(members)).event_id == ""


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "1", "null", '{"at": "x"}', '{"kind": "seen"}', "[" * 9_000],
)
def test_invalid_text_is_reported_as_damage(text: str) -> None:
    with pytest.raises(JournalDamagedError):
        codec.load(Note, text)


def test_invalid_member_is_reported_as_damage() -> None:
    members = json.loads(codec.dump(task_of()))
    for name, wrong in (("stage", "odd"), ("steps", {}), ("mine", 1), ("notice", 3)):
        with pytest.raises(JournalDamagedError):
            codec.load(Task, json.dumps({**members, name: wrong}))
