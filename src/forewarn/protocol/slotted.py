"""The decorator behind `protocol.frozen` for Python 3.9.

Python 3.10 added slots and keyword-only fields to dataclasses. The classes that this
decorator creates behave the same: construction, `repr`, `==`, `hash`, `fields`,
`replace`, and errors on assignment. Pure.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, TypeVar

T = TypeVar("T")


def dataclass_with_slots(kind: type[T]) -> type[T]:
    """Return `kind` as a frozen dataclass with slots and keyword-only arguments."""
    guarded = dataclass(frozen=True, init=False)(kind)
    names = [field.name for field in fields(guarded)]  # pyright: ignore[reportArgumentType]
    members = {
        name: member
        for name, member in vars(guarded).items()
        if name not in {*names, "__dict__", "__weakref__"}
    }
    inherited = {
        name for base in kind.__mro__[1:] for name in getattr(base, "__slots__", ())
    }
    members["__slots__"] = tuple(name for name in names if name not in inherited)
    members["__init__"] = _init_of(guarded)
    members["__getstate__"] = _state
    members["__setstate__"] = _restore
    with_slots = type(kind)(kind.__name__, kind.__bases__, members)
    with_slots.__qualname__ = kind.__qualname__
    return with_slots


def _init_of(kind: type[Any]) -> Any:
    """Return an `__init__` with keyword-only parameters.

    It is compiled, like that of any dataclass: a loop takes twice as long.
    """
    space: dict[str, Any] = {"guardless": object.__setattr__, "MISSING": MISSING}
    parameters = "self"
    lines = ""
    for field in fields(kind):
        if not field.init:
            # `__post_init__` sets it.
            assert (field.default, field.default_factory) == (MISSING, MISSING)
            continue
        parameters += f", {field.name}{_default_of(field, space)}"
        value = field.name
        if field.default_factory is not MISSING:
            value += f" if {value} is not MISSING else default_{value}()"
        lines += f"    guardless(self, {field.name!r}, {value})\n"
    if hasattr(kind, "__post_init__"):
        lines += "    self.__post_init__()\n"
    head = parameters.replace("self, ", "self, *, ", 1)
    exec(f"def __init__({head}):\n{lines or '    pass'}", space)  # noqa: S102
    init = space["__init__"]
    init.__qualname__ = f"{kind.__qualname__}.__init__"
    init.__module__ = kind.__module__
    return init


def _default_of(field: Field[Any], space: dict[str, Any]) -> str:
    """Return the default of a parameter as code, and add the value to `space`."""
    if field.default_factory is not MISSING:
        space[f"default_{field.name}"] = field.default_factory
        return "=MISSING"
    if field.default is MISSING:
        return ""
    space[f"default_{field.name}"] = field.default
    return f"=default_{field.name}"


def _state(self: Any) -> list[Any]:
    """Return the state for copies and pickles."""
    return [getattr(self, field.name) for field in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for field, value in zip(fields(self), state):
        object.__setattr__(self, field.name, value)
