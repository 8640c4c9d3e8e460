"""The conversion between records and rows.

The fields of a record are its columns, by name. The type of a field determines its
form: text and numbers unchanged, flags as 0 and 1, enumerations by value, lists as
JSON. The definition of a record therefore describes its table, and this module adds
only keys, guards and links.

Decoding is strict: a row that this program cannot have written raises StoreError.
"""

import dataclasses
import enum
import functools
import json
import operator
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, product
from operator import attrgetter
from typing import Any, Generic, TypeAlias, TypeVar, cast

from forewarn.campaigns.record import CampaignRecord
from forewarn.fleet.model import (
    PLACES,
    AppliedFile,
    Capacity,
    Host,
    Scope,
    Span,
    Tenant,
    Vm,
    places_of,
    tags_of,
)
from forewarn.protocol.events import Event
from forewarn.protocol.frozen import maker_of
from forewarn.protocol.operations import Operation, Request
from forewarn.protocol.views import View
from forewarn.protocol.visits import Visit
from forewarn.store import statements
from forewarn.store.host_abilities import HostAbilities
from forewarn.store.nested import fields_of, members_of, shape_of
from forewarn.store.port import StoreError
from forewarn.store.questions import Record
from forewarn.store.records import (
    AuditEntry,
    Brake,
    Choice,
    Leader,
    Loss,
    OrderKey,
    OutboxMessage,
    Tally,
    Token,
)
from forewarn.store.relay_links import RelayLink
from forewarn.store.row_encoders import remembering_last, row_encoder
from forewarn.store.unplanned import UnplannedPage
from forewarn.store.wide_blackouts import WideBlackout

R = TypeVar("R", bound=Record)

Value: TypeAlias = str | int | None
Row: TypeAlias = tuple[Any, ...]

_RESTORE = "Restore a backup: the file is damaged or was edited."


@dataclass(frozen=True, slots=True)
class Column:
    """The stored form of one type of field."""

    stored: tuple[type, ...]
    """The types of values in a row."""
    encode: Callable[[Any], Value] | None = None
    """None: unchanged."""
    decode: Callable[[Any], Any] | None = None
    attribute: str = ""
    """The stored attribute of the field, as a dot and a name; empty: the field."""
    is_list: bool = False
    members: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    """The default of each plain field of the members, if it is a list of dataclasses;
    None: the field has none."""


_ONE_TEXT = re.compile(r'\["([A-Za-z0-9.:_-]*)"\]')


def _list(hint: Any) -> Column:
    shape = shape_of(hint)
    has_texts = hint == tuple[str, ...]

    def decode(text: str) -> tuple[Any, ...]:
        if text == "[]":  # In most rows, most lists are empty.
            return ()
        if has_texts and (only := _ONE_TEXT.fullmatch(text)):
            return (only[1],)  # Most other lists are the single address of a VM.
        return shape.decode(json.loads(text))

    return Column((str,), shape.write, decode, is_list=True, members=members_of(hint))


def _choice(kind: type[enum.Enum], *, nullable: bool = False) -> Column:
    words: dict[Any, Value] = {member: member.value for member in kind}
    members: dict[Value, Any] = {member.value: member for member in kind}
    if nullable:
        words[None] = members[None] = None
    return Column(
        (str, types.NoneType) if nullable else (str,),
        words.__getitem__ if nullable else None,
        members.__getitem__,
        # A look-up of the member takes five times as long: it hashes the name.
        attribute="" if nullable else "._value_",
    )


VALUES_REMEMBERED = 4_096
"""Maximum number of cached nested values: the actors of some thousand VMs, which
approve many events."""


def _value(kind: Any, *, nullable: bool = False) -> Column:
    """Return the column of a nested value: JSON, or an empty text for None."""
    shape = shape_of(kind)

    def encode(value: Any) -> str:
        return "" if value is None else shape.write(value)

    @functools.lru_cache(VALUES_REMEMBERED)
    def decode(text: str) -> Any:
        return None if nullable and not text else shape.decode(json.loads(text))

    return Column((str,), remembering_last(encode if nullable else shape.write), decode)


def column_for(hint: Any) -> Column:
    """Return the column of a field with this type; raises TypeError."""
    plain = {
        str: Column((str,)),
        int: Column((int,)),
        bool: Column((int,), int, {0: False, 1: True}.__getitem__),
        int | None: Column((int, types.NoneType)),
    }
    if hint in plain:
        return plain[hint]
    members = typing.get_args(hint)
    if types.EllipsisType in map(type, members):
        return _list(hint)
    others = [member for member in members if member is not types.NoneType]
    nullable = len(others) < len(members)
    kind = others[0] if nullable and len(others) == 1 else hint
    if isinstance(kind, enum.EnumType):
        return _choice(cast("type[enum.Enum]", kind), nullable=nullable)
    return _value(kind, nullable=nullable)


@dataclass(frozen=True, slots=True)
class Links(Generic[R]):
    """Additional rows of a record, by which queries find it through one of its lists."""

    noun: str
    """The singular of the table's name."""
    columns: tuple[str, ...]
    """The name that is looked up, the record's key, and other fields of the record."""
    names: Callable[[R], Iterable[Any]]
    """The names by which the record is found."""
    fields: Callable[[R], object]
    """The fields that determine the rows: if they are equal, so are the rows."""

    def rows(self, record: R | None) -> list[Row]:
        """Return the rows of a record; None: it is not stored."""
        names = () if record is None else self.names(record)
        if record is None or not names:
            return []
        key, others = record.key, self.columns[2:]
        if not others:
            return [(name, key) for name in sorted(set(names))]
        rest = [getattr(record, other) for other in others]
        return [(name, key, *rest) for name in sorted(set(names))]

    @property
    def add(self) -> statements.Write:
        """Return the statement that adds a row."""
        return statements.add(f"{self.noun}s", self.columns)

    @property
    def remove(self) -> statements.Write:
        """Return the statement that removes a row."""
        return statements.remove(f"{self.noun}s", self.columns)

    def differences(self, wanted: str) -> dict[str, str]:
        """Return statements that compare the table with the rows of `wanted`.

        Each row of `wanted` is the key of a record and the name of a link.
        """
        name = " || '/' || ".join([*self.columns[2:], self.columns[0]])
        stored = f"SELECT {self.columns[1]}, {name} FROM {self.noun}s"  # noqa: S608
        wanted = f"SELECT * FROM ({wanted}) AS wanted"  # noqa: S608
        return {
            "missing": f"{wanted} EXCEPT {stored}",
            "stray": f"{stored} EXCEPT {wanted}",
        }

    def change(self, old: R | None, new: R | None) -> tuple[list[Row], list[Row]]:
        """Return the rows to remove and to add, if `new` replaces `old`."""
        if old and new and self.fields(old) == self.fields(new):
            return [], []
        before, after = self.rows(old), self.rows(new)
        return ([], []) if before == after else (before, after)


class Codec(Generic[R]):
    """The table of one kind of record, and the statements that write it."""

    def __init__(
        self,
        kind: type[R],
        noun: str,
        *,
        key: str,
        status: str = "",
        table: str = "",
        links: tuple[Links[R], ...] = (),
    ) -> None:
        """Describe `kind`.

        `key` is the key field. `status` is a field that guards writes in addition to
        the revision. The table's name is the plural of `noun`, unless `table` is given.
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
        self._names = tuple(self.columns)
        self._encodes = [column.encode for column in self.columns.values()]
        self._fields = self._getter(self._names)
        self.encode = row_encoder(
            self._fields,
            self._encodes,
            [column.is_list for column in self.columns.values()],
        )
        """Return the values of a record's columns, in their order."""
        self.table = table or f"{noun}s"
        self.guards = (key, "revision", *filter(None, [status]))
        self.guard = self._getter(self.guards)
        """Return the values that a guarded write compares: key, revision, status."""
        self.get = statements.get(self.table, self._names, key)
        self.every = statements.every(self.table, self._names, key)
        self.add = statements.add(self.table, self._names, key)
        self.remove = statements.remove(self.table, self.guards)

    def _getter(self, names: Sequence[str]) -> Callable[[R], Row]:
        return fields_of([name + self.columns[name].attribute for name in names])

    def change(self, old: R, new: R) -> tuple[statements.Write, Row]:
        """Return the guarded statement that replaces `old` by `new`, and its values.

        It names only changed columns: SQLite rewrites the indexes of every column in an
        update, even if its value stays the same.
        """
        before, after = self._fields(old), self._fields(new)
        names: list[str] = []
        values: list[Value] = []
        # Most fields are the same object, and identity is faster than equality.
        for at in compress(range(len(after)), map(operator.is_not, before, after)):
            value = after[at]
            if value != before[at]:
                encode = self._encodes[at]
                names.append(self._names[at])
                values.append(encode(value) if encode else value)
        statement = statements.update(self.table, tuple(names), self.guards)
        return statement, (*values, *self.guard(old))

    def decoder(self) -> Callable[[Row], R]:
        """Return a decoder of rows, which have the columns of `get` and `every`."""
        columns = self.columns.values()
        shapes = set(product(*(column.stored for column in columns)))
        converts = [
            (at, column.decode) for at, column in enumerate(columns) if column.decode
        ]
        make = maker_of(self.kind, self._names)

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

    def transposed(
        self, names: Sequence[str], rows: Sequence[Row]
    ) -> list[Sequence[Any]]:
        """Return the decoded values of each name in rows of the columns `columns_for`."""
        stored = statements.columns_for(names)
        values = dict(zip(stored, zip(*rows, strict=True), strict=True))
        try:
            parsed = {
                name: [*map(json.loads, values[name])]
                for name in {name.partition(".")[0] for name in names if "." in name}
            }
            return [
                self._parts(name, parsed)
                if "." in name
                else self._decoded(name, values[name])
                for name in names
            ]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._unreadable(rows[0], f"or a later one: {error!r}") from error

    def _decoded(self, name: str, values: Sequence[Any]) -> Sequence[Any]:
        decode = self.columns[name].decode
        if decode is None:
            return values
        # Columns that are decoded have few different values.
        decoded = {value: decode(value) for value in set(values)}
        return [*map(decoded.__getitem__, values)]

    def _parts(self, name: str, parsed: Mapping[str, list[Any]]) -> Sequence[Any]:
        """Return one field of the members of each list, as `moves.vm` names it.

        The members themselves are not created, which would take three times as long.
        """
        column, _, part = name.partition(".")
        usual = self.columns[column].members[part]
        return [
            tuple([member.get(part, usual) for member in members])
            for members in parsed[column]
        ]

    def _unreadable(self, row: Row, why: str) -> StoreError:
        return StoreError(
            f"a row of {self.kind.__name__} cannot be read: {why}: {row}",
            hint=_RESTORE,
        )


_OF_VM = ("vm", "operation_id")
_OF_SCOPE = ("scope", "operation_id")


def _while_open(
    names: Callable[[Operation], Iterable[str]],
) -> Callable[[Operation], Iterable[str]]:
    return lambda operation: () if operation.ended_at else names(operation)


CODECS: tuple[Codec[Any], ...] = (
    Codec(Leader, "leader", key="name", table="leader"),
    Codec(Tenant, "tenant", key="name"),
    Codec(Scope, "scope", key="name"),
    Codec(
        Host,
        "host",
        key="name",
        status="state",
        links=(
            Links(
                "host_place",
                ("place", "name"),
                places_of,
                attrgetter(*PLACES, "labels"),
            ),
        ),
    ),
    Codec(
        Capacity,
        "room",
        key="host",
        links=(
            Links(
                "working_place",
                ("place", "host"),
                lambda room: room.stands_at if room.works else (),
                attrgetter("stands_at", "works"),
            ),
        ),
    ),
    Codec(
        Vm,
        "vm",
        key="name",
        status="state",
        links=(Links("vm_tag", ("tag", "name"), tags_of, attrgetter("tags")),),
    ),
    Codec(View, "view", key="view_id", status="state"),
    Codec(Request, "request", key="request_id", status="state"),
    Codec(
        Operation,
        "operation",
        key="operation_id",
        status="state",
        links=(
            Links(
                "operation_vm",
                _OF_VM,
                lambda operation: (*operation.vms, *operation.left_vms),
                attrgetter("moves", "left_vms"),
            ),
            Links(
                "open_operation_vm",
                _OF_VM,
                _while_open(attrgetter("vms")),
                attrgetter("moves", "ended_at"),
            ),
            Links(
                "operation_scope",
                _OF_SCOPE,
                attrgetter("scopes"),
                attrgetter("scopes"),
            ),
            Links(
                "open_operation_scope",
                _OF_SCOPE,
                _while_open(attrgetter("scopes")),
                attrgetter("scopes", "ended_at"),
            ),
            Links(
                "operation_wait",
                ("wait", "operation_id"),
                attrgetter("waits_for"),
                attrgetter("waits_for"),
            ),
        ),
    ),
    Codec(Visit, "visit", key="visit_id", status="state"),
    Codec(
        Event,
        "event",
        key="event_id",
        status="status",
        links=(
            Links(
                "event_fault_domain",
                ("fault_domain", "event_id", "scope"),
                attrgetter("excluding_domains"),
                attrgetter("is_planned_work", "is_live", "resources"),
            ),
        ),
    ),
    Codec(
        AuditEntry,
        "audit_entry",
        key="entry_id",
        table="audit",
        links=(
            Links(
                "audit_subject",
                ("subject", "entry_id"),
                attrgetter("linked_subjects"),
                attrgetter("subjects", "operation", "kind"),
            ),
        ),
    ),
    Codec(OutboxMessage, "outbox_message", key="message_id", table="outbox"),
    Codec(Span, "span", key="span_id"),
    Codec(Token, "token", key="token_id"),
    Codec(OrderKey, "order_key", key="key_id"),
    Codec(AppliedFile, "applied_file", key="name"),
    Codec(Brake, "brake", key="name"),
    Codec(Loss, "loss", key="name", table="losses"),
    Codec(Tally, "tally", key="name", table="tallies"),
    Codec(CampaignRecord, "campaign", key="campaign_id", status="state"),
    Codec(Choice, "choice", key="choice_id"),
    Codec(WideBlackout, "blackout", key="name"),
    Codec(HostAbilities, "host_abilities", key="host", table="host_abilities"),
    Codec(RelayLink, "relay_link", key="host"),
    Codec(
        UnplannedPage,
        "unplanned_page",
        key="page_id",
        links=(
            Links(
                "unplanned_host",
                ("host", "page_id"),
                lambda page: [host for _, host in page.hosts],
                attrgetter("hosts"),
            ),
        ),
    ),
)
"""All kinds, each once."""
