"""The error for an unknown name, with the names that are nearest to it."""

from typing import Any

from forewarn.control.transactions.named import OfTenant, is_id, kind_of_work
from forewarn.fleet.model import Scope, Tenant
from forewarn.problems import (
    NAMES_COMPARED_MAX,
    NAMES_LISTED_MAX,
    nearest,
    quoted,
)
from forewarn.protocol.errors import NotFoundError
from forewarn.protocol.operations import (
    Operation,
    Request,
)
from forewarn.store import kinds
from forewarn.store.port import Reader
from forewarn.store.questions import Query

NEAR_ROWS = 100
"""Maximum names that are read for each prefix of an unknown name."""


NEAR_PREFIXES_MAX = 20
"""Maximum prefixes of an unknown name whose successors are read: an ID has as many
characters. A name with one wrong character follows the prefix before it."""

_GROUPS: tuple[tuple[type[Tenant] | type[Scope], str], ...] = (
    (Scope, "scope"),
    (Tenant, "tenant"),
)
"""Objects that select operations, and are not explained."""

_NAMES: tuple[Query[Any], ...] = (kinds.ALL_HOSTS, kinds.ALL_VMS)
_IDS: dict[type[Operation] | type[Request], tuple[Query[Any], ...]] = {
    Operation: (kinds.ALL_OPERATIONS,),
    Request: (kinds.ROLLOUTS,),
}
"""Queries that find names similar to an unknown one."""

_LISTS = (
    "Run `forewarn fleet show --all`, `forewarn operations --all`, "
    "`forewarn events --all` or `forewarn rollout list --all` to list names."
)
_LISTS_OF_TENANT = (
    "Run `forewarn fleet show --all`, `forewarn operations --all` or "
    "`forewarn events --all` to list names."
)


def error_for(reader: Reader, name: str) -> NotFoundError:
    """Return the error for an unknown name, with the nearest names."""
    is_tenants = isinstance(reader, OfTenant)
    for type_, noun in _GROUPS:
        if reader.get(type_, name) is not None:
            return _of_group(noun, name, is_tenants=is_tenants)
    found = _candidates(reader, name)
    # A name that was typed only in part is not similar, because it is too short.
    begun = [each for each in found if each.startswith(name)][:NAMES_LISTED_MAX]
    near = begun or nearest(name, found)
    lists = _LISTS_OF_TENANT if is_tenants else _LISTS
    hint = f"Did you mean {' or '.join(map(quoted, near))}?" if near else lists
    return NotFoundError(
        f"there is no {_kinds(is_tenants=is_tenants)} {name!r}", hint=hint
    )


def _of_group(noun: str, name: str, *, is_tenants: bool) -> NotFoundError:
    """Return the error for the name of an object that selects operations."""
    hint = f"Run `forewarn operations --{noun} {name}` to list its operations."
    if is_tenants and noun == "scope":
        # Work that is not announced has no operation for a tenant.
        hint += f" `forewarn upcoming --scope {name}` lists the coming work on its VMs."
    return NotFoundError(
        f"{name!r} is a {noun}, not an {_kinds(is_tenants=is_tenants)}", hint=hint
    )


def _kinds(*, is_tenants: bool) -> str:
    """Return which objects are explained."""
    if is_tenants:
        return "operation, request, event or VM"
    return "operation, rollout, event, campaign, host or VM"


def _candidates(reader: Reader, name: str) -> list[str]:
    """Return candidates: the names after the unknown name and each prefix of it, those
    with the longest prefix first."""
    queries = _IDS[kind_of_work(name)] if is_id(name) else _NAMES
    lengths = range(len(name), -1, -1)[: NEAR_PREFIXES_MAX - 1]
    found: dict[str, None] = {}
    for length in dict.fromkeys((*lengths, 0)):
        for query in queries:
            rows = reader.select(query, after=name[:length], limit=NEAR_ROWS)
            found.update((row.key, None) for row in rows)
        if len(found) >= NAMES_COMPARED_MAX:
            break
    return list(found)
