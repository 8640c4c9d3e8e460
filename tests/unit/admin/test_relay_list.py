"""The list of relays: which hosts have one, since when it is connected, and its lag."""

import asyncio

from forewarn.admin import relay_list
from forewarn.admin.relay_hub import RelayHub, State
from forewarn.instants import format_instant, parse_duration
from tests.unit.admin.relays import Api, Stream

AWAY = {
    "host": "h1",
    "connected": False,
    "since": None,
    "last_seen": None,
    "behind_seconds": 0.0,
    "streams": 0,
}


def test_each_host_for_whose_relay_a_token_exists_is_listed() -> None:
    api = Api()
    for host in ("h2", "h1", "h1"):
        api.create(host)
    api.create("same", expires_in="1h")
    expired = api.client.post("/v1/tokens", json={"name": "dashboard"})
    assert expired.status_code == 201
    api.gateway.advance("2h")
    relays = api.client.get("/v1/relays").json()["relays"]
    assert relays == [AWAY, {**AWAY, "host": "h2"}]


def test_a_relay_is_connected_while_its_stream_is_open() -> None:
    api = Api()

    async def story() -> None:
        hub = RelayHub(lambda: api.gateway, api.gateway.news)
        first, second = api.create("h1")["id"], api.create("h1")["id"]
        stream = Stream(hub, "h1", first)
        hub.note_heard("h1")
        assert hub.states() == {}
        begun = api.gateway.now()
        await stream.next()
        api.gateway.advance("1m")
        hub.note_heard("h1")
        heard = api.gateway.now()
        [relay] = relay_list.report((), hub.states())
        assert relay["connected"] is True
        assert relay["since"] == format_instant(begun)
        assert relay["last_seen"] == format_instant(heard)
        again = Stream(hub, "h1", second)
        await again.next()
        await stream.close()
        assert hub.states()["h1"].connected_at == begun
        api.gateway.advance("1m")
        await again.close()
        state = hub.states()["h1"]
        assert (state.connected_at, state.streams) == (0, 0)
        assert state.heard_at == heard + parse_duration("1m")
        # It is no longer expected.
        assert relay_list.report((), hub.states()) == []
        [relay] = relay_list.report({"h1"}, hub.states())
        assert relay["connected"] is False
        assert relay["since"] is None
        assert relay["last_seen"] == format_instant(state.heard_at)

    asyncio.run(story())


def test_a_relay_that_does_not_take_a_line_is_behind() -> None:
    api = Api()

    async def story() -> None:
        hub = RelayHub(lambda: api.gateway, api.gateway.news)
        stream = Stream(hub, "h1", api.create("h1")["id"])
        await stream.next()
        # The server has not asked for more: this line is not sent yet.
        assert hub.states()["h1"].behind_seconds > 0
        waiting = asyncio.create_task(stream.until("views"))
        while hub.states()["h1"].behind_seconds:  # noqa: ASYNC110
            await asyncio.sleep(0)
        api.gateway.enable("web_0")
        await waiting
        assert hub.states()["h1"].behind_seconds > 0
        await stream.close()
        # It is away, and not behind.
        assert hub.states()["h1"].behind_seconds == 0

    asyncio.run(story())


def test_a_state_without_a_relay_is_that_of_one_that_is_away() -> None:
    assert relay_list.report({"h1"}, {}) == [AWAY]
    assert relay_list.report({"h1"}, {"h1": State()}) == [AWAY]
