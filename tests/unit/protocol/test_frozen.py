"""Changing frozen values: as `dataclasses.replace` does."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, fields, replace
from typing import Any

import pytest

from forewarn.protocol.frozen import changed, frozen_dataclass, maker_of, same_as
from forewarn.store.kinds import KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    name: str
    is_open: bool = False
    keys: tuple[str, ...] = ()


FRONT = Door(name="front", keys=("brass",))


def test_changed_replaces_only_the_named_fields() -> None:
    assert changed(FRONT, is_open=True) == replace(FRONT, is_open=True)
    assert changed(FRONT) == FRONT
    assert changed(FRONT, name="back", keys=()) == Door(name="back")
    assert (FRONT.name, FRONT.is_open, FRONT.keys) == ("front", False, ("brass",))


def test_changed_copy_is_also_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(changed(FRONT), "name", "back")  # noqa: B010


@frozen_dataclass
class Room:
    number: str

    key = same_as("number")


def test_second_name_of_a_field_is_not_a_field() -> None:
    room = Room(number="7")
    assert (room.key, changed(room, number="8").key) == ("7", "8")
    assert [field.name for field in fields(Room)] == ["number"]
    with pytest.raises(FrozenInstanceError):
        setattr(room, "key", "9")  # noqa: B010


def test_maker_builds_an_instance_from_values() -> None:
    make = maker_of(Door, ["keys", "name", "is_open"])
    door = make([("brass",), "front", False])
    assert door == FRONT
    assert type(door) is Door
    assert hash(door) == hash(FRONT)
    with pytest.raises(FrozenInstanceError):
        setattr(door, "name", "back")  # noqa: B010
    with pytest.raises(ValueError, match="values to unpack"):
        make([(), "front"])


def test_maker_without_all_fields_is_refused() -> None:
    with pytest.raises(AssertionError, match="names must be all fields"):
        maker_of(Door, ["keys", "name"])


def test_unknown_field_is_refused() -> None:
    with pytest.raises(AttributeError):
        changed(FRONT, colour="red")


def test_class_with_post_init_checks_is_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Checked:
        number: int

        def __post_init__(self) -> None:
            assert self.number

    with pytest.raises(AssertionError, match="its checks would be skipped"):
        changed(Checked(1), number=0)


@pytest.mark.parametrize("kind", KINDS)
def test_every_record_can_be_changed(kind: type[Any]) -> None:
    """It leaves out what a class would do when it is made: nothing, for these."""
    record: Any = object.__new__(kind)
    for field in fields(kind):
        object.__setattr__(record, field.name, field.name)
    assert changed(record) == record
    assert changed(record, revision=7).revision == 7
