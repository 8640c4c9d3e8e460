"""The metrics of relays: connected, silent, behind, and with refused tokens."""

import asyncio
from types import SimpleNamespace
from typing import Any

from forewarn.instants import SECOND
from forewarn.service import metric_definitions
from forewarn.service.admin import readings_of
from forewarn.service.metrics import read_held
from tests.unit.admin.relays import Api, Stream

METERS = {
    metric_definitions.RELAYS_CONNECTED.name: "connected",
    metric_definitions.RELAY_BEHIND.name: "behind",
    metric_definitions.RELAY_LAST_SEEN.name: "age",
    metric_definitions.RELAY_TOKENS_REFUSED.name: "refused",
}


def readings(api: Api) -> dict[str, Any]:
    door: Any = SimpleNamespace(open=0, relays=0, refused={})
    streams: Any = SimpleNamespace(count=0)
    values_by_name = {
        reading.meter.name: reading.values
        for reading in readings_of(door, {}, streams, api.hub)
    }
    return {short: values_by_name[name] for name, short in METERS.items()}


def test_connected_relays_are_counted_with_the_longest_wait() -> None:
    api = Api()

    async def story() -> None:
        none = {"connected": 0, "behind": 0, "age": 0, "refused": 0}
        assert readings(api) == none
        streams = [
            Stream(api.hub, host, api.create(host)["id"], confirms=True)
            for host in ("h1", "h2")
        ]
        positions = [(await stream.next())["position"] for stream in streams]
        api.hub.confirm("h2", positions[1])
        api.gateway.advance("9s")
        api.hub.note_heard("h2")
        values = readings(api)
        assert values["connected"] == 2
        assert values["behind"] > 0
        assert values["age"] == 9
        api.hub.confirm("h1", positions[0])
        assert readings(api) == {**none, "connected": 2}
        for stream in streams:
            await stream.close()
        # Relays that have left are neither behind nor old.
        assert readings(api) == none

    asyncio.run(story())


def test_requests_of_relays_without_a_valid_token_are_counted() -> None:
    api = Api()

    async def refused() -> Any:
        return readings(api)["refused"]

    created = api.create("h1")
    assert api.ask(
        created["token"], "POST", "/v1/relay/seen", {"seconds_ago": {}}
    ).is_success
    assert asyncio.run(refused()) == 0
    api.client.post("/v1/tokens/revoke", json={"id": created["id"]})
    for method, path in (("GET", "/v1/relay/stream"), ("POST", "/v1/relay/seen")):
        assert api.ask(created["token"], method, path).status_code == 401
    # Requests of others are not those of relays.
    assert api.ask(created["token"], "GET", "/v1/operations").status_code == 401
    assert asyncio.run(refused()) == 2


def test_relays_that_routine_work_waits_for_are_counted() -> None:
    api = Api()
    for host in ("h1", "h2"):
        api.create(host)

    def silent() -> int:
        now = api.gateway.now()
        return api.gateway.store.read(
            lambda reader: read_held(reader, (), now=now).silent_relays
        )

    assert silent() == 0
    asyncio.run(
        api.gateway.news.note_links({"h1": 5 * SECOND, "h2": 0, "same": SECOND})
    )
    # The host `same` has no token of a relay.
    assert silent() == 1
    asyncio.run(api.gateway.news.note_links({"h1": 0}))
    assert silent() == 0
