"""The error for an unknown name, with the names that are nearest to it."""

from typing import Any

from forewarn.control.transactions.named import OfTenant, is_id, kind_of_work
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

_NAMES: tuple[Query[Any], ...] = (
    kinds.ALL_HOSTS,
    kinds.ALL_VMS,
    kinds.ALL_SCOPES,
    kinds.ALL_TENANTS,
)
_NAMES_FOR_OPERATORS: tuple[Query[Any], ...] = (*_NAMES, kinds.ALL_BLACKOUTS)
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
    candidates = _candidates(reader, name, is_tenants=is_tenants)
    # A name that was typed only in part is not similar, because it is too short.
    begun = [candidate for candidate in candidates if candidate.startswith(name)][
        :NAMES_LISTED_MAX
    ]
    near = begun or nearest(name, candidates)
    lists = _LISTS_OF_TENANT if is_tenants else _LISTS
    hint = f"Did you mean {' or '.join(map(quoted, near))}?" if near else lists
    return NotFoundError(
        f"there is no {_kinds(is_tenants=is_tenants)} {name!r}", hint=hint
    )


def _kinds(*, is_tenants: bool) -> str:
    """Return which objects are explained."""
    if is_tenants:
        return "operation, request, event, VM, scope or tenant"
    return "operation, rollout, event, campaign, host, VM or other object"


def _candidates(reader: Reader, name: str, *, is_tenants: bool) -> list[str]:
    """Return candidates: the names after the unknown name and each prefix of it, those
    with the longest prefix first."""
    names = _NAMES if is_tenants else _NAMES_FOR_OPERATORS
    queries = _IDS[kind_of_work(name)] if is_id(name) else names
    lengths = range(len(name), -1, -1)[: NEAR_PREFIXES_MAX - 1]
    candidates: dict[str, None] = {}
    for length in dict.fromkeys((*lengths, 0)):
        for query in queries:
            rows = reader.select(query, after=name[:length], limit=NEAR_ROWS)
            candidates.update((row.key, None) for row in rows)
        if len(candidates) >= NAMES_COMPARED_MAX:
            break
    return list(candidates)
