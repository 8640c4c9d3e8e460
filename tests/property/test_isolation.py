"""Two tenants on the same hosts: no request of one shows, or moves, the other.

With any method, path, header and body of a VM's request, the answer holds
nothing of another scope's events, and they stay as they are (1.1, 3.3, 6.1).
"""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.control.requests import verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Action, Verb
from forewarn.store.memory import MemoryStore
from tests.support.guests import VERSIONS
from tests.support.worlds import World

FLEET = """
[[tenant]]
name = "shop"
[[tenant]]
name = "bank"
[[host]]
name = "h1"
[[host]]
name = "h2"
[[scope]]
name = "web"
tenant = "shop"
kind = "availability-set"
[[scope]]
name = "vault"
tenant = "bank"
kind = "availability-set"
[[scope]]
name = "render"
tenant = "bank"
kind = "scale-set"
gpu = true
[[vm]]
name = "web_0"
host = "h1"
scope = "web"
[[vm]]
name = "vault_0"
host = "h1"
scope = "vault"
[[vm]]
name = "vault_1"
host = "h2"
scope = "vault"
fault_domain = 1
[[vm]]
name = "render_0"
host = "h1"
scope = "render"
[[vm]]
name = "render_1"
host = "h2"
scope = "render"
"""

MINE = "mine"
THEIRS = "theirs"
UNKNOWN = "00000000-0000-4000-8000-000000000000"
GUID = re.compile(rb"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")

WHICH = st.tuples(st.sampled_from((MINE, THEIRS, THEIRS, UNKNOWN)), st.integers(0, 5))
PATHS = st.sampled_from(
    (
        "/metadata/scheduledevents",
        "/metadata/scheduledEvents/",
        "/metadata/scheduledevents/{id}",
        "/metadata/scheduledevents/../scheduledevents",
        "/metadata/%73cheduledevents",
        "http://vault_0/metadata/scheduledevents",
        "/metadata/instance",
        "/metadata/instance/compute",
        "/metadata/instance/compute/name",
        "/metadata/instance/network",
        "/metadata/versions",
        "/metadata",
        "/",
        "/{id}",
    )
)
QUERIES = st.lists(
    st.one_of(
        st.sampled_from(VERSIONS).map(lambda version: f"api-version={version}"),
        st.sampled_from(
            (
                "api-version=2021-02-01",
                "vm=vault_0",
                "EventId={id}",
                "scope=vault",
                "format=text",
                "resourceGroup=bank",
            )
        ),
    ),
    max_size=3,
)
HEADERS = st.dictionaries(
    st.sampled_from(
        (
            "if-none-match",
            "x-forwarded-for",
            "x-instance-id",
            "x-instance-id-signature",
            "x-tenant-id",
            "host",
            "content-type",
        )
    ),
    st.sampled_from(("vault_0", "{id}", "*", "1", '"2"', "bank", "10.0.0.2")),
    max_size=3,
)
METHODS = st.sampled_from(("GET", "POST", "POST", "POST", "PUT", "DELETE", "HEAD"))
BODIES = st.one_of(
    st.lists(WHICH, max_size=4).map(lambda ids: ("requests", ids)),
    st.tuples(st.just("bare"), st.lists(WHICH, max_size=2)),
    st.tuples(st.just("bytes"), st.binary(max_size=20)),
)


def make_world() -> World:
    """Return a world in which everybody listens and everybody has events."""
    world = World(store=MemoryStore, driver=SimulatedDriver(), fleet=FLEET)
    for name in ("web_0", "vault_0", "render_0", "render_1"):
        assert world.vm(name).get().status == 200
    world.order(
        lambda work: verbs.maintain(work, ["h1"], Action.REBOOT, OrderOptions())
    )
    world.order(
        lambda work: verbs.change_vms(work, ["vault_0"], Verb.REBOOT, OrderOptions())
    )
    world.order(
        lambda work: verbs.maintain(work, ["h2"], Action.FREEZE, OrderOptions())
    )
    return world


def events_of(world: World) -> dict[str, Event]:
    """Return the events that are not the asking tenant's, by id."""
    return {event.key: event for event in world.live_events() if event.scope != "web"}


def written(body: tuple[str, Any], ids: list[str]) -> bytes:
    """Return the body's bytes, with ids in their places."""
    how, what = body
    if how == "bytes":
        return bytes(what)
    if how == "bare":
        return json.dumps(ids).encode()
    return json.dumps(
        {"StartRequests": [{"EventId": event_id} for event_id in ids]}
    ).encode()


def chosen(world: World, which: list[tuple[str, int]]) -> list[str]:
    """Return the ids that a request names."""
    theirs = sorted(events_of(world))
    own_events = sorted(
        event.key for event in world.live_events() if event.scope == "web"
    )
    pools = {MINE: own_events, THEIRS: theirs, UNKNOWN: [UNKNOWN]}
    return [pools[pool][number % len(pools[pool])] for pool, number in which]


@given(
    method=METHODS,
    path=PATHS,
    query=QUERIES,
    headers=HEADERS,
    marked=st.booleans(),
    body=BODIES,
)
@pytest.mark.clause("1.1", "3.3", "6.1")
def test_requests_neither_reveal_nor_change_another_scope(
    method: str,
    path: str,
    query: list[str],
    headers: dict[str, str],
    marked: bool,
    body: tuple[str, Any],
) -> None:
    world = make_world()
    before = events_of(world)
    theirs = min(before)
    ids = chosen(world, body[1]) if body[0] != "bytes" else []
    target = f"{path}?{'&'.join(query)}".replace("{id}", theirs)
    sent = {name: (value.replace("{id}", theirs),) for name, value in headers.items()}
    if marked:
        sent["metadata"] = ("true",)

    answer = world.vm("web_0").ask(
        method, target, headers=sent, body=written(body, ids)
    )

    response = answer.body + repr(sorted(answer.headers.items())).encode()
    for name in (b"vault", b"render", b"bank", b"h1", b"h2"):
        assert name not in response
    for event_id in before:
        # An id that was sent may come back in the sentence that refuses it.
        assert event_id.encode() not in response or event_id in ids
    assert events_of(world) == before


@given(
    which=st.lists(WHICH, min_size=1, max_size=4),
    version=st.sampled_from(VERSIONS),
)
@pytest.mark.clause("3.3")
def test_event_of_another_scope_is_refused_like_an_unknown_event(
    which: list[tuple[str, int]], version: str
) -> None:
    foreign, absent = make_world(), make_world()
    ids = chosen(foreign, which)
    theirs = set(events_of(foreign))
    unknown = [UNKNOWN if event_id in theirs else event_id for event_id in ids]

    refused = foreign.vm("web_0").approve(*ids, version=version)
    ignorant = absent.vm("web_0").approve(*unknown, version=version)

    assert refused.status == ignorant.status
    assert GUID.sub(b"", refused.body) == GUID.sub(b"", ignorant.body)
    assert refused.headers == ignorant.headers


@pytest.mark.clause("6.2")
def test_vm_that_sees_only_its_own_events_cannot_approve_others() -> None:
    world = make_world()
    own = world.vm("render_0").get().events
    other = world.vm("render_1").get().events
    assert len(own) == len(other) == 1
    assert own != other

    refused = world.vm("render_0").approve(other[0]["EventId"])

    assert refused.status == 400
    assert world.vm("render_1").get().events == other
