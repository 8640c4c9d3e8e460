"""The fleet file: TOML text in, the fleet that its author wants out.

The keys are those of `docs/reference/fleet-file.md`, in the table of `fields`. What the text has
wrong in itself is found by `drafts` (tables, keys, types); what the fleet has wrong as
a whole by `checks`; both are told together. What an author leaves out is filled in
here: a VM without a scope gets a standalone one of its own, and a file without
tenants has one, `default`.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Any, TypeVar

from forewarn import __version__, toml
from forewarn.fleet import checks, plain, views
from forewarn.fleet.drafts import Draft, DraftReader
from forewarn.fleet.errors import FleetFileError, Kind, Place, nowhere
from forewarn.fleet.fields import derived_vm_id, wish_of
from forewarn.fleet.model import Host, Scope, ScopeKind, Tenant, Vm
from forewarn.problems import PROBLEMS_MAX, Problem, listed, not_toml

DEFAULT_TENANT = "default"
"""The tenant of a file that names none."""


_Record = TypeVar("_Record", Tenant, Scope, Host, Vm)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetText:
    """A fleet file that nobody has read yet."""

    name: str
    """The file's name, for messages."""
    text: str
    may_be_empty: bool = False
    """Its author means it, if nothing is in it: whatever files have made goes."""

    def digest(self) -> str:
        """Return what tells this text from others, read by this version.

        Another version may read the same text otherwise.
        """
        # A text from JSON may hold half a character, which the reader refuses.
        text = self.text.encode("utf-8", "surrogatepass")
        return hashlib.sha256(f"{__version__}\n".encode() + text).hexdigest()

    def read(self) -> "WantedFleet":
        """Return the fleet that it describes; raises FleetFileError."""
        wanted = read_fleet(self.text, name=self.name)
        return replace(wanted, may_be_empty=self.may_be_empty)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedFleet:
    """What a fleet's author wants, each object with the wish in `applied`."""

    tenants: Mapping[str, Tenant]
    scopes: Mapping[str, Scope]
    hosts: Mapping[str, Host]
    vms: Mapping[str, Vm]
    place: Place = field(default=nowhere, compare=False, repr=False)
    """Where the author wrote it."""
    is_sound: bool = field(default=False, compare=False)
    """Whether it is known to obey all rules by itself."""
    may_be_empty: bool = field(default=False, compare=False)
    """Its author means it, if nothing is in it."""

    def count(self) -> dict[str, int]:
        """Return how many objects of each kind there are."""
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
    """Return the fleet that `text` describes; `name` is the file's, for messages.

    `tables`: those of the fleet, where they are `within` a table of another file.
    Raises FleetFileError with all problems that were found.
    """
    if tables is None:
        tables = _parse(text, name)
    reader = DraftReader(tables, text=text, file=name, within=within)
    reader.read()
    _fill_tenants(reader)
    drafts = reader.drafts
    found = {kind: [draft.values for draft in each] for kind, each in drafts.items()}
    own = _own_scopes(drafts[Kind.VM])
    scopes = list(_records(Kind.SCOPE, Scope, chain(found[Kind.SCOPE], own)))
    hosts = list(_records(Kind.HOST, Host, found[Kind.HOST]))
    tenants = list(_records(Kind.TENANT, Tenant, found[Kind.TENANT]))
    if not tenants and any(scope.tenant == DEFAULT_TENANT for scope in scopes):
        tenants = list(_records(Kind.TENANT, Tenant, [{"name": DEFAULT_TENANT}]))
    vms = list(_vms(drafts[Kind.VM], scopes=_named(scopes), hosts=_named(hosts)))
    problems = checks.find_problems(tenants, scopes, hosts, vms, reader.places)
    _refuse(reader.problems, problems)
    return WantedFleet(
        tenants=_named(tenants),
        scopes=_named(scopes),
        hosts=_named(hosts),
        vms=_named(vms),
        place=reader.places,
        is_sound=True,
    )


def _parse(text: str, name: str) -> dict[str, object]:
    """Return the tables of a TOML text; its first mistake becomes a problem."""
    found = plain.tables(text)
    if found is not None:
        return found
    try:
        return toml.loads(text)
    except (ValueError, RecursionError) as error:
        raise FleetFileError([not_toml(error, file=name, text=text)]) from None


def _fill_tenants(reader: DraftReader) -> None:
    """Give each scope and VM that names no tenant the only one that there is."""
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
                message = "is for a VM without a scope; the scope says whose it is"
                reader.add(Kind.VM, draft, "tenant", message)
        elif "tenant" not in draft.given:
            if len(tenants) > 1:
                message = (
                    f"is missing; a VM without a scope needs one: {listed(tenants)}"
                )
                reader.add(Kind.VM, draft, "tenant", message)
            else:
                draft.values["tenant"] = only


def _own_scopes(vms: Iterable[Draft]) -> Iterator[dict[str, Any]]:
    """Yield the attributes of the standalone scopes of the VMs that name none."""
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
    """Yield the VMs; what refers to nothing is left for `checks` to refuse."""
    for draft in drafts:
        draft.values.setdefault("scope", "" if "scope" in draft.given else draft.name)
    single = views.single_fault_domain_scopes(
        (draft.values["scope"], draft.values.get("fault_domain", 0)) for draft in drafts
    )
    make = _maker(Vm)
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
        yield make(values)


def _refuse(problems: list[Problem], found: Iterator[Problem]) -> None:
    """Raise if there are problems, in the text or in the whole fleet."""
    told = {(problem.key, problem.name) for problem in problems}
    for problem in found:
        if len(problems) > PROBLEMS_MAX:
            break
        # What is missing or of the wrong type would be told twice.
        if (problem.key, problem.name) not in told:
            problems.append(problem)
    if problems:
        raise FleetFileError(problems)


def _records(
    kind: Kind, model: type[_Record], each: Iterable[dict[str, Any]]
) -> Iterator[_Record]:
    """Yield the objects that these attributes make, with their wishes."""
    make = _maker(model)
    for values in each:
        values["applied"] = wish_of(kind, values["name"], values)
        yield make(values)


def _maker(model: type[_Record]) -> Callable[[Mapping[str, Any]], _Record]:
    """Return what makes an object of its attributes.

    As the class itself would, which takes twice as long for frozen values: with
    100,000 VMs that is a noticeable part of a second.
    """
    parts = [
        (field.name, field.default, vars(model)[field.name].__set__)
        for field in fields(model)
    ]

    def make(values: Mapping[str, Any]) -> _Record:
        made = object.__new__(model)
        for name, default, put in parts:
            put(made, values.get(name, default))
        return made

    return make


def _named(records: Iterable[_Record]) -> dict[str, _Record]:
    return {record.name: record for record in records}
