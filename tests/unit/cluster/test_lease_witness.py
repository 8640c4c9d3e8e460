"""The judge of who leads finds each act of a replica that does not lead."""

import pytest

from tests.support.lease_witness import LATE_SECONDS, Act, Holding, faults

HELD = (
    Holding(1, "a", 10.0),
    Holding(1, "", 20.0),
    Holding(2, "b", 21.0),
    Holding(3, "a", 30.0),
)
"""Replica a leads from 10 to 20, b from 21 to 30, then a again."""


def act(replica: str, at: float) -> Act:
    return Act(replica, at, "op-1.1")


def test_acts_of_those_who_lead_are_right() -> None:
    right = (
        act("a", 10.0),
        act("a", 19.0),
        act("b", 22.0),
        act("b", 29.9),
        act("a", 31),
    )
    assert faults(HELD, right) == []


def test_program_can_start_a_little_after_its_call() -> None:
    assert faults(HELD, (act("a", 20 + LATE_SECONDS / 2),)) == []


@pytest.mark.parametrize(
    ("acted", "words"),
    [
        ((act("b", 15.0),), "before b has led"),
        ((act("a", 21.5),), "1.50 s after the end of term 1"),
        ((act("b", 31.0),), "1.00 s after the end of term 2"),
        ((act("b", 21.1), act("a", 21.3)), "the acts of terms 1 and 2 overlap"),
    ],
)
def test_acts_of_those_who_do_not_lead_are_found(
    acted: tuple[Act, ...], words: str
) -> None:
    assert any(words in fault for fault in faults(HELD, acted))
