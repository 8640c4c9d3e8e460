"""Frozen values: what makes a class one, and making and changing them quickly.

`frozen_dataclass` is the decorator of all values that the agent shares with others,
since Python 3.9 has to run them.

`changed` and `maker_of` make a value at a fifth of what its class takes: every step
through a table makes one, and every write and read of a store. They work for frozen
dataclasses with slots that check nothing when they are made. A frozen class guards
each field against being set, and so pays for each. Here a value is filled while it
belongs to an open twin, a class with the same slots and no guard, and given to its own
class before anybody else sees it. Pure.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

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
        # Some Pythons give it to the class with slots, where it keeps `kind` in memory.
        with contextlib.suppress(AttributeError):
            del kind.__weakref__
        made = dataclass_with_slots(kind)
        # One function for all classes: those that are compiled for each would be a
        # twentieth of an agent's memory.
        made.__setattr__ = _refuse_assignment
        made.__delattr__ = _refuse_deletion
        if not has_repr:
            made.__repr__ = _shown
        return made


class Tagged:
    """A value of a closed union: a store writes it with the `kind` of its class."""

    __slots__ = ()
    kind: ClassVar[str]

    def __init_subclass__(cls, *, kind: str = "") -> None:
        """Keep the kind; without one, the class has that of the class that it copies."""
        if kind:
            cls.kind = kind


def _refuse_assignment(self: object, name: str, value: object) -> None:
    del self, value
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: object, name: str) -> None:
    del self
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _shown(self: Any) -> str:
    fields = (field for field in dataclasses.fields(self) if field.repr)
    values = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields)
    return f"{type(self).__qualname__}({values})"


def changed(value: T, **fields: object) -> T:
    """Return the value with other `fields`, which it must have."""
    return _copier_of(type(value))(value, fields)


def maker_of(kind: type[T], names: Sequence[str]) -> Callable[[Iterable[Any]], T]:
    """Return what makes a `kind` of the values of its fields, in the order of `names`.

    They must be all of its fields; how many values there are is checked each time.
    """
    assert sorted(names) == sorted(_names_of(kind)), "a field would be missing"
    targets = "".join(f"made.{name}, " for name in names)
    return _compiled(kind, "values", f"    {targets}= values\n")


@functools.cache
def _copier_of(kind: type[T]) -> Callable[[T, Mapping[str, object]], T]:
    """Return what makes a new value of another one's fields, some of them changed."""
    lines = "".join(f"    made.{name} = value.{name}\n" for name in _names_of(kind))
    lines += "    for name in fields:\n        setattr(made, name, fields[name])\n"
    return _compiled(kind, "value, fields", lines)


def _compiled(kind: type[Any], parameters: str, lines: str) -> Callable[..., Any]:
    """Return a function that fills a twin with `lines` and makes a `kind` of it.

    It is compiled, as the methods of dataclasses are: a loop takes twice as long.
    """
    assert not hasattr(kind, "__post_init__"), "what it checks would not be checked"
    # The same layout as the kind, whose bases may guard their fields, too.
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
