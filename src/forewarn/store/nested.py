"""Nested values as JSON: frozen dataclasses, and closed unions of them.

The type of a field determines its form, as in `codec`. A field with its default value
is not written, so a new field with a default needs no migration. A field that may be
None must have the default None. A value of a union has the `kind` of its class.
Decoding is strict: an unknown kind, a missing or additional field, or a wrong type
raises TypeError or ValueError.
"""

import dataclasses
import enum
import operator
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from json.encoder import encode_basestring as quoted
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class Shape:
    """The conversion of one type to JSON text, and from parsed JSON."""

    write: Callable[[Any], str]
    """Returns JSON text: `json` takes twice as long for a value with few fields."""
    decode: Callable[[Any], Any]
    """Returns the value of parsed JSON."""
    decode_all: Callable[[list[Any]], tuple[Any, ...]] | None = None
    """Returns the values of a parsed list; None: each is decoded by itself."""


def shape_of(hint: Any) -> Shape:
    """Return the shape of a field with this type; raises TypeError."""
    if hint in _PLAIN:
        return _plain(hint)
    if isinstance(hint, enum.EnumType):
        return _choice(cast("type[enum.Enum]", hint))
    if dataclasses.is_dataclass(hint):
        return _object(cast("type[Any]", hint))
    if is_union(hint):
        members = tuple(
            type_ for type_ in typing.get_args(hint) if type_ is not types.NoneType
        )
        return shape_of(members[0]) if len(members) == 1 else _union(members)
    match typing.get_origin(hint), typing.get_args(hint):
        case (type() as origin, (item, types.EllipsisType())) if origin is tuple:
            return _list(shape_of(item))
        case (type() as origin, items) if origin is tuple and _PLAIN.keys() >= {*items}:
            return _row(list(items))
        case _:
            raise TypeError(f"no column can hold {hint}")


def is_union(hint: Any) -> bool:
    """Return whether a type is a union, in the old or the new notation."""
    # The protocol's types use the notation of Python 3.9.
    old = typing.Union  # pyright: ignore[reportDeprecated]
    return typing.get_origin(hint) in {types.UnionType, old}


_PLAIN: dict[type, Callable[[Any], str]] = {
    str: quoted,
    int: int.__repr__,
    bool: {False: "false", True: "true"}.__getitem__,
}


def _plain(kind: type) -> Shape:
    def decode(value: object) -> object:
        if type(value) is not kind:
            raise TypeError(f"{value!r} is not a {kind.__name__}")
        return value

    return Shape(_PLAIN[kind], decode)


def _choice(kind: type[enum.Enum]) -> Shape:
    texts = {member: quoted(member.value) for member in kind}
    return Shape(texts.__getitem__, kind)


def _list(item: Shape) -> Shape:
    def write(items: tuple[Any, ...]) -> str:
        return f"[{','.join(map(item.write, items))}]"

    def decode(values: object) -> tuple[Any, ...]:
        checked = _checked_list(values)
        if item.decode_all is not None:
            return item.decode_all(checked)
        return tuple(map(item.decode, checked))

    return Shape(write, decode)


def _row(kinds: list[type]) -> Shape:
    writes = [_PLAIN[kind] for kind in kinds]

    def write(values: tuple[Any, ...]) -> str:
        texts = [
            write_item(value) for write_item, value in zip(writes, values, strict=True)
        ]
        return f"[{','.join(texts)}]"

    def decode(values: object) -> tuple[Any, ...]:
        row = _checked_list(values)
        if list(map(type, row)) != kinds:
            raise TypeError(f"{values!r} has the wrong types")
        return tuple(row)

    def decode_all(rows: list[Any]) -> tuple[Any, ...]:
        # A campaign can have a row for each of 100,000 hosts: their types are compared by
        # columns, in a third of the time.
        if {*map(type, rows)} == {list} and {*map(len, rows)} == {len(kinds)}:
            columns = zip(*rows, strict=True)
            if [{*map(type, column)} for column in columns] == [
                {kind} for kind in kinds
            ]:
                return tuple(map(tuple, rows))
        # No row, or one with an error that names it.
        return tuple(map(decode, rows))

    return Shape(write, decode, decode_all)


def _checked_list(values: object) -> list[object]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is not a list")
    return cast("list[object]", values)


def fields_of(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a getter of these attributes of an object, as a tuple."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda value: tuple([getattr(value, name) for name in names])


def members_of(hint: Any) -> dict[str, Any]:
    """Return the default of each text, number and flag in the members of a list."""
    kind = typing.get_args(hint)[0]
    if not dataclasses.is_dataclass(kind):
        return {}
    hints = typing.get_type_hints(kind)
    return {
        field.name: None if field.default is dataclasses.MISSING else field.default
        for field in dataclasses.fields(kind)
        if hints[field.name] in _PLAIN
    }


def _object(kind: type[Any], tag: str = "") -> Shape:
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    shapes = {field.name: shape_of(hints[field.name]) for field in fields}
    defaults = {field.name: field.default for field in fields}
    needed = {
        name for name, default in defaults.items() if default is dataclasses.MISSING
    }
    assert not tag or "kind" not in shapes

    get = fields_of(tuple(shapes))
    usual = tuple(defaults.values())
    heads = [f"{quoted(name)}:" for name in shapes]
    writes = [shape.write for shape in shapes.values()]
    kind_text = [f'"kind":{quoted(tag)}'] if tag else []

    def write(value: Any) -> str:
        fields = get(value)
        written = kind_text.copy()
        # Most fields are the default itself, and identity is faster than equality.
        for at in compress(range(len(fields)), map(operator.is_not, fields, usual)):
            field = fields[at]
            if field != usual[at]:
                written.append(heads[at] + writes[at](field))
        return f"{{{','.join(written)}}}"

    def decode(value: object) -> Any:
        if not isinstance(value, dict):
            raise TypeError(f"{value!r} is not a {kind.__name__}")
        members = dict(cast("dict[str, object]", value))
        if tag and members.pop("kind", None) != tag:
            raise TypeError(f"{value!r} is not a {kind.__name__}")
        if not needed <= members.keys() <= shapes.keys():
            raise TypeError(f"{value!r} is not a {kind.__name__}")
        return kind(
            **{name: shapes[name].decode(item) for name, item in members.items()}
        )

    plain = {name: hints[name] for name in shapes if hints[name] in _PLAIN}
    if tag or len(plain) < len(shapes):
        return Shape(write, decode)
    return Shape(write, _plain_decoder(kind, plain, needed))


def _plain_decoder(
    kind: type[Any], types_of: Mapping[str, type], needed: set[str]
) -> Callable[[object], Any]:
    """Return a decoder of objects whose fields are texts, numbers and flags.

    All fields are checked at once: a campaign of 10,000 hosts has 100,000 such objects.
    """

    def decode(value: object) -> Any:
        if isinstance(value, dict):
            members = cast("dict[str, object]", value)
            known = [*map(types_of.get, members)]
            if needed <= members.keys() and [*map(type, members.values())] == known:
                return kind(**members)
        raise TypeError(f"{value!r} is not a {kind.__name__}")

    return decode


def _union(members: tuple[Any, ...]) -> Shape:
    if not all(map(dataclasses.is_dataclass, members)):
        raise TypeError(f"no column can hold one of {members}")
    kinds = {member.kind: member for member in members}
    assert len(kinds) == len(members), "two classes of a union have one kind"
    shapes = {kind: _object(member, kind) for kind, member in kinds.items()}

    def decode(value: object) -> Any:
        members = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        shape = shapes.get(str(members.get("kind")))
        if shape is None:
            raise TypeError(f"{value!r} has an unknown kind")
        return shape.decode(members)

    return Shape(lambda value: shapes[value.kind].write(value), decode)
