"""The fleet file: TOML text in, the fleet that its author wants out.

The keys are those of `docs/interfaces.md`, in the table of `fields`. What the
text has wrong in itself is found by `drafts` (tables, keys, types); what the
fleet has wrong as a whole by `checks`; both are told together. What an author
leaves out is filled in here: a VM without a scope gets a standalone one of its
own, and a file without tenants has one, `default`.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from forewarn.fleet import checks, views
from forewarn.fleet.drafts import Draft, DraftReader
from forewarn.fleet.fields import derived_vm_id, wish
from forewarn.fleet.model import Host, Scope, ScopeKind, Tenant, Vm
from forewarn.fleet.problems import (
    PROBLEMS_MAX,
    FleetFileError,
    Kind,
    Place,
    Problem,
    listed,
    nowhere,
)

DEFAULT_TENANT = "default"
"""The tenant of a file that names none."""

_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")
_AT_END = " (at end of document)"

_Record = TypeVar("_Record", Tenant, Scope, Host, Vm)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedFleet:
    """What a fleet's author wants, each object with the wish in `applied`."""

    tenants: Mapping[str, Tenant]
    scopes: Mapping[str, Scope]
    hosts: Mapping[str, Host]
    vms: Mapping[str, Vm]
    place: Place = field(default=nowhere, compare=False, repr=False)
    """Where the author wrote it."""


def read_fleet(text: str, *, name: str) -> WantedFleet:
    """Return the fleet that `text` describes; `name` is the file's, for messages.

    Raises FleetFileError with all problems that were found.
    """
    reader = DraftReader(_parse(text, name), text=text, file=name)
    reader.read()
    _fill_tenants(reader)
    scopes = [Scope(**draft.values) for draft in reader.drafts[Kind.SCOPE]]
    hosts = [Host(**draft.values) for draft in reader.drafts[Kind.HOST]]
    tenants = [Tenant(**draft.values) for draft in reader.drafts[Kind.TENANT]]
    scopes += _own_scopes(reader.drafts[Kind.VM])
    if not tenants and any(scope.tenant == DEFAULT_TENANT for scope in scopes):
        tenants = [Tenant(name=DEFAULT_TENANT)]
    vms = [_vm(draft) for draft in reader.drafts[Kind.VM]]
    found = checks.find_problems(tenants, scopes, hosts, vms, reader.places)
    _refuse(reader.problems, found)
    wanted_scopes = _wanted(Kind.SCOPE, scopes)
    wanted_hosts = _wanted(Kind.HOST, hosts)
    settled = views.settle(vms, scopes=wanted_scopes, hosts=wanted_hosts)
    return WantedFleet(
        tenants=_wanted(Kind.TENANT, tenants),
        scopes=wanted_scopes,
        hosts=wanted_hosts,
        vms=_wanted(Kind.VM, settled.values()),
        place=reader.places,
    )


def _parse(text: str, name: str) -> dict[str, object]:
    """Return the tables of a TOML text; its first mistake becomes a problem."""
    line = 0
    try:
        return tomllib.loads(text)
    except RecursionError:
        message = "lists or tables are nested too deeply"
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        if at := _AT_LINE.search(message):
            line = int(at[1])
            message = message[: at.start()]
        else:
            line = text.count("\n") + 1
            message = message.removesuffix(_AT_END)
    except ValueError:
        message = "a number is too long"
    sentence = f"this is not TOML: {message}"
    raise FleetFileError([Problem(file=name, line=line, key="", message=sentence)])


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


def _own_scopes(vms: Iterable[Draft]) -> Iterator[Scope]:
    """Yield the standalone scopes of the VMs that name none."""
    alone = {draft.name: draft for draft in vms if "scope" not in draft.given}
    for name, draft in alone.items():
        yield Scope(
            name=name,
            tenant=draft.values["tenant"],
            kind=ScopeKind.STANDALONE,
            implied=True,
        )


def _vm(draft: Draft) -> Vm:
    """Return the VM, its tenant and view still unsettled."""
    values = draft.values.copy()
    values.update(tenant="", view="")
    values.setdefault("wire_name", draft.name)
    values.setdefault("vm_id", derived_vm_id(draft.name))
    values.setdefault("scope", "" if "scope" in draft.given else draft.name)
    return Vm(**values)


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


def _wanted(kind: Kind, records: Iterable[_Record]) -> dict[str, _Record]:
    return {
        record.name: replace(record, applied=wish(kind, record)) for record in records
    }
