"""Frozen dataclasses, and fast functions to create and copy their instances.

`frozen_dataclass` is the decorator for all values that the agent shares with other
packages. It supports Python 3.9.

`changed` and `maker_of` create an instance five times as fast as its constructor. Speed
matters: every transition, and every read and write of a store, creates instances. The
two functions work for frozen dataclasses with slots and without `__post_init__`. The
constructor of a frozen class is slow because it sets each field past a guard. These
functions fill an instance of an unguarded class with the same slots, and then set its
`__class__` to the frozen class. Pure.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

T = TypeVar("T")

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform

    @dataclass_transform(
        frozen_default=True,
        kw_only_default=True,
        field_specifiers=(dataclasses.field,),
    )
    def frozen_dataclass(kind: type[T]) -> type[T]:
        """Make `kind` a frozen dataclass with slots and keyword-only arguments."""
        ...

else:
    if sys.version_info < (3, 10):
        from forewarn.protocol.slotted import dataclass_with_slots
    else:
        dataclass_with_slots = dataclasses.dataclass(  # novm
            frozen=True,
            slots=True,
            kw_only=True,
        )

    def frozen_dataclass(kind: type[T]) -> type[T]:
        has_repr = "__repr__" in vars(kind)
        # Some Python versions copy it to the new class, where it keeps `kind` in memory.
        with contextlib.suppress(AttributeError):
            del kind.__weakref__
        slotted = dataclass_with_slots(kind)
        # One function for all classes: one per class would take a twentieth of the
        # memory of an agent.
        slotted.__setattr__ = _refuse_assignment
        slotted.__delattr__ = _refuse_deletion
        if not has_repr:
            slotted.__repr__ = _shown
        return slotted


class Tagged:
    """Base of the members of a closed union: a store writes each with its `kind`."""

    __slots__ = ()
    kind: ClassVar[str]

    def __init_subclass__(cls, *, kind: str = "") -> None:
        """Set the kind. A dataclass with slots is created twice; the copy has it already."""
        if kind:
            cls.kind = kind


def _refuse_assignment(_self: object, name: str, _value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(_self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _shown(self: Any) -> str:
    fields = (field for field in dataclasses.fields(self) if field.repr)
    values = ", ".join(
        f"{field.name}={getattr(self, field.name)!r}" for field in fields
    )
    return f"{type(self).__qualname__}({values})"


def changed(value: T, **fields: object) -> T:
    """Return a copy of the value with these fields changed."""
    return _copier_of(type(value))(value, fields)


def same_as(field: str) -> str:
    """Return an attribute of a class that reads another field, without a call of Python."""
    return cast("str", property(attrgetter(field)))


def maker_of(kind: type[T], names: Sequence[str]) -> Callable[[Iterable[Any]], T]:
    """Return a function that creates a `kind` from values in the order of `names`.

    `names` must have all of its fields. Each call checks the number of values.
    """
    assert sorted(names) == sorted(_names_of(kind)), "names must be all fields"
    targets = "".join(f"made.{name}, " for name in names)
    return _compiled(kind, "values", f"    {targets}= values\n")


@functools.cache
def _copier_of(kind: type[T]) -> Callable[[T, Mapping[str, object]], T]:
    """Return a function that copies a value with some fields changed."""
    lines = "".join(f"    made.{name} = value.{name}\n" for name in _names_of(kind))
    lines += "    for name in fields:\n        setattr(made, name, fields[name])\n"
    return _compiled(kind, "value, fields", lines)


def _compiled(kind: type[Any], parameters: str, lines: str) -> Callable[..., Any]:
    """Return a function that fills an unguarded twin and turns it into a `kind`.

    It is compiled, like the methods of dataclasses: a loop takes twice as long.
    """
    assert not hasattr(kind, "__post_init__"), "its checks would be skipped"
    # Same layout as the kind. Its bases may guard their fields, too.
    twin = type(
        kind.__name__,
        kind.__bases__,
        {
            "__slots__": kind.__slots__,
            "__setattr__": object.__setattr__,
            "__delattr__": object.__delattr__,
        },
    )
    space: dict[str, Any] = {"new": object.__new__, "twin": twin, "kind": kind}
    exec(  # noqa: S102
        f"def fill({parameters}):\n"
        f"    made = new(twin)\n{lines}    made.__class__ = kind\n    return made",
        space,
    )
    return space["fill"]


def _names_of(kind: type[Any]) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]
