"""Places for relays at the operator API, beside those of operators and tenants."""

import pytest

from forewarn.admin.limits import ALL_RELAY_STREAMS_MAX, RELAY_STREAMS_MAX
from forewarn.metadata.limits import Limits
from forewarn.service import limits
from forewarn.service.admin_door import Door, door_limits, door_of
from tests.support.loops import in_loop, until
from tests.support.open_files import open_files_up_to
from tests.unit.admin.relays import Api
from tests.unit.service.test_admin_connections import Client, serving

FEW = Limits(connections=4)
"""As many places as the relays of two hosts have streams each."""

OF_HOST_MAX = limits.RELAY_CONNECTIONS_OF_HOST_MAX


def request(path: str, token: str = "") -> bytes:
    right = f"Authorization: Bearer {token}\r\n" if token else ""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{right}\r\n".encode()


async def begun(client: Client, request: bytes) -> bytes:
    """Send a request; return the head of its answer."""
    client.writer.write(request)
    return await client.reader.readuntil(b"\r\n\r\n")


@in_loop
async def test_streams_of_relays_take_no_place_of_operators() -> None:
    api = Api()
    tokens = [api.create(host)["token"] for host in ("h1", "h2")]
    async with serving(FEW, api.app) as server:
        streams: list[Client] = []
        for token in tokens * RELAY_STREAMS_MAX:
            streams.append(await Client.of(server))
            assert b" 200 " in await begun(
                streams[-1], request("/v1/relay/stream", token)
            )
        assert (server.door.open, server.door.relays) == (0, len(streams))
        assert len(streams) > FEW.connections
        operators = [await Client.of(server) for _ in range(FEW.connections)]
        for client in operators:
            assert b" 200 " in await begun(client, request("/v1/operations"))
        # Nor do operators take those of relays: a stream ends, and comes back.
        for client in (*streams, *operators):
            client.writer.close()
        await until(lambda: server.door.open == server.door.relays == 0)


@in_loop
async def test_refused_token_of_a_relay_takes_a_usual_place() -> None:
    api = Api()
    created = api.create("h1")
    async with serving(FEW, api.app) as server:
        thief = await Client.of(server)
        # The token of a relay has no other right.
        assert b" 403 " in await begun(
            thief, request("/v1/operations", created["token"])
        )
        assert (server.door.open, server.door.relays) == (1, 0)
        thief.writer.close()
        thief = await Client.of(server)
        guessed = "x" * len(created["token"])
        assert b" 401 " in await begun(thief, request("/v1/relay/stream", guessed))
        assert (server.door.open, server.door.relays) == (1, 0)
        thief.writer.close()


def test_stolen_token_takes_no_places_of_the_relays_of_other_hosts() -> None:
    door = Door(Limits(), monotonic=lambda: 0.0, relay_connections=OF_HOST_MAX + 2)
    for number in range(OF_HOST_MAX + 3):
        assert door.admit("192.0.2.1")
        assert door.move_to_relay("192.0.2.1", "h1") is (number < OF_HOST_MAX)
    assert (door.open, door.relays) == (3, OF_HOST_MAX)
    assert door.admit("192.0.2.2")
    assert door.move_to_relay("192.0.2.2", "h2")
    door.dismiss_relay("h1")
    assert door.move_to_relay("192.0.2.1", "h1")
    assert (door.open, door.relays) == (2, OF_HOST_MAX + 1)


def test_relays_without_a_free_place_keep_a_usual_one() -> None:
    door = Door(Limits(), monotonic=lambda: 0.0, relay_connections=1)
    assert all(door.admit("192.0.2.1") for _ in range(2))
    assert door.move_to_relay("192.0.2.1", "h1")
    assert not door.move_to_relay("192.0.2.1", "h2")
    assert (door.open, door.relays) == (1, 1)


@pytest.mark.parametrize("is_tls", [False, True])
def test_each_relay_has_a_place_for_its_stream_and_a_request(is_tls: bool) -> None:
    assert limits.RELAY_CONNECTIONS_MAX >= 2 * ALL_RELAY_STREAMS_MAX
    bounds = door_limits(is_tls=is_tls)
    files = bounds.connections + limits.FILES_RESERVED
    with open_files_up_to(files + 10):
        door = door_of(bounds)
    assert [door.admit("") and door.move_to_relay("", f"h{n}") for n in range(11)] == [
        *[True] * 10,
        False,
    ]
