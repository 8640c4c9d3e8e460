"""Changing frozen values: as `dataclasses.replace` does."""

from dataclasses import FrozenInstanceError, dataclass, replace

import pytest

from forewarn.protocol.frozen import changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    name: str
    is_open: bool = False
    keys: tuple[str, ...] = ()


FRONT = Door(name="front", keys=("brass",))


def test_the_fields_that_are_named_are_other_and_the_rest_is_kept() -> None:
    assert changed(FRONT, is_open=True) == replace(FRONT, is_open=True)
    assert changed(FRONT) == FRONT
    assert changed(FRONT, name="back", keys=()) == Door(name="back")
    assert (FRONT.name, FRONT.is_open, FRONT.keys) == ("front", False, ("brass",))


def test_what_comes_out_is_as_frozen_as_what_went_in() -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(changed(FRONT), "name", "back")  # noqa: B010


def test_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError):
        changed(FRONT, colour="red")
