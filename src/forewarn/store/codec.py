"""Records as rows, and back.

A record's fields are its columns, by name; the type of a field says how it is
written: text and numbers as they are, flags as 0 and 1, words of an enumeration
by value, lists as JSON. So a kind is described once, by its own definition, and
what is below adds only what a definition cannot say.

Decoding is strict. A row that this program cannot have written raises
StoreError and is never mended by a guess.
"""

import dataclasses
import enum
import itertools
import json
import operator
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, cast

from forewarn.fleet.model import Host, Scope, Tenant, Vm
from forewarn.protocol.events import Event
from forewarn.protocol.operations import ENDED_STATES, Operation, Request
from forewarn.protocol.views import View
from forewarn.store.audit import AuditEntry
from forewarn.store.kinds import Record
from forewarn.store.port import StoreError

R = TypeVar("R", bound=Record)

Value: TypeAlias = str | int | None
Row: TypeAlias = tuple[Any, ...]
Values: TypeAlias = dict[str, Value]

_RESTORE = "The file is damaged or was changed by hand: restore a backup."


def revised(record: R, revision: int) -> R:
    """Return the record with another revision."""
    return cast("R", dataclasses.replace(cast("Any", record), revision=revision))


@dataclass(frozen=True, slots=True)
class Column:
    """How one type of field is kept."""

    stored: tuple[type, ...]
    """The types that a row may hold."""
    encode: Callable[[Any], Value] | None = None
    """None: as it is."""
    decode: Callable[[Any], Any] | None = None


def _list_of(convert: Callable[[Any], Any]) -> Callable[[str], tuple[Any, ...]]:
    def decode(text: str) -> tuple[Any, ...]:
        if text == "[]":  # most lists of most rows
            return ()
        items: object = json.loads(text)
        if not isinstance(items, list):
            raise TypeError(f"{text} is not a list")
        return tuple(map(convert, cast("list[object]", items)))

    return decode


def _text(item: object) -> str:
    if not isinstance(item, str):
        raise TypeError(f"{item!r} is not a text")
    return item


def _pair(item: object) -> tuple[str, str]:
    first, second = cast("list[object]", item)
    return (_text(first), _text(second))


def _object_of(kind: type[Any]) -> Callable[[object], Any]:
    """Return what makes a `kind`, whose fields are text, numbers and flags."""
    hints = typing.get_type_hints(kind)

    def decode(item: object) -> Any:
        values = cast("dict[str, object]", item) if isinstance(item, dict) else {}
        if {name: type(value) for name, value in values.items()} != hints:
            raise TypeError(f"{item!r} is not a {kind.__name__}")
        return kind(**values)

    return decode


# Made once: `json.dumps` makes a new encoder for every call that is not plain.
_write_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def _dump(items: tuple[object, ...]) -> str:
    if not items:
        return "[]"
    return _write_json(items)


def _dump_of(kind: type[Any]) -> Callable[[tuple[Any, ...]], str]:
    """Return what writes `kind`s, whose fields are text, numbers and flags."""
    names = [field.name for field in dataclasses.fields(kind)]
    assert len(names) > 1, "of one name alone, attrgetter makes no tuple"
    values = operator.attrgetter(*names)

    def encode(items: tuple[Any, ...]) -> str:
        # `dataclasses.asdict` copies deeply what cannot change.
        return _dump(tuple(dict(zip(names, values(i), strict=True)) for i in items))

    return encode


def _choice(kind: type[enum.Enum], *, nullable: bool = False) -> Column:
    words: dict[Any, Value] = {member: member.value for member in kind}
    members: dict[Value, Any] = {member.value: member for member in kind}
    if nullable:
        words[None] = members[None] = None
    return Column(
        (str, types.NoneType) if nullable else (str,),
        words.__getitem__,
        members.__getitem__,
    )


def column_for(hint: Any) -> Column:
    """Return how a field of this type is kept; raises TypeError."""
    plain = {
        str: Column((str,)),
        int: Column((int,)),
        bool: Column((int,), int, {0: False, 1: True}.__getitem__),
        int | None: Column((int, types.NoneType)),
        tuple[str, ...]: Column((str,), _dump, _list_of(_text)),
        tuple[tuple[str, str], ...]: Column((str,), _dump, _list_of(_pair)),
    }
    if hint in plain:
        return plain[hint]
    if isinstance(hint, enum.EnumType):
        return _choice(cast("type[enum.Enum]", hint))
    match typing.get_args(hint):
        case (enum.EnumType() as kind, types.NoneType):
            return _choice(cast("type[enum.Enum]", kind), nullable=True)
        case (type() as item, types.EllipsisType()) if dataclasses.is_dataclass(item):
            return Column((str,), _dump_of(item), _list_of(_object_of(item)))
        case _:
            raise TypeError(f"no column can hold {hint}")


@dataclass(frozen=True, slots=True)
class Links(Generic[R]):
    """Rows beside the record's own, by which one of its lists is found."""

    noun: str
    """Statements are named `add_` and `remove_` with it."""
    rows: Callable[[R], Iterable[Values]]
    fields: tuple[str, ...] = ()
    """What the rows are made of: where these are the same, so are the rows."""

    def are_same(self, old: R | None, new: R | None) -> bool:
        """Tell whether the rows need no look, since nothing of them changed."""
        return (
            old is not None
            and new is not None
            and all(getattr(old, name) is getattr(new, name) for name in self.fields)
        )


class Codec(Generic[R]):
    """One kind of record, as a table holds it."""

    def __init__(
        self,
        kind: type[R],
        noun: str,
        *,
        key: str,
        status: str = "",
        links: tuple[Links[R], ...] = (),
    ) -> None:
        """Describe `kind`.

        Statements are named `get_`, `add_`, `replace_` and `remove_` with
        `noun`. `key` is the field that it is found by, `status` the one that
        writes are guarded by, besides the revision.
        """
        hints = typing.get_type_hints(kind)
        self.kind = kind
        self.noun = noun
        self.key = key
        self.status = status
        self.links = links
        self.columns: Mapping[str, Column] = {
            field.name: column_for(hints[field.name])
            for field in dataclasses.fields(cast("Any", kind))
        }
        self._fields: Callable[[R], Row] = operator.attrgetter(*self.columns)
        self._encodes = [
            (name, column.encode)
            for name, column in self.columns.items()
            if column.encode
        ]

    def encode(self, record: R) -> Values:
        """Return the record's columns by name."""
        values = dict(zip(self.columns, self._fields(record), strict=True))
        for name, convert in self._encodes:
            values[name] = convert(values[name])
        return values

    def guard(self, old: R) -> Values:
        """Return what a guarded write asks of the stored row."""
        values: Values = {self.key: old.key, "old_revision": old.revision}
        if self.status:
            values[f"old_{self.status}"] = getattr(old, self.status).value
        return values

    def decoder(self, names: Sequence[str]) -> Callable[[Row], R]:
        """Return what decodes rows with these columns, in this order."""
        if sorted(names) != sorted(self.columns):
            raise StoreError(
                f"the table of {self.kind.__name__} has other columns than it should",
                hint=_RESTORE,
            )
        columns = [(name, self.columns[name]) for name in names]
        shapes = set(itertools.product(*(column.stored for _, column in columns)))
        converts = [(name, column.decode) for name, column in columns if column.decode]
        make: Callable[..., R] = self.kind

        def decode(row: Row) -> R:
            if tuple(map(type, row)) not in shapes:
                raise self._unreadable(row, "a value has the wrong type")
            values = dict(zip(names, row, strict=True))
            try:
                for name, convert in converts:
                    values[name] = convert(values[name])
            except (KeyError, TypeError, ValueError) as error:
                raise self._unreadable(row, repr(error)) from error
            return make(**values)

        return decode

    def _unreadable(self, row: Row, why: str) -> StoreError:
        return StoreError(
            f"a row of {self.kind.__name__} cannot be read: {why}: {row}",
            hint=_RESTORE,
        )


def _vms_of(operation: Operation) -> Iterable[Values]:
    for vm in sorted(set(operation.vms)):
        yield {"vm": vm, "operation_id": operation.key}


def _open_vms_of(operation: Operation) -> Iterable[Values]:
    return () if operation.state in ENDED_STATES else _vms_of(operation)


def _open_scopes_of(operation: Operation) -> Iterable[Values]:
    if operation.state not in ENDED_STATES:
        for scope in sorted(set(operation.scopes)):
            yield {"scope": scope, "operation_id": operation.key}


def _subjects_of(entry: AuditEntry) -> Iterable[Values]:
    for subject in sorted(set(entry.subjects)):
        yield {"subject": subject, "entry_id": entry.key}


CODECS: tuple[Codec[Any], ...] = (
    Codec(Tenant, "tenant", key="name"),
    Codec(Scope, "scope", key="name"),
    Codec(Host, "host", key="name", status="state"),
    Codec(Vm, "vm", key="name", status="state"),
    Codec(View, "view", key="view_id", status="state"),
    Codec(Request, "request", key="request_id", status="state"),
    Codec(
        Operation,
        "operation",
        key="operation_id",
        status="state",
        links=(
            Links("operation_vm", _vms_of, ("moves",)),
            Links("open_operation_vm", _open_vms_of, ("moves", "state")),
            Links("open_operation_scope", _open_scopes_of, ("scopes", "state")),
        ),
    ),
    Codec(Event, "event", key="event_id", status="status"),
    Codec(
        AuditEntry,
        "audit_entry",
        key="entry_id",
        links=(Links("audit_subject", _subjects_of, ("subjects",)),),
    ),
)
"""Every kind, once."""
