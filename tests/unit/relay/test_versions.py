"""Relays and services of different versions, by the lines and bodies of the first one.

An upgrade begins with the service, and relays follow for days. So each later service must
send everything that the first relay reads, and take everything that it sends; and each
later relay must read the lines of the service before it. `tests/golden/relay/first.json`
has what the first version sent, and `second.json` what came with digests, confirmations and
first requests together; they never change.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from forewarn.admin import relay_bodies
from forewarn.admin.relay_host import Host, alive, same
from forewarn.fleet import instance_json
from forewarn.fleet.instance import InstanceFacts
from forewarn.fleet.model import Host as FleetHost
from forewarn.fleet.model import Scope, ScopeKind, Vm
from forewarn.protocol import relayed
from forewarn.protocol.events import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    Resource,
)
from forewarn.protocol.published import Guest, ViewSnapshot
from forewarn.relay import knowledge, messages
from forewarn.relay.knowledge import Knowledge, Known, position_of
from tests.unit.admin.relays import Api

GOLDEN = Path(__file__).parents[2] / "golden" / "relay"

FIRST: dict[str, Any] = json.loads((GOLDEN / "first.json").read_text("utf-8"))

SECOND: dict[str, Any] = json.loads((GOLDEN / "second.json").read_text("utf-8"))
"""Its digests are what the service of that time computed: a relay only repeats them."""

EVENT = Event(
    event_id="602D9444-D2CD-49C7-8624-8643E7171297",
    operation="",
    scope="",
    tenant="",
    status=EventStatus.SCHEDULED,
    event_type=EventType.REBOOT,
    source=EventSource.PLATFORM,
    resources=(Resource(vm="web_0", name="web_0", fault_domain=0),),
    not_before=1_893_456_000_000_000,
    description="The host restarts.",
    duration_seconds=9,
    created=0,
)

VIEW = ViewSnapshot(
    view_id="s:web",
    enabling="",
    enabled=True,
    epoch=2,
    incarnation=7,
    ready_at=1_893_455_000_000_000,
    events=(EVENT,),
)

GUEST = Known(
    guest=Guest(
        vm="web_0",
        view_id="s:web",
        vm_id="11111111-2222-3333-4444-555555555555",
        addresses=("192.0.2.4", "2001:db8::4"),
        listen="",
    ),
    instance=InstanceFacts(
        vm=Vm(
            name="",
            host="",
            scope="",
            tenant="",
            view="",
            wire_name="web_0",
            vm_id="11111111-2222-3333-4444-555555555555",
            addresses=("192.0.2.4", "2001:db8::4"),
            size="Standard_D4s_v5",
            location="west",
            resource_group="shop",
            subscription="sub",
            fault_domain=1,
            update_domain=2,
            spot=True,
            tags=(("role", "web"),),
        ),
        scope=Scope(name="", tenant="", kind=ScopeKind.STANDALONE),
        host=FleetHost(name="", zone="1"),
    ),
)


def lines() -> tuple[Any, Any]:
    """Return the lines of the service: all of it, and a change."""
    host = Host("h1", 0)
    host.put("views", {"s:web": relayed.view_text(VIEW)}, 1)
    text = relayed.guest_text(GUEST.guest, instance_json.members_of(GUEST.instance))
    host.put("guests", {"web_0": text}, 1)
    whole = host.message(None, "3.1.abc")
    ended = replace(VIEW, incarnation=8, events=())
    host.set("views", "s:web", relayed.view_text(ended), 2)
    host.put("guests", {}, 2)
    return json.loads(whole), json.loads(host.message(1, "3.2.abc"))


def without_digest(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line without its digest, which depends on what the service sends."""
    assert len(line["digest"]) == len(SECOND["whole"]["digest"])
    return {name: value for name, value in line.items() if name != "digest"}


def taken(*given: Any) -> Knowledge:
    """Return what a relay knows after these lines."""
    knowledge_so_far = Knowledge()
    for line in given:
        knowledge_so_far = knowledge.take(
            knowledge_so_far, messages.line_of(json.dumps(line))
        ).knowledge
    return knowledge_so_far


def within(old: Any, new: Any) -> bool:
    """Return whether a value has everything that an older one has."""
    if isinstance(old, dict) and isinstance(new, dict):
        members = cast("dict[str, Any]", new)
        return all(
            name in members and within(value, members[name])
            for name, value in cast("dict[str, Any]", old).items()
        )
    if isinstance(old, list) and isinstance(new, list):
        olds, news = cast("list[Any]", old), cast("list[Any]", new)
        return len(olds) == len(news) and all(map(within, olds, news))
    return bool(old == new)


def with_more(value: Any) -> Any:
    """Return a value in which each table has a member that no relay knows."""
    if isinstance(value, dict):
        members = {
            name: with_more(member)
            for name, member in cast("dict[str, Any]", value).items()
        }
        return {**members, "of a later version": {"nested": [1, None]}}
    if isinstance(value, list):
        return [with_more(member) for member in cast("list[Any]", value)]
    return value


def test_service_sends_what_the_first_relay_reads() -> None:
    whole, change = lines()
    assert within(FIRST["whole"], whole)
    assert within(FIRST["change"], change)


def test_relay_reads_the_lines_of_the_first_service() -> None:
    known = taken(FIRST["whole"])
    assert known.host == "h1"
    assert dict(known.views) == {"s:web": VIEW}
    assert dict(known.guests) == {"web_0": GUEST}
    after = taken(FIRST["whole"], FIRST["change"])
    assert dict(after.guests) == {}


def test_relay_ignores_what_a_later_service_adds() -> None:
    later = [with_more(FIRST["whole"]), with_more(FIRST["change"])]
    assert taken(later[0]) == taken(FIRST["whole"])
    assert taken(*later) == taken(FIRST["whole"], FIRST["change"])


def test_service_takes_the_bodies_of_the_first_relay() -> None:
    for name, kind in {
        "approve": relay_bodies.RelayApprovals,
        "enable": relay_bodies.RelayEnable,
        "seen": relay_bodies.RelaySeen,
    }.items():
        assert kind.model_validate(FIRST["bodies"][name])


# The second exchange: digests, confirmations, and first requests together


def test_service_sends_what_the_second_relay_reads() -> None:
    whole, change = lines()
    assert within(without_digest(SECOND["whole"]), without_digest(whole))
    assert within(without_digest(SECOND["change"]), without_digest(change))
    assert within(SECOND["same"], json.loads(same("4.0.def")))
    assert within(SECOND["alive"], json.loads(alive(2, "3.5.abc")))


def test_relay_reads_the_lines_of_the_second_service() -> None:
    relay = taken(SECOND["whole"])
    assert (dict(relay.views), dict(relay.guests)) == (
        {"s:web": VIEW},
        {"web_0": GUEST},
    )
    assert relay.digest == SECOND["whole"]["digest"]
    after = taken(SECOND["whole"], SECOND["change"], SECOND["alive"])
    assert after.digest == SECOND["change"]["digest"]
    # After a restart of the service, it says that nothing has changed.
    again = taken(SECOND["whole"], SECOND["change"], SECOND["same"])
    assert (again.views, again.digest) == (after.views, after.digest)
    assert again.position == position_of(SECOND["same"]["position"])


def test_relay_ignores_what_a_service_after_the_second_adds() -> None:
    names = ("whole", "change", "alive", "same")
    assert taken(*(with_more(SECOND[name]) for name in names)) == taken(
        *(SECOND[name] for name in names)
    )


def test_relay_reads_the_file_of_the_second_relay() -> None:
    relay = taken(SECOND["file"])
    assert relay == taken(SECOND["whole"])
    assert within(SECOND["file"], json.loads(messages.text_of(relay)))


def test_service_takes_the_bodies_of_the_second_relay() -> None:
    bodies = SECOND["bodies"]
    enable = relay_bodies.RelayEnable.model_validate(bodies["enable"])
    assert enable.names == ("web_0", "db_0")
    served = relay_bodies.RelayServed.model_validate(bodies["served"])
    assert served.position == "3.2.abc"


def test_service_takes_the_questions_of_the_second_relay() -> None:
    """A relay names what it holds, and says that it confirms, in the query."""
    schema = Api().client.get("/openapi.json").json()
    names = {
        parameter["name"]
        for parameter in schema["paths"]["/v1/relay/stream"]["get"]["parameters"]
    }
    assert set(SECOND["query"]) <= names
