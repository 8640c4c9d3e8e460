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
import functools
import itertools
import json
import operator
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, cast

from forewarn.fleet.model import AppliedFile, Host, Scope, Tenant, Vm
from forewarn.fleet.room import Room
from forewarn.fleet.spans import Span
from forewarn.protocol.events import Event
from forewarn.protocol.frozen import changed, maker_of
from forewarn.protocol.operations import ENDED_STATES, Operation, Request
from forewarn.protocol.views import View
from forewarn.store.audit import AuditEntry
from forewarn.store.kinds import Record
from forewarn.store.leader import Leader
from forewarn.store.nested import is_union, shape_of
from forewarn.store.order_key import OrderKey
from forewarn.store.outbox import OutboxMessage
from forewarn.store.port import StoreError
from forewarn.store.token import Token

R = TypeVar("R", bound=Record)

Value: TypeAlias = str | int | None
Row: TypeAlias = tuple[Any, ...]
Values: TypeAlias = dict[str, Value]

_RESTORE = "The file is damaged or was changed by hand: restore a backup."


def revised(record: R, revision: int) -> R:
    """Return the record with another revision."""
    return changed(record, revision=revision)


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
        if convert is _text and (only := _ONE_TEXT.fullmatch(text)):
            return (only[1],)  # most of the others: one address of one VM
        items: object = json.loads(text)
        if not isinstance(items, list):
            raise TypeError(f"{text} is not a list")
        return tuple(map(convert, cast("list[object]", items)))

    return decode


_ONE_TEXT = re.compile(r'\["([A-Za-z0-9.:_-]*)"\]')


def _text(item: object) -> str:
    if not isinstance(item, str):
        raise TypeError(f"{item!r} is not a text")
    return item


def _pair(item: object) -> tuple[str, str]:
    first, second = cast("list[object]", item)
    return (_text(first), _text(second))


def _object_of(kind: type[Any]) -> Callable[[object], Any]:
    """Return what makes a `kind`, whose fields are text, numbers and flags.

    A field that is missing has its default.
    """
    hints = typing.get_type_hints(kind)
    needed = {
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING
    }

    def decode(item: object) -> Any:
        values = cast("dict[str, object]", item) if isinstance(item, dict) else {}
        types = {name: type(value) for name, value in values.items()}
        if not (needed <= types.keys() and types.items() <= hints.items()):
            raise TypeError(f"{item!r} is not a {kind.__name__}")
        return kind(**values)

    return decode


# Made once: `json.dumps` makes a new encoder for every call that is not plain.
_write_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_write_text = json.encoder.encode_basestring


def _dump(items: tuple[object, ...]) -> str:
    if not items:
        return "[]"
    return _write_json(items)


def _dump_texts(items: tuple[str, ...]) -> str:
    # As `_dump`, at a quarter of its cost: every line of the trail has some.
    return f"[{','.join(map(_write_text, items))}]"


def _dump_of(kind: type[Any]) -> Callable[[tuple[Any, ...]], str]:
    """Return what writes `kind`s, without the fields that have their defaults."""
    encode_one = shape_of(kind).encode

    def encode(items: tuple[Any, ...]) -> str:
        return _dump(tuple(map(encode_one, items)))

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


VALUES_REMEMBERED = 4_096
"""Nested values whose text is remembered: the actors of some thousand VMs, which
approve event after event."""


def _value(kind: Any, *, nullable: bool = False) -> Column:
    """Return how one nested value is kept: as JSON; None as an empty text."""
    shape = shape_of(kind)

    @functools.lru_cache(VALUES_REMEMBERED)
    def encode(value: Any) -> str:
        if value is None and nullable:
            return ""
        return _write_json(shape.encode(value))

    @functools.lru_cache(VALUES_REMEMBERED)
    def decode(text: str) -> Any:
        return None if nullable and not text else shape.decode(json.loads(text))

    return Column((str,), encode, decode)


def column_for(hint: Any) -> Column:
    """Return how a field of this type is kept; raises TypeError."""
    plain = {
        str: Column((str,)),
        int: Column((int,)),
        bool: Column((int,), int, {0: False, 1: True}.__getitem__),
        int | None: Column((int, types.NoneType)),
        tuple[str, ...]: Column((str,), _dump_texts, _list_of(_text)),
        tuple[tuple[str, str], ...]: Column((str,), _dump, _list_of(_pair)),
    }
    if hint in plain:
        return plain[hint]
    if isinstance(hint, enum.EnumType):
        return _choice(cast("type[enum.Enum]", hint))
    if dataclasses.is_dataclass(hint):
        return _value(hint)
    match typing.get_args(hint):
        case (type() as item, types.NoneType) if dataclasses.is_dataclass(item):
            return _value(item, nullable=True)
        case (enum.EnumType() as kind, types.NoneType):
            return _choice(cast("type[enum.Enum]", kind), nullable=True)
        case (type() as item, types.EllipsisType()) if dataclasses.is_dataclass(item):
            return Column((str,), _dump_of(item), _list_of(_object_of(item)))
        case (*_, types.NoneType) if is_union(hint):
            return _value(hint, nullable=True)
        case (union, types.EllipsisType()) if is_union(union):
            shape = shape_of(union)

            def dump(items: tuple[Any, ...]) -> str:
                return _dump(tuple(map(shape.encode, items)))

            return Column((str,), dump, _list_of(shape.decode))
        case _:
            raise TypeError(f"no column can hold {hint}")


@dataclass(frozen=True, slots=True)
class Links(Generic[R]):
    """Rows beside the record's own, by which one of its lists is found."""

    noun: str
    """Statements are named `add_` and `remove_` with it."""
    rows: Callable[[R], Iterable[Row]]
    """As `add_` and `remove_` have them: what it is found by, and the record's key."""
    fields: tuple[str, ...] = ()
    """What the rows are made of: where these are the same, so are the rows."""

    def are_same(self, old: R | None, new: R | None) -> bool:
        """Tell whether the rows need no look, since nothing of them changed."""
        return (
            old is not None
            and new is not None
            and all(getattr(old, name) is getattr(new, name) for name in self.fields)
        )


@dataclass(frozen=True, slots=True)
class Amendment:
    """A part of a record that often changes alone.

    SQLite writes an index anew for every column that an update names, also for
    one that stays as it is; so what is frequent names only what it changes.
    """

    noun: str
    """The statement is named `amend_` with it."""
    fields: tuple[str, ...]
    """What may change, besides the revision."""


def _reader_of(names: Sequence[str]) -> Callable[[Any], Row]:
    """Return what reads these fields of a record, as a tuple also where it is one."""
    read = operator.attrgetter(*names)
    return read if len(names) > 1 else lambda record: (read(record),)


class _Amending(Generic[R]):
    """How one amendment is found and written."""

    def __init__(self, amendment: Amendment, columns: Mapping[str, Column]) -> None:
        fields = amendment.fields
        self.statement = f"amend_{amendment.noun}"
        self._others = _reader_of([*(set(columns) - {*fields, "revision"})])
        self._names = fields
        self._changed = _reader_of(fields)
        self._encodes = [
            (name, encode) for name in fields if (encode := columns[name].encode)
        ]

    def fits(self, old: R, new: R) -> bool:
        """Tell whether nothing else has changed."""
        return self._others(old) == self._others(new)

    def values(self, new: R) -> Values:
        """Return what has changed, by the names of the columns."""
        values: Values = dict(zip(self._names, self._changed(new), strict=True))
        for name, encode in self._encodes:
            values[name] = encode(values[name])
        values["revision"] = new.revision
        return values


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
        amendments: tuple[Amendment, ...] = (),
    ) -> None:
        """Describe `kind`.

        Statements are named `get_`, `add_`, `replace_` and `remove_` with
        `noun`. `key` is the field that it is found by, `status` the one that
        writes are guarded by, besides the revision. Of the `amendments` the
        first that fits a change is used.
        """
        hints = typing.get_type_hints(kind)
        self.kind = kind
        self.noun = noun
        self.key = key
        self.status = status
        self._old_status = f"old_{status}"
        self.links = links
        self.columns: Mapping[str, Column] = {
            field.name: column_for(hints[field.name])
            for field in dataclasses.fields(cast("Any", kind))
        }
        self.amendments = amendments
        self._amendings = [_Amending[R](each, self.columns) for each in amendments]
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

    def change(self, old: R, new: R) -> tuple[str, Values]:
        """Return the statement that puts `new` in place of `old`, and its values."""
        for amending in self._amendings:
            if amending.fits(old, new):
                return amending.statement, amending.values(new) | self.guard(old)
        return f"replace_{self.noun}", self.encode(new) | self.guard(old)

    def guard(self, old: R) -> Values:
        """Return what a guarded write asks of the stored row."""
        values: Values = {self.key: old.key, "old_revision": old.revision}
        if self.status:
            words = self.columns[self.status].encode
            assert words is not None, "a status is a word of an enumeration"
            values[self._old_status] = words(getattr(old, self.status))
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
        converts = [
            (at, column.decode)
            for at, (_, column) in enumerate(columns)
            if column.decode
        ]
        make = maker_of(self.kind, names)

        def decode(row: Row) -> R:
            if tuple(map(type, row)) not in shapes:
                raise self._unreadable(row, "a value has the wrong type")
            values = list(row)
            try:
                for at, convert in converts:
                    values[at] = convert(values[at])
            except (KeyError, TypeError, ValueError) as error:
                raise self._unreadable(row, repr(error)) from error
            return make(values)

        return decode

    def _unreadable(self, row: Row, why: str) -> StoreError:
        return StoreError(
            f"a row of {self.kind.__name__} cannot be read: {why}: {row}",
            hint=_RESTORE,
        )


def _vms_of(operation: Operation) -> Iterable[Row]:
    for vm in sorted({*operation.vms, *operation.left_vms}):
        yield (vm, operation.key)


def _open_vms_of(operation: Operation) -> Iterable[Row]:
    if operation.state in ENDED_STATES:
        return
    for vm in sorted(set(operation.vms)):
        yield (vm, operation.key)


def _open_scopes_of(operation: Operation) -> Iterable[Row]:
    return () if operation.state in ENDED_STATES else _scopes_of(operation)


def _scopes_of(operation: Operation) -> Iterable[Row]:
    for scope in sorted(set(operation.scopes)):
        yield (scope, operation.key)


def _waits_of(operation: Operation) -> Iterable[Row]:
    for name in sorted(set(operation.waits_for)):
        yield (name, operation.key)


def _domains_of(event: Event) -> Iterable[Row]:
    for domain in sorted(event.excluding_domains):
        yield (domain, event.key, event.scope)


def _subjects_of(entry: AuditEntry) -> Iterable[Row]:
    entry_id = entry.entry_id
    return [(subject, entry_id) for subject in dict.fromkeys(entry.linked_subjects)]


CODECS: tuple[Codec[Any], ...] = (
    Codec(Leader, "leader", key="name"),
    Codec(Tenant, "tenant", key="name"),
    Codec(Scope, "scope", key="name"),
    Codec(Host, "host", key="name", status="state"),
    Codec(Room, "room", key="host"),
    Codec(
        Vm,
        "vm",
        key="name",
        status="state",
        amendments=(Amendment("vm_condition", ("state", "started")),),
    ),
    Codec(
        View,
        "view",
        key="view_id",
        status="state",
        amendments=(
            Amendment("view_document", ("incarnation", "digest")),
            Amendment("view_sighting", ("last_seen",)),
        ),
    ),
    Codec(Request, "request", key="request_id", status="state"),
    Codec(
        Operation,
        "operation",
        key="operation_id",
        status="state",
        links=(
            Links("operation_vm", _vms_of, ("moves", "left_vms")),
            Links("open_operation_vm", _open_vms_of, ("moves", "state")),
            Links("operation_scope", _scopes_of, ("scopes",)),
            Links("open_operation_scope", _open_scopes_of, ("scopes", "state")),
            Links("operation_wait", _waits_of, ("waits_for",)),
        ),
        amendments=(
            Amendment(
                "operation_call",
                (
                    "state",
                    "due_at",
                    "generation",
                    "attempts",
                    "call_state",
                    "driver",
                    "driver_memory",
                    "started_at",
                    "note",
                    "held_by",
                    "waits_for",
                ),
            ),
        ),
    ),
    Codec(
        Event,
        "event",
        key="event_id",
        status="status",
        links=(Links("event_fault_domain", _domains_of, ("status", "resources")),),
        amendments=(
            Amendment("event_approval", ("approver", "approved_at")),
            Amendment("event_showing", ("shown_in",)),
            Amendment(
                "event_start", ("status", "approver", "approved_at", "started_at")
            ),
        ),
    ),
    Codec(
        AuditEntry,
        "audit_entry",
        key="entry_id",
        links=(
            Links("audit_subject", _subjects_of, ("subjects", "operation", "kind")),
        ),
    ),
    Codec(OutboxMessage, "outbox_message", key="message_id"),
    Codec(Span, "span", key="span_id"),
    Codec(Token, "token", key="token_id"),
    Codec(OrderKey, "order_key", key="key_id"),
    Codec(AppliedFile, "applied_file", key="name"),
)
"""Every kind, once."""
