"""The error for an unknown name, with the names that are nearest to it."""

from typing import Any

from forewarn.control.transactions.named import is_id, kind_of_work
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


def error_for(reader: Reader, name: str) -> NotFoundError:
    """Return the error for an unknown name, with the nearest names."""
    for type_, noun in _GROUPS:
        if reader.get(type_, name) is not None:
            return NotFoundError(
                f"{name!r} is a {noun}, not an operation, rollout, event, "
                "campaign, host or VM",
                hint=f"Run `forewarn operations --{noun} {name}` to list its operations.",
            )
    found = _candidates(reader, name)
    # A name that was typed only in part is not similar, because it is too short.
    begun = [each for each in found if each.startswith(name)][:NAMES_LISTED_MAX]
    near = begun or nearest(name, found)
    hint = f"Did you mean {' or '.join(map(quoted, near))}?" if near else _LISTS
    return NotFoundError(
        f"there is no operation, rollout, event, campaign, host or VM {name!r}",
        hint=hint,
    )


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
