"""Our ways to a frozen value, on any Python, give what the library's own gives."""

from __future__ import annotations

import copy
import dataclasses
import gc
import inspect
import weakref
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any, ClassVar

import pytest

from forewarn.protocol.frozen import frozen_dataclass
from forewarn.protocol.slotted import dataclass_with_slots

Decorator = Callable[[type[Any]], type[Any]]


def doors(make: Decorator) -> tuple[type[Any], type[Any]]:
    """Return two kinds, one of them made of the other."""

    @make
    class Opening:
        """A hole in a wall."""

        kind: ClassVar[str] = "any"
        width: int = 80
        names: list[str] = field(default_factory=list[str])

        def text(self) -> str:
            return f"{self.kind} of {self.width}"

    @make
    class Door(Opening):
        kind: ClassVar[str] = "door"
        color: str
        keys: tuple[str, ...] = ()
        count: int = field(init=False, compare=False, repr=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "count", len(self.keys))

    return Opening, Door


WAYS: dict[str, Decorator] = {
    "of Python 3.9": dataclass_with_slots,
    "here": frozen_dataclass,
}
THEIRS = doors(dataclass(frozen=True, slots=True, kw_only=True))


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Decorator:
    """Return one of our decorators."""
    return WAYS[request.param]


@pytest.fixture
def both(way: Decorator) -> tuple[type[Any], type[Any]]:
    """Return the two kinds, as we make them."""
    return doors(way)


@pytest.mark.parametrize("which", [0, 1])
def test_class_has_the_same_fields_slots_and_texts(
    both: tuple[type[Any], type[Any]], which: int
) -> None:
    ours, theirs = both[which], THEIRS[which]
    assert [column.name for column in fields(ours)] == [
        column.name for column in fields(theirs)
    ]
    assert ours.__slots__ == theirs.__slots__
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        if name != "__doc__" or which == 0:
            assert getattr(ours, name) == getattr(theirs, name)
    assert ours.__mro__[-2].__name__ == "Opening"


@pytest.mark.parametrize("which", [0, 1])
def test_arguments_are_the_same_and_only_by_name(
    both: tuple[type[Any], type[Any]], which: int
) -> None:
    ours, theirs = (inspect.signature(one_of[which]) for one_of in (both, THEIRS))
    assert list(ours.parameters) == sorted(
        theirs.parameters, key=list(ours.parameters).index
    )
    for parameter in ours.parameters.values():
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        other = theirs.parameters[parameter.name]
        assert (parameter.default is parameter.empty) == (other.default is other.empty)


def test_values_behave_the_same(both: tuple[type[Any], type[Any]]) -> None:
    door = both[1]
    kinds = [kind(color="red", keys=("brass",), width=90) for kind in (door, THEIRS[1])]
    ours, theirs = kinds
    assert repr(ours) == repr(theirs)
    assert ours.text() == theirs.text() == "door of 90"
    assert (ours.count, ours.names) == (1, [])
    assert ours.names is not door(color="red").names
    assert replace(ours, color="blue") == door(color="blue", keys=("brass",), width=90)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert copy.copy(ours) == copy.deepcopy(ours) == ours
    assert ours != door(color="red")
    assert not hasattr(ours, "__dict__")


def test_hash_is_that_of_the_fields(way: Decorator) -> None:
    @way
    class Key:
        number: int

    slotted: Any = Key
    assert hash(slotted(number=1)) == hash(slotted(number=1)) == hash((1,))


@pytest.mark.parametrize(
    "kind", [*(doors(construct)[1] for construct in WAYS.values()), THEIRS[1]]
)
def test_wrong_arguments_and_changes_are_refused(kind: type[Any]) -> None:
    with pytest.raises(TypeError):
        kind("red")
    with pytest.raises(TypeError):
        kind()
    with pytest.raises(TypeError):
        kind(color="red", colour="red")
    with pytest.raises(FrozenInstanceError):
        kind(color="red").width = 3
    with pytest.raises(FrozenInstanceError):
        del kind(color="red").width


def test_class_without_fields_is_supported(way: Decorator) -> None:
    @way
    class Nothing:
        pass

    assert Nothing() == Nothing()
    assert repr(Nothing()).endswith("Nothing()")


def test_custom_repr_of_a_class_is_kept(way: Decorator) -> None:
    @way
    class Secret:
        text: str

        def __repr__(self) -> str:
            return "***"

    slotted: Any = Secret
    assert repr(slotted(text="word")) == "***"


def test_original_class_is_not_kept_in_memory() -> None:
    class Parcel:
        """It is made again with slots."""

        weight: int = 1

    reference = weakref.ref(Parcel)
    slotted: Any = frozen_dataclass(Parcel)
    del Parcel
    gc.collect()
    assert reference() is None
    assert slotted.__slots__ == ("weight",)
