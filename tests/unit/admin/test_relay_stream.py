"""The stream of a relay: everything first, then changes; resumed, bounded, revoked."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from forewarn.admin import limits
from forewarn.admin.relay_hub import News, RelayHub, _Look
from forewarn.control import tokens
from forewarn.control.requests import fleet_changes
from forewarn.control.transactions.work import Who
from forewarn.fleet.file import read_fleet
from forewarn.protocol.actors import operator
from forewarn.store.port import StoreError
from tests.unit.admin.gateway import FLEET
from tests.unit.admin.relays import PATIENCE_SECONDS, Api, NoNews, Stream

HOSTS = ["h1", "h2", "same"]


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def hub(api: Api) -> RelayHub:
    return RelayHub(lambda: api.gateway, api.gateway.news)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def apply(api: Api, fleet: str) -> None:
    wanted = read_fleet(fleet, name="fleet.toml")
    api.gateway.plane.order(
        Who(actor=operator("test")),
        lambda work: fleet_changes.apply(work, wanted),
        now=api.gateway.now(),
    )


def revoke(api: Api, token_id: str) -> None:
    api.gateway.plane.order(
        Who(actor=operator("test")),
        lambda work: tokens.revoke(work, token_id),
        now=api.gateway.now(),
    )


def test_a_relay_gets_its_vms_and_then_each_change(api: Api, hub: RelayHub) -> None:
    async def story() -> None:
        stream = Stream(hub, "h1", api.create("h1")["id"])
        whole = await stream.next()
        assert whole["whole"] is True
        assert whole["host"] == "h1"
        assert {guest["vm"] for guest in whole["guests"]} == {"web_0", "db_0"}
        assert {view["enabled"] for view in whole["views"]} == {False}
        api.gateway.enable("web_0")
        (view,) = (await stream.until("views"))["views"]
        assert (view["enabled"], view["events"]) == (True, [])
        event = api.event("web_1")
        (view,) = (await stream.until("views"))["views"]
        assert [event_["id"] for event_ in view["events"]] == [event]
        assert set(view["events"][0]) == {
            "id", "status", "type", "source", "resources", "not_before",
            "description", "duration",
        }  # fmt: skip
        await stream.close()

    run(story())


def test_a_vm_leaves_one_relay_and_comes_to_the_other(api: Api, hub: RelayHub) -> None:
    async def story() -> None:
        first = Stream(hub, "h1", api.create("h1")["id"])
        second = Stream(hub, "same", api.create("same")["id"])
        await first.next()
        assert "guests" not in await second.next()
        moved = FLEET.replace('"web_0"\nhost = "h1"', '"web_0"\nhost = "same"')
        apply(api, moved)
        left = await first.until("guests_gone")
        assert left["guests_gone"] == ["web_0"]
        came = await second.until("guests")
        assert [guest["vm"] for guest in came["guests"]] == ["web_0"]
        assert [view["view"] for view in came["views"]] == [came["guests"][0]["view"]]
        await first.close()
        await second.close()

    run(story())


def test_a_relay_continues_after_its_position(api: Api, hub: RelayHub) -> None:
    async def story() -> None:
        token = api.create("h1")["id"]
        stream = Stream(hub, "h1", token)
        position = (await stream.next())["position"]
        await stream.close()
        other = Stream(hub, "h2", api.create("h2")["id"])
        await other.next()
        api.gateway.enable("web_0")
        await other.until("views")
        again = Stream(hub, "h1", token, position)
        missed = await again.next()
        assert "whole" not in missed
        assert [view["enabled"] for view in missed["views"]] == [True]
        assert "guests" not in missed
        for wrong in ("", "x", "0.0", position + "0", f"9{position}", "1.99.x"):
            fresh = Stream(hub, "h1", token, wrong)
            assert (await fresh.next())["whole"] is True, wrong
            await fresh.close()
        await again.close()
        await other.close()

    run(story())


def test_relay_with_current_state_gets_one_message_after_service_restart(
    api: Api, hub: RelayHub
) -> None:
    restarted_hub = RelayHub(lambda: api.gateway, api.gateway.news)

    async def story() -> None:
        token = api.create("h1")["id"]
        stream = Stream(hub, "h1", token, confirms=True)
        whole = await stream.next()
        await stream.close()
        reconnected = Stream(
            restarted_hub,
            "h1",
            token,
            whole["position"],
            confirms=True,
            holds=whole["digest"],
        )
        line = await reconnected.next()
        assert line == {"position": restarted_hub.position, "same": True}
        # Reconnecting confirms that the relay serves the current state.
        assert restarted_hub.contacts()["h1"].unconfirmed is None
        api.gateway.enable("web_0")
        change = await reconnected.until("views")
        assert change["digest"] != whole["digest"]
        assert [view["enabled"] for view in change["views"]] == [True]
        await reconnected.close()

    run(story())


@pytest.mark.parametrize("holds", ["the first", "another", ""])
def test_relay_that_holds_something_else_gets_everything(
    api: Api, hub: RelayHub, holds: str
) -> None:
    restarted_hub = RelayHub(lambda: api.gateway, api.gateway.news)

    async def story() -> None:
        token = api.create("h1")["id"]
        stream = Stream(hub, "h1", token)
        first = await stream.next()
        await stream.close()
        # The relay was disconnected during this change.
        api.gateway.enable("web_0")
        digest = first["digest"] if holds == "the first" else holds
        reconnected = Stream(
            restarted_hub, "h1", token, first["position"], confirms=True, holds=digest
        )
        assert (await reconnected.next())["whole"] is True
        assert restarted_hub.contacts()["h1"].unconfirmed is not None
        await reconnected.close()

    run(story())


def test_a_revoked_token_ends_its_stream_and_no_other(api: Api, hub: RelayHub) -> None:
    async def story() -> None:
        first, second = api.create("h1")["id"], api.create("h1")["id"]
        stolen, ours = Stream(hub, "h1", first), Stream(hub, "h1", second)
        await stolen.next()
        await ours.next()
        revoke(api, first)
        assert await stolen.next() is None
        api.gateway.enable("web_0")
        assert (await ours.until("views"))["views"][0]["enabled"] is True
        # A new stream with the revoked token has nothing.
        assert await Stream(hub, "h1", first).next() is None
        await ours.close()

    run(story())


def test_an_expired_token_ends_its_stream(
    api: Api, hub: RelayHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "KEEP_ALIVE_SECONDS", 0.01)

    async def story() -> None:
        stream = Stream(hub, "h1", api.create("h1", expires_in="1h")["id"])
        await stream.next()
        assert set(await stream.next()) == {"position", "since"}
        api.gateway.advance("1h")
        assert await stream.next() is None

    run(story())


def test_a_slow_relay_gets_the_latest_state_only(api: Api, hub: RelayHub) -> None:
    async def story() -> None:
        slow = Stream(hub, "h1", api.create("h1")["id"])
        quick = Stream(hub, "h2", api.create("h2")["id"])
        await slow.next()
        await quick.next()
        api.gateway.enable("web_0")
        await quick.until("views")
        for vm in ("web_0", "web_1"):
            api.event(vm)
            await quick.until("views")
        (view,) = (await slow.until("views"))["views"]
        assert len(view["events"]) == 2
        await slow.close()
        await quick.close()

    run(story())


def test_a_change_that_comes_with_the_timeout_of_a_silence_is_not_lost(
    api: Api, hub: RelayHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        stream = Stream(hub, "h1", api.create("h1")["id"])
        [view, *_] = (await stream.next())["views"]
        # The timeout is then in the next iteration of the loop, as is the change.
        monkeypatch.setattr(limits, "KEEP_ALIVE_SECONDS", 0)
        line = asyncio.create_task(stream.next())
        await asyncio.sleep(0)
        changed = json.dumps({**view, "epoch": view["epoch"] + 1})
        hub._absorb(_Look(term=hub._term, views={view["view"]: changed}))
        assert (await line)["views"] == [json.loads(changed)]
        await stream.close()

    run(story())


def test_an_approval_names_a_position_that_the_stream_reaches(
    api: Api,
) -> None:
    hub = RelayHub(lambda: api.gateway, NoNews())

    async def story() -> None:
        stream = Stream(hub, "h1", api.create("h1")["id"])
        await stream.next()
        position = await hub.catch_up("h1", {"web_0"})
        line = await stream.next()
        assert line == {"position": position, "since": 1}
        api.gateway.enable("web_0")
        position = await hub.catch_up("h1", {"web_0", "no-such-vm"})
        line = await stream.next()
        assert line["position"] == position
        assert line["views"][0]["enabled"] is True
        await stream.close()
        assert await hub.catch_up("h2", {"web_1"}) == hub.position

    run(story())


def test_a_relay_that_comes_while_the_service_stops_gets_no_stream(api: Api) -> None:
    hub = RelayHub(lambda: api.gateway, api.gateway.news)
    api.gateway.news.close()

    async def story() -> None:
        stream = Stream(hub, "h1", api.create("h1")["id"])
        assert await stream.next() is None
        assert not hub.streams

    run(story())


def test_too_many_changes_read_every_connected_host_again(api: Api) -> None:
    class Flood(NoNews):
        def __init__(self) -> None:
            self.turn = asyncio.Event()

        async def relay_news(self) -> AsyncIterator[News]:
            await self.turn.wait()
            yield News(is_everything=True)
            await asyncio.Event().wait()

    async def story() -> None:
        flood = Flood()
        hub = RelayHub(lambda: api.gateway, flood)
        stream = Stream(hub, "h1", api.create("h1")["id"])
        await stream.next()
        api.gateway.enable("web_0")
        flood.turn.set()
        assert (await stream.until("views"))["views"][0]["enabled"] is True
        await stream.close()

    run(story())


def test_a_host_is_forgotten_long_after_its_relay_left(
    api: Api, hub: RelayHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        token = api.create("h1")["id"]
        stream = Stream(hub, "h1", token)
        position = (await stream.next())["position"]
        await stream.close()
        again = Stream(hub, "h1", token, position)
        assert "whole" not in await again.next()
        await again.close()
        monkeypatch.setattr(limits, "RELAY_LINGER_SECONDS", -1.0)
        late = Stream(hub, "h1", token, position)
        assert (await late.next())["whole"] is True
        await late.close()

    run(story())


def test_a_failing_store_ends_the_stream_of_one_relay(
    api: Api, hub: RelayHub, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        token = api.create("h1")["id"]
        api.gateway.broken = StoreError("the disk is full")
        assert await Stream(hub, "h1", token).next() is None
        api.gateway.broken = None
        again = Stream(hub, "h1", token)
        assert (await again.next())["whole"] is True
        await again.close()
        assert hub.streams == 0

    run(story())
    assert "the disk is full" in caplog.text


def test_a_relay_that_leaves_while_it_waits_for_another_counts_no_more(
    api: Api, hub: RelayHub
) -> None:
    async def story() -> None:
        token = api.create("h1")["id"]
        read, turn = api.gateway.read, asyncio.Event()

        async def slowly(ask: Any) -> Any:
            await turn.wait()
            return await read(ask)

        api.gateway.read = slowly
        first = Stream(hub, "h1", token)
        entered = asyncio.create_task(first.next())
        await asyncio.sleep(0)
        second = asyncio.create_task(Stream(hub, "h1", token).next())
        await asyncio.sleep(0)
        assert hub.count("h1") == 2
        second.cancel()
        await asyncio.wait({second})
        assert hub.count("h1") == 1
        turn.set()
        assert (await entered)["whole"] is True
        await first.close()

    run(story())


def test_a_change_that_comes_while_a_relay_enters_is_not_lost(
    api: Api, hub: RelayHub
) -> None:
    async def story() -> None:
        token = api.create("h1")["id"]
        # The token is not new then.
        api.gateway.news._take()
        read, turn, has_read = api.gateway.read, asyncio.Event(), asyncio.Event()

        async def slowly(ask: Any) -> Any:
            answer = await read(ask)
            has_read.set()
            await turn.wait()
            return answer

        api.gateway.read = slowly
        stream = Stream(hub, "h1", token)
        whole = asyncio.create_task(stream.next())
        await has_read.wait()
        # The store was read, and the hub does not know yet what it has found.
        api.gateway.enable("web_0")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while api.gateway.news._views:  # noqa: ASYNC110
                await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)
        turn.set()
        views = (await whole)["views"]
        if not any(view["enabled"] for view in views):
            async with asyncio.timeout(PATIENCE_SECONDS):
                views = (await stream.until("views"))["views"]
        assert any(view["enabled"] for view in views)
        await stream.close()

    run(story())


def test_relays_that_come_together_share_reads_of_the_store(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = {host: api.create(host)["id"] for host in HOSTS}
    before = api.gateway.reads

    async def come(hub: RelayHub) -> None:
        streams = [Stream(hub, host, token) for host, token in tokens.items()]
        wholes = await asyncio.gather(*(stream.next() for stream in streams))
        assert [whole["host"] for whole in wholes] == HOSTS
        await asyncio.gather(*(stream.close() for stream in streams))

    asyncio.run(come(RelayHub(lambda: api.gateway, NoNews())))
    assert api.gateway.reads == before + 1
    # A read has a bound, so that hosts with many VMs do not hold up others for long.
    monkeypatch.setattr(limits, "RELAY_VMS_TOGETHER", 1)
    asyncio.run(come(RelayHub(lambda: api.gateway, NoNews())))
    assert api.gateway.reads == before + 1 + len(HOSTS)


def test_an_approval_does_not_wait_until_all_relays_have_come(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RELAY_VMS_TOGETHER", 1)
    hub = RelayHub(lambda: api.gateway, NoNews())

    async def story() -> None:
        ours = Stream(hub, "h1", api.create("h1")["id"])
        await ours.next()
        others = [Stream(hub, host, api.create(host)["id"]) for host in HOSTS[1:]]
        coming = [asyncio.create_task(stream.next()) for stream in others]
        read = api.gateway.read

        async def slowly(ask: Any) -> Any:
            await asyncio.sleep(0)
            return await read(ask)

        api.gateway.read = slowly
        await asyncio.sleep(0)
        api.gateway.enable("web_0")
        reads = api.gateway.reads
        position = await hub.catch_up("h1", {"web_0"})
        # At most one host was read before it.
        assert api.gateway.reads - reads <= 2
        line = await ours.next()
        assert (line["position"], line["views"][0]["enabled"]) == (position, True)
        for task in coming:
            assert (await task)["whole"] is True
        for stream in (ours, *others):
            await stream.close()

    run(story())


def test_a_host_has_few_streams(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    token = api.create("h1")["token"]
    monkeypatch.setattr(limits, "RELAY_STREAMS_MAX", 0)
    answer = api.ask(token, "GET", "/v1/relay/stream")
    assert answer.status_code == 503
    assert "streams for the relay of h1" in answer.json()["error"]
