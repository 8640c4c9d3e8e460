"""Read a fleet file: TOML text in, the desired fleet out.

`docs/reference/fleet-file.md` describes the keys, and `fields` has their table. Reading
finds problems of single entries: unknown tables and keys, wrong types, missing keys. An
entry with such a problem still counts as far as possible, so that references to it are
not reported as well. `checks` finds the problems of the whole fleet. All problems are
reported together. Missing values are filled in here: a VM without a scope gets its own
standalone scope, and a file without tenants has one tenant, `default`.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from itertools import chain
from typing import Any, TypeVar, cast

from forewarn import __version__, toml
from forewarn.fleet import checks, fast_toml, views
from forewarn.fleet.errors import FilePlaces, FleetFileError, Kind, Place, nowhere
from forewarn.fleet.fields import FIELDS, Field, Forms, derived_vm_id, wish_of
from forewarn.fleet.model import Host, Scope, ScopeKind, Tenant, Vm
from forewarn.problems import (
    PROBLEMS_MAX,
    Problem,
    did_you_mean,
    listed,
    not_toml,
    quoted,
)
from forewarn.protocol.frozen import changed
from forewarn.settings.amounts import Amount
from forewarn.settings.forms import Option, from_toml

_STAND_INS: dict[Kind, dict[str, object]] = {
    Kind.TENANT: {},
    Kind.SCOPE: {"kind": ScopeKind.SCALE_SET, "tenant": ""},
    Kind.HOST: {},
    Kind.VM: {"host": "", "tenant": ""},
}
"""Values for keys that are missing or invalid, used while other problems are searched.
They cause no further problem, except at their own key."""

_NEEDED: dict[Kind, tuple[str, ...]] = {
    Kind.TENANT: ("name",),
    Kind.SCOPE: ("name", "kind"),
    Kind.HOST: ("name",),
    Kind.VM: ("name", "host"),
}

_TEXT = Option(form=Forms.TEXT)

_OWN_TENANT = Field(key="tenant", attribute="tenant", option=_TEXT, default="")
"""Tenant of a VM without a scope. It is a key of the VM in the file, but not a field."""

_KEYS: dict[Kind, dict[str, Field]] = {
    kind: {
        field.key: field
        for field in (
            Field(key="name", attribute="name", option=_TEXT, default=""),
            *FIELDS[kind],
            *((_OWN_TENANT,) if kind is Kind.VM else ()),
        )
        if field.written
    }
    for kind in Kind
}


_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(slots=True, kw_only=True)
class Draft:
    """An entry of a table."""

    name: str
    index: int
    given: Collection[str]
    """Keys of the entry, including those with invalid values."""
    values: dict[str, Any]
    """Valid values of the entry, by attribute of the model."""


class DraftReader:
    """Reads the tables of one file."""

    def __init__(
        self,
        tables: Mapping[str, object],
        *,
        text: str,
        file: str,
        within: str = "",
        places: type[FilePlaces] = FilePlaces,
    ) -> None:
        """Read the parsed `tables` of `text`, or of the table `within` it.

        `places` finds the places of problems in a file of another format.
        """
        self._tables = tables
        self._names: dict[Kind, list[str | None]] = {kind: [] for kind in Kind}
        self.drafts: dict[Kind, list[Draft]] = {kind: [] for kind in Kind}
        self.problems: list[Problem] = []
        self.places = places(text, file=file, names=self._names, within=within)

    @property
    def is_full(self) -> bool:
        """Return whether there are more problems than will be reported."""
        return len(self.problems) > PROBLEMS_MAX

    def read(self) -> None:
        """Fill `drafts` and `problems`."""
        kinds = {kind.value: kind for kind in Kind}
        for key, table in self._tables.items():
            if kind := kinds.get(key):
                self._read_table(kind, table)
            else:
                message = f"there is no such table; tables are {listed(kinds)}"
                self._add_root(key, message + did_you_mean(key, kinds))

    def add(self, kind: Kind, draft: Draft, key: str, message: str) -> None:
        """Add a problem of an entry, unless there are enough."""
        self._add(kind, draft.index, key, message, name=draft.name)

    def _add(
        self, kind: Kind, index: int, key: str, message: str, *, name: str
    ) -> None:
        if self.is_full:
            return
        spot = self.places.entry(kind, index, key)
        self.problems.append(
            Problem(
                file=spot.file,
                line=spot.line,
                key=f"{kind.value}.{_shown(key)}",
                message=message,
                name=name,
            )
        )

    def _add_root(self, key: str, message: str) -> None:
        if self.is_full:
            return
        spot = self.places.root(key)
        self.problems.append(
            Problem(file=spot.file, line=spot.line, key=_shown(key), message=message)
        )

    def _read_table(self, kind: Kind, table: object) -> None:
        entries = cast("list[object]", table) if isinstance(table, list) else [None]
        if not all(isinstance(entry, dict) for entry in entries):
            self._add_root(kind.value, f"must be an array of tables: [[{kind.value}]]")
            return
        # Looked up once for all entries: hashing an enumeration member is slow.
        stand_ins, needed, keys = _STAND_INS[kind], _NEEDED[kind], _KEYS[kind]
        names, drafts = self._names[kind], self.drafts[kind]
        for index, entry in enumerate(cast("list[dict[str, object]]", entries)):
            if self.is_full:
                return
            name = entry.get("name")
            known_name = name if isinstance(name, str) else None
            values, faults = _read_entry(entry, stand_ins, needed, keys)
            for key, fault in faults.items():
                self._add(kind, index, key, fault, name=known_name or "")
            names.append(known_name)
            if known_name is not None:
                drafts.append(
                    Draft(
                        name=known_name, index=index, given=entry.keys(), values=values
                    )
                )


def _read_entry(
    entry: dict[str, object],
    stand_ins: dict[str, object],
    needed: tuple[str, ...],
    keys: dict[str, Field],
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the valid values of an entry by attribute, and its problems by key."""
    values = dict(stand_ins)
    faults: dict[str, str] = {}
    for key, value in entry.items():
        field = keys.get(key)
        if field is None:
            faults[key] = f"there is no such key{did_you_mean(key, keys)}"
        elif field.option.form is Forms.TEXT and isinstance(value, str):
            values[field.attribute] = value  # most keys of a large file
        else:
            try:
                values[field.attribute] = from_toml(field.option, value)
            except ValueError as error:
                faults[key] = str(error)
    for key in needed:
        if key not in entry:
            faults[key] = "is missing"
    return values, faults


def _shown(key: str) -> str:
    return key if _BARE.fullmatch(key) else quoted(key)


DEFAULT_TENANT = "default"
"""Tenant of a file without tenants."""


_Record = TypeVar("_Record", Tenant, Scope, Host, Vm)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetText:
    """An unread fleet file."""

    name: str
    """Name of the file, for messages."""
    text: str
    may_be_empty: bool = False
    """Whether an empty file is allowed. It removes everything that came from files."""
    removals_max: Amount | None = None
    """Maximum hosts, and maximum VMs, that may be removed; None: it is a fleet file of an
    author, else the file of an inventory."""
    unknown_hosts: tuple[str, ...] = ()
    """Hosts that the inventory could not read, as texts for operators. If there are some,
    the hosts that the file lacks are kept, with their VMs."""

    def digest(self) -> str:
        """Return a digest of the text and of this version.

        Another version can read the same text differently.
        """
        # Text from JSON can contain lone surrogates, which reading refuses.
        text = self.text.encode("utf-8", "surrogatepass")
        return hashlib.sha256(f"{__version__}\n".encode() + text).hexdigest()

    def read(self) -> "WantedFleet":
        """Return the desired fleet; raises FleetFileError."""
        return replace(
            read_fleet(self.text, name=self.name),
            may_be_empty=self.may_be_empty,
            removals_max=self.removals_max,
            unknown_hosts=self.unknown_hosts,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedFleet:
    """The desired fleet; each object has the values of the file in `applied`."""

    tenants: Mapping[str, Tenant]
    scopes: Mapping[str, Scope]
    hosts: Mapping[str, Host]
    vms: Mapping[str, Vm]
    place: Place = field(default=nowhere, compare=False, repr=False)
    """Finds places in the file."""
    is_sound: bool = field(default=False, compare=False)
    """Whether the fleet was found valid, without regard to the current fleet."""
    may_be_empty: bool = field(default=False, compare=False)
    """Whether an empty fleet is allowed."""
    removals_max: Amount | None = field(default=None, compare=False)
    """As in `FleetText`."""
    unknown_hosts: tuple[str, ...] = field(default=(), compare=False)
    """As in `FleetText`."""

    def count(self) -> dict[str, int]:
        """Return the number of objects of each kind."""
        return {
            "tenants": len(self.tenants),
            "scopes": len(self.scopes),
            "hosts": len(self.hosts),
            "vms": len(self.vms),
        }


def read_fleet(
    text: str,
    *,
    name: str,
    within: str = "",
    tables: Mapping[str, object] | None = None,
) -> WantedFleet:
    """Return the fleet that `text` describes; `name` is for messages.

    `tables` are the parsed tables, if they are `within` a table of another file. Raises
    FleetFileError with all problems.
    """
    if tables is None:
        tables = _parse(text, name)
    return read_drafts(DraftReader(tables, text=text, file=name, within=within))


def read_drafts(
    reader: DraftReader, *, refusal: type[FleetFileError] = FleetFileError
) -> WantedFleet:
    """Return the fleet that the tables of `reader` describe; raises `refusal`."""
    reader.read()
    _fill_tenants(reader)
    drafts = reader.drafts
    values = {
        kind: [draft.values for draft in of_kind] for kind, of_kind in drafts.items()
    }
    own = _own_scopes(drafts[Kind.VM])
    scopes = list(_records(Kind.SCOPE, Scope, chain(values[Kind.SCOPE], own)))
    hosts = list(_records(Kind.HOST, Host, values[Kind.HOST]))
    tenants = list(_records(Kind.TENANT, Tenant, values[Kind.TENANT]))
    if not tenants and any(scope.tenant == DEFAULT_TENANT for scope in scopes):
        tenants = list(_records(Kind.TENANT, Tenant, [{"name": DEFAULT_TENANT}]))
    vms = list(_vms(drafts[Kind.VM], scopes=_named(scopes), hosts=_named(hosts)))
    _refuse(
        reader.problems,
        checks.find_problems(tenants, scopes, hosts, vms, reader.places),
        refusal,
    )
    return WantedFleet(
        tenants=_named(tenants),
        scopes=_named(scopes),
        hosts=_named(hosts),
        vms=_named(vms),
        place=reader.places,
        is_sound=True,
    )


def _parse(text: str, name: str) -> dict[str, object]:
    """Return the tables of a TOML text; a syntax error becomes a problem."""
    tables = fast_toml.tables(text)
    if tables is not None:
        return tables
    try:
        return toml.loads(text)
    except (ValueError, RecursionError) as error:
        raise FleetFileError([not_toml(error, file=name, text=text)]) from None


def _fill_tenants(reader: DraftReader) -> None:
    """Give each scope and VM without a tenant the only tenant of the file."""
    tenants = {draft.name: None for draft in reader.drafts[Kind.TENANT]}
    only = next(iter(tenants), DEFAULT_TENANT)
    for draft in reader.drafts[Kind.SCOPE]:
        if "tenant" not in draft.given:
            if len(tenants) > 1:
                message = f"is missing; tenants are {listed(tenants)}"
                reader.add(Kind.SCOPE, draft, "tenant", message)
            else:
                draft.values["tenant"] = only
    for draft in reader.drafts[Kind.VM]:
        if "scope" in draft.given:
            if "tenant" in draft.given:
                message = (
                    "is for a VM without a scope; this VM has the tenant of its scope"
                )
                reader.add(Kind.VM, draft, "tenant", message)
        elif "tenant" not in draft.given:
            if len(tenants) > 1:
                message = f"is missing; a VM without a scope needs a tenant: {listed(tenants)}"
                reader.add(Kind.VM, draft, "tenant", message)
            else:
                draft.values["tenant"] = only


def _own_scopes(vms: Iterable[Draft]) -> Iterator[dict[str, Any]]:
    """Yield the attributes of a standalone scope for each VM without a scope."""
    alone = {draft.name: draft for draft in vms if "scope" not in draft.given}
    for name, draft in alone.items():
        yield {
            "name": name,
            "tenant": draft.values["tenant"],
            "kind": ScopeKind.STANDALONE,
            "implied": True,
        }


def _vms(
    drafts: Sequence[Draft], *, scopes: Mapping[str, Scope], hosts: Mapping[str, Host]
) -> Iterator[Vm]:
    """Yield the VMs; `checks` refuses broken references."""
    for draft in drafts:
        draft.values.setdefault("scope", "" if "scope" in draft.given else draft.name)
    single = views.single_fault_domain_scopes(
        (draft.values["scope"], draft.values.get("fault_domain", 0)) for draft in drafts
    )
    blank = _blank(Vm)
    for draft in drafts:
        name, values = draft.name, draft.values
        applied = wish_of(Kind.VM, name, values)
        values.setdefault("wire_name", name)
        if "vm_id" not in values:
            values["vm_id"] = derived_vm_id(name)
        scope, host = scopes.get(values["scope"]), hosts.get(values["host"])
        values["tenant"] = values["view"] = ""
        if scope is not None and host is not None:
            values["tenant"] = scope.tenant
            values["view"] = views.view_id(
                name,
                scope=scope,
                zone=host.zone,
                single_fault_domain=scope.name in single,
            )
        values["applied"] = applied
        yield changed(blank, **values)


def _refuse(
    problems: list[Problem], further: Iterator[Problem], refusal: type[FleetFileError]
) -> None:
    """Raise `refusal` if there are problems."""
    reported = {(problem.key, problem.name) for problem in problems}
    for problem in further:
        if len(problems) > PROBLEMS_MAX:
            break
        # Missing keys and wrong types are already reported.
        if (problem.key, problem.name) not in reported:
            problems.append(problem)
    if problems:
        raise refusal(problems)


def _records(
    kind: Kind, model: type[_Record], rows: Iterable[dict[str, Any]]
) -> Iterator[_Record]:
    """Yield the objects with these attributes."""
    blank = _blank(model)
    for values in rows:
        values["applied"] = wish_of(kind, values["name"], values)
        yield changed(blank, **values)


def _blank(model: type[_Record]) -> _Record:
    """Return an object as the base for changed copies.

    Calling the class for each object takes twice as long: with 100,000 VMs that is a
    noticeable part of a second.
    """
    needed = [column.name for column in fields(model) if column.default is MISSING]
    blank: dict[str, Any] = dict.fromkeys(needed, "")
    return model(**blank)


def _named(records: Iterable[_Record]) -> dict[str, _Record]:
    return {record.name: record for record in records}
