"""The lines of the service's stream, and the relay's file, which is one such line. Pure."""

import json
from collections.abc import Mapping
from typing import Any, cast

from forewarn.fleet import instance_json
from forewarn.protocol import relayed
from forewarn.relay.knowledge import Knowledge, Known, Line, position_of


def line_of(text: bytes | str) -> Line:
    """Parse a line; raises ValueError if it is not valid."""
    try:
        value: Any = json.loads(text)
    except RecursionError:
        raise ValueError("the line is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("the line is not a table")  # noqa: TRY004
    members = cast("Mapping[str, object]", value)
    is_whole = members.get("whole") is True
    since = members.get("since", 0)
    if type(since) is not int:
        raise ValueError("since is not a whole number")
    return Line(
        position=position_of(_text(members, "position")),
        is_whole=is_whole,
        is_same=members.get("same") is True,
        # Services of the first version send none.
        digest=_text(members, "digest") if "digest" in members else "",
        host=_text(members, "host") if is_whole else "",
        since=since,
        views=tuple(map(relayed.view_of, _list(members, "views"))),
        views_gone=_names(members, "views_gone"),
        guests=tuple(map(_known_of, _list(members, "guests"))),
        guests_gone=_names(members, "guests_gone"),
    )


def text_of(knowledge: Knowledge) -> str:
    """Return all that is known as a line; something must be known."""
    assert knowledge.position is not None, "there is something to write"
    views = [relayed.view_text(view) for view in knowledge.views.values()]
    guests = [
        relayed.guest_text(known.guest, instance_json.members_of(known.instance))
        for known in knowledge.guests.values()
    ]
    return (
        f'{{"position":{json.dumps(knowledge.position.text)},"whole":true,'
        f'"digest":{json.dumps(knowledge.digest)},'
        f'"host":{json.dumps(knowledge.host)},'
        f'"views":[{",".join(views)}],"guests":[{",".join(guests)}]}}\n'
    )


def _known_of(value: object) -> Known:
    guest = relayed.guest_of(value)
    instance = cast("Mapping[str, object]", value).get("instance", {})
    facts = instance_json.facts_of(instance, addresses=guest.addresses)
    return Known(guest=guest, instance=facts)


def _text(members: Mapping[str, object], name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is not a text")  # noqa: TRY004
    return value


def _list(members: Mapping[str, object], name: str) -> list[object]:
    value = members.get(name, [])
    if not isinstance(value, list):
        raise ValueError(f"{name} is not a list")  # noqa: TRY004
    return cast("list[object]", value)


def _names(members: Mapping[str, object], name: str) -> tuple[str, ...]:
    values = _list(members, name)
    if not all(isinstance(value, str) for value in values):
        raise ValueError(f"{name} are not texts")
    return tuple(cast("list[str]", values))
