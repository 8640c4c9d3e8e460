"""The facts of the instance endpoint as JSON, for the relay of a host.

Only what the document of a VM shows is written (clause 1.11), so a relay learns nothing
that its VMs do not see. The relay reads it back, and gets the same documents. Pure.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, cast

from forewarn.fleet.instance import InstanceFacts
from forewarn.fleet.model import Host, Scope, ScopeKind, Vm

PLACES_KEPT = 256
"""Maximum scopes and hosts that are kept: the VMs of a host share few of them."""

_TEXTS = {
    "name": "wire_name",
    "vm_id": "vm_id",
    "size": "size",
    "resource_group": "resource_group",
    "subscription": "subscription",
    "location": "location",
}
"""Members that are texts of the VM, and their fields."""

_NUMBERS = ("fault_domain", "update_domain")

OF_VM = (*_TEXTS.values(), *_NUMBERS, "spot", "tags")
"""The fields of a VM that are written."""

_FIELDS = attrgetter(*OF_VM)

_MEMBERS = (*_TEXTS, *_NUMBERS, "spot", "tags", "zone", "placement_group", "scale_set")
"""All members, in their order."""


def members_of(facts: InstanceFacts) -> dict[str, Any]:
    """Return the members of a JSON value; those with a usual value are left out."""
    scope = facts.scope
    in_scale_set = scope.kind is ScopeKind.SCALE_SET
    return members(
        _FIELDS(facts.vm),
        zone=facts.host.zone,
        place=(scope.name, scope.scale_set) if in_scale_set else ("", ""),
    )


def members(
    values: Iterable[Any], *, zone: str, place: tuple[str, str]
) -> dict[str, Any]:
    """Return the members for the values of `OF_VM`.

    `place` is the placement group and the scale set; both are empty if the VM is in none.
    """
    named = zip(_MEMBERS, (*values, zone, *place), strict=True)
    return {name: value for name, value in named if value}


def facts_of(value: object, *, addresses: tuple[str, ...]) -> InstanceFacts:
    """Return the facts in a JSON value; raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError("instance is not a table")  # noqa: TRY004
    members = cast("Mapping[str, object]", value)
    group = _text(members, "placement_group")
    texts: Any = {field: _text(members, member) for member, field in _TEXTS.items()}
    numbers: Any = {name: _number(members, name) for name in _NUMBERS}
    return InstanceFacts(
        vm=Vm(
            name="",
            host="",
            scope=group,
            tenant="",
            view="",
            spot=members.get("spot") is True,
            tags=_tags(members.get("tags", [])),
            addresses=addresses,
            **texts,
            **numbers,
        ),
        scope=_scope(group, _text(members, "scale_set")),
        host=_host(_text(members, "zone")),
    )


@lru_cache(maxsize=PLACES_KEPT)
def _scope(group: str, scale_set: str) -> Scope:
    return Scope(
        name=group,
        tenant="",
        kind=ScopeKind.SCALE_SET if group else ScopeKind.STANDALONE,
        scale_set=scale_set,
    )


@lru_cache(maxsize=PLACES_KEPT)
def _host(zone: str) -> Host:
    return Host(name="", zone=zone)


def _text(members: Mapping[str, object], name: str) -> str:
    value = members.get(name, "")
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a text")  # noqa: TRY004
    return value


def _number(members: Mapping[str, object], name: str) -> int:
    value = members.get(name, 0)
    # Python counts True as an integer, and JSON does not.
    if type(value) is not int:
        raise ValueError(f"{name} is not a whole number")
    return value


def _tags(value: object) -> tuple[tuple[str, str], ...]:
    pairs = cast("list[object]", value) if isinstance(value, list) else [value]
    tags: list[tuple[str, str]] = []
    for pair in pairs:
        match pair:
            case [str(name), str(text)]:
                tags.append((name, text))
            case _:
                raise ValueError("tags are not pairs of texts")
    return tuple(tags)
