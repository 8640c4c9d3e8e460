"""Convert frozen values to the JSON of the journal's rows and back. Pure.

Missing members get their default, and unknown members are ignored. An agent can
therefore read the rows of the previous and of the next version.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import sys
import typing
from functools import cache
from typing import Any, Optional, TypeVar, Union

from forewarn.agent.journal.port import JournalDamagedError

T = TypeVar("T")


def dump(value: object) -> str:
    """Return a frozen value as JSON, without the members that have their default."""
    return json.dumps(_plain(value), separators=(",", ":"))


def load(kind: type[T], text: str) -> T:
    """Return the value of this kind; raises JournalDamagedError."""
    try:
        return _made(kind, json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise JournalDamagedError(
            f"an entry of the journal is not a valid {kind.__name__}: {error}"
        ) from error


@cache
def _fields(kind: type[Any]) -> tuple[tuple[str, Any, Any], ...]:
    """Return the name, type and default of each member."""
    names = vars(sys.modules[kind.__module__])
    return tuple(
        (field.name, _type_of(field.type, names), field.default)
        for field in dataclasses.fields(kind)
        if field.init
    )


def _type_of(annotation: Any, names: dict[str, Any]) -> Any:
    """Return the type of an annotation in forewarn: `X` or `X | None`.

    `typing.get_type_hints` cannot read `|` before Python 3.10.
    """
    text, bar, _ = annotation.partition(" | None")
    kind = eval(text, names)  # noqa: S307 - it is in our source
    return Optional[kind] if bar else kind


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(item) for item in typing.cast("tuple[Any, ...]", value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            name: _plain(member)
            for name, _, default in _fields(type(value))
            if (member := getattr(value, name)) != default
        }
    return value


def _made(kind: Any, plain: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin is Union:
        if plain is None:
            return None
        [kind] = [type_ for type_ in typing.get_args(kind) if type_ is not type(None)]
        return _made(kind, plain)
    if origin is tuple:
        return _tuple(typing.get_args(kind), plain)
    if dataclasses.is_dataclass(kind):
        members = {
            name: _made(hint, plain[name])
            for name, hint, _ in _fields(typing.cast("type[Any]", kind))
            if name in plain
        }
        return typing.cast("type[Any]", kind)(**members)
    if issubclass(kind, enum.Enum):
        return kind(plain)
    if type(plain) is not kind:
        raise TypeError(f"{plain!r} is not of type {kind.__name__}")
    return plain


def _tuple(kinds: tuple[Any, ...], plain: Any) -> tuple[Any, ...]:
    if not isinstance(plain, list):
        raise TypeError(f"{plain!r} is not a list")
    items = typing.cast("list[Any]", plain)
    if len(kinds) == 2 and kinds[1] is Ellipsis:  # noqa: PLR2004 - `tuple[X, ...]`
        return tuple(_made(kinds[0], item) for item in items)
    if len(items) != len(kinds):
        raise ValueError(f"{plain!r} does not have {len(kinds)} members")
    return tuple(_made(kind, item) for kind, item in zip(kinds, items))
