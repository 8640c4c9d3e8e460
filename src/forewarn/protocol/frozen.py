"""Changing frozen values: as `dataclasses.replace` does, at less than half its cost.

Every step through a table is one, and every write to a store. It works for frozen
dataclasses with slots that check nothing when they are made. Pure.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def changed(value: T, **fields: object) -> T:
    """Return the value with other `fields`, which it must have."""
    kind = type(value)
    made = object.__new__(kind)
    _copier_of(kind)(value, made)
    for name, other in fields.items():
        object.__setattr__(made, name, other)
    return made


@functools.cache
def _copier_of(kind: type[Any]) -> Callable[[Any, Any], None]:
    """Return what sets all fields of a new value to those of another.

    It is compiled, as the methods of dataclasses are: a loop takes twice as long.
    """
    assert not hasattr(kind, "__post_init__"), "what it checks would not be checked"
    names = [field.name for field in dataclasses.fields(kind)]
    lines = "\n".join(f"    put_{name}(made, value.{name})" for name in names)
    space = {f"put_{name}": vars(kind)[name].__set__ for name in names}
    exec(f"def copy(value, made):\n{lines}", space)  # noqa: S102
    return space["copy"]
