"""The stream of changes: first what is, then what changes, and never without bound."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from forewarn.admin import limits
from forewarn.admin.access import TOPIC_DEMANDS
from forewarn.admin.selection import Wanted
from forewarn.admin.topics import TOPICS
from forewarn.admin.watch import Counted, Watchers
from forewarn.control.requests import failures, fleet_changes, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.work import Who
from forewarn.fleet.file import read_fleet
from forewarn.fleet.model import Vm
from forewarn.protocol.actors import operator
from forewarn.protocol.operations import Action, Operation
from forewarn.store.port import Reader, StoreError
from tests.unit.admin.gateway import FLEET, LocalGateway
from tests.unit.admin.streams import Streams, run
from tests.unit.admin.tenants import Shared


def fail(gateway: LocalGateway, vm: str) -> Operation:
    return gateway.plane.order(
        Who(actor=operator("test")),
        lambda work: failures.fail_vm(work, vm),
        now=gateway.now(),
    )


def restore(gateway: LocalGateway, vm: str) -> Vm:
    return gateway.plane.order(
        Who(actor=operator("test")),
        lambda work: failures.restore_vm(work, vm),
        now=gateway.now(),
    )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for changes without operations more often than once a second."""
    monkeypatch.setattr(limits, "RECHECK_SECONDS", 0.02)


def test_stream_starts_with_current_objects_then_changes(gateway: LocalGateway) -> None:
    first = fail(gateway, "web_0")

    async def story(streams: Streams) -> None:
        watcher = streams.watch()
        before = await watcher.until("ready")
        assert [operation["operation"] for operation in before] == [first.operation_id]
        second = fail(gateway, "db_0")
        name, told = await watcher.next()
        assert (name, told["operation"], told["state"]) == (
            "operations",
            second.operation_id,
            "Impacting",
        )
        restore(gateway, "web_0")
        _, told = await watcher.next()
        assert (told["operation"], told["state"]) == (first.operation_id, "Done")
        await watcher.close()

    run(gateway, story)
    assert gateway.watchers == []


def test_a_change_while_the_first_objects_are_read_is_not_lost(
    gateway: LocalGateway,
) -> None:
    fail(gateway, "web_0")

    async def story(streams: Streams) -> None:
        watcher = streams.watch()
        await watcher.next()
        late = fail(gateway, "db_0")
        assert await watcher.until("ready") == []
        _, told = await watcher.next()
        assert told["operation"] == late.operation_id

    run(gateway, story)


def maintain(gateway: LocalGateway, host: str) -> None:
    gateway.plane.order(
        Who(actor=operator("test")),
        lambda work: verbs.maintain(work, [host], Action.REBOOT, OrderOptions()),
        now=gateway.now(),
    )


def test_operation_is_sent_again_if_its_reasons_change_with_another(
    gateway: LocalGateway,
) -> None:
    maintain(gateway, "h1")
    maintain(gateway, "same")

    async def story(streams: Streams) -> None:
        watcher = streams.watch()
        [first, other] = await watcher.until("ready")
        broken = fail(gateway, "web_1")
        _, told = await watcher.next()
        assert told["operation"] == broken.operation_id
        _, told = await watcher.next()
        assert told["operation"] == first["operation"]
        assert told["state"] == first["state"]
        assert told["blocked_by"] != first["blocked_by"]
        assert any("web_1" in reason for reason in told["blocked_by"])
        # The other operation does not depend on it.
        name, _ = await watcher.next()
        assert name == "comment"
        assert other["operation"] != first["operation"]
        await watcher.close()

    run(gateway, story)


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        (Wanted(tenant="shop"), "web_1"),
        (Wanted(host="h1"), "web_0"),
        (Wanted(scope="db", vm="db_1"), "db_1"),
        (Wanted(places=("zone=2",)), "db_1"),
        (Wanted(tag="role=web"), "web_0"),
    ],
)
def test_filters_apply_to_initial_objects_and_changes(
    wanted: Wanted, seen: str
) -> None:
    fleet = FLEET.replace('name = "h2"', 'name = "h2"\nzone = "2"').replace(
        'name = "web_0"', 'name = "web_0"\ntags = { role = "web" }'
    )
    gateway = LocalGateway(fleet)
    fail(gateway, "same" if seen == "web_0" else "db_0")

    async def story(streams: Streams) -> None:
        watcher = streams.watch("operations", wanted=wanted)
        assert await watcher.until("ready") == []
        for vm in ("web_0", "web_1", "db_1"):
            if vm == seen or wanted not in {
                Wanted(tenant="shop"),
                Wanted(places=("zone=2",)),
            }:
                fail(gateway, vm)
        _, told = await watcher.next()
        assert told["target"] == seen

    run(gateway, story)


def test_events_are_watched_until_they_are_removed(gateway: LocalGateway) -> None:
    fail(gateway, "db_0")

    async def story(streams: Streams) -> None:
        watcher = streams.watch("events")
        (event,) = await watcher.until("ready")
        assert event["EventStatus"] == "Started"
        restore(gateway, "db_0")
        _, told = await watcher.next()
        assert told["EventId"] == event["EventId"]
        assert (told["EventStatus"], told["outcome"]) == ("Removed", "completed")

    run(gateway, story)


def test_one_stream_has_all_topics(gateway: LocalGateway) -> None:
    async def story(streams: Streams) -> None:
        watcher = streams.watch(*TOPICS)
        present = await watcher.until("ready")
        assert [operation["name"] for operation in present] == ["h1", "h2", "same"]
        operation = fail(gateway, "db_0")
        ids_by_topic: dict[str, list[str]] = {name: [] for name in TOPICS}
        keys = {
            "hosts": "name",
            "operations": "operation",
            "events": "operation",
            "problems": "operation",
            "history": "what",
        }
        while not ids_by_topic["problems"]:
            name, told = await watcher.next()
            ids_by_topic[name].append(told[keys[name]])
        assert ids_by_topic["operations"] == [operation.operation_id]
        assert ids_by_topic["events"] == [operation.operation_id]
        assert ids_by_topic["problems"] == [operation.operation_id]
        assert "fail ordered" in ids_by_topic["history"]
        restore(gateway, "db_0")
        while True:
            name, told = await watcher.next()
            if name == "problems":
                assert told["ended"]
                break

    run(gateway, story)


def test_applied_fleet_file_resets_the_hosts_topic(gateway: LocalGateway) -> None:
    async def story(streams: Streams) -> None:
        watcher = streams.watch("hosts")
        assert len(await watcher.until("ready")) == 3
        wanted = read_fleet(FLEET + '[[host]]\nname = "h9"\n', name="fleet.toml")
        gateway.plane.order(
            Who(actor=operator("test")),
            lambda work: fleet_changes.apply(work, wanted),
            now=gateway.now(),
        )
        await watcher.until("reset")
        hosts = [operation["name"] for operation in await watcher.until("ready")]
        assert hosts == ["h1", "h2", "h9", "same"]

    run(gateway, story)


def test_a_stream_continues_after_the_last_message(gateway: LocalGateway) -> None:
    async def story(streams: Streams) -> None:
        watcher = streams.watch()
        await watcher.until("ready")
        operation = fail(gateway, "web_0")
        assert (await watcher.next())[1]["operation"] == operation.operation_id
        await watcher.close()
        missed = fail(gateway, "db_0")
        again = streams.watch(last_id=watcher.last_id)
        name, told = await again.next()
        assert (name, told["operation"]) == ("operations", missed.operation_id)
        await again.close()
        # Nothing was missed since then, and nothing is sent again.
        third = streams.watch(last_id=again.last_id)
        later = fail(gateway, "db_1")
        assert (await third.next())[1]["operation"] == later.operation_id

    run(gateway, story)


@pytest.mark.parametrize(
    "last_id",
    ["0", "nonsense", "0123456789abcdef-0", "-", "1-²", "{epoch}-99", "9" * 99],
)
def test_stream_that_cannot_resume_is_reset(
    gateway: LocalGateway, last_id: str
) -> None:
    operation = fail(gateway, "web_0")

    async def story(streams: Streams) -> None:
        first = streams.watch()
        await first.until("ready")
        epoch = first.last_id.partition("-")[0]
        watcher = streams.watch(last_id=last_id.replace("{epoch}", epoch))
        assert (await watcher.next())[0] == "reset"
        (told,) = await watcher.until("ready")
        assert told["operation"] == operation.operation_id

    run(gateway, story)


def test_topic_that_was_not_watched_is_not_resumed(gateway: LocalGateway) -> None:
    async def story(streams: Streams) -> None:
        watcher = streams.watch("operations")
        await watcher.until("ready")
        fail(gateway, "web_0")
        await watcher.next()
        early = watcher.last_id
        fail(gateway, "db_0")
        await watcher.next()
        other = streams.watch("events", last_id=early)
        assert (await other.next())[0] == "reset"
        assert len(await other.until("ready")) == 2

    run(gateway, story)


def test_a_slow_viewer_gets_everything_again(
    gateway: LocalGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HUB_CHARACTERS", 3_000)

    async def story(streams: Streams) -> None:
        slow, quick = streams.watch(), streams.watch()
        await slow.until("ready")
        await quick.until("ready")
        for vm in ("web_0", "web_1", "db_0", "db_1", "same"):
            fail(gateway, vm)
            await quick.next()
        await slow.until("reset")
        assert len(await slow.until("ready")) == 5
        assert streams.hub.number_of(quick.last_id, ["operations"]) is not None

    run(gateway, story)


def test_lost_feed_resets_all_streams(gateway: LocalGateway) -> None:
    async def story(streams: Streams) -> None:
        watcher = streams.watch()
        await watcher.until("ready")
        operation = fail(gateway, "web_0")
        gateway.watchers[0].put_nowait(())
        await watcher.until("reset")
        (told,) = await watcher.until("ready")
        assert told["operation"] == operation.operation_id

    run(gateway, story)


def test_many_viewers_share_one_read_per_page_and_change(
    gateway: LocalGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RECHECK_SECONDS", 30.0)
    reads = 0
    read = gateway.read

    async def counting(ask: Callable[[Reader], Any]) -> Any:
        nonlocal reads
        reads += 1
        return await read(ask)

    async def story(streams: Streams) -> None:
        nonlocal reads
        gateway.read = counting  # type: ignore[method-assign]
        watchers = [streams.watch("operations", "events") for _ in range(50)]
        for watcher in watchers:
            await watcher.until("ready")
        assert reads == 2, "one page of each topic"
        reads = 0
        operation = fail(gateway, "web_0")
        for watcher in watchers:
            name, told = await watcher.next()
            assert (name, told["operation"]) == ("operations", operation.operation_id)
            assert (await watcher.next())[0] == "events"
        assert reads == 1

    run(gateway, story)


def test_idle_stream_sends_keep_alive_comments(
    gateway: LocalGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "KEEP_ALIVE_SECONDS", 0.01)

    async def story(streams: Streams) -> None:
        watcher = streams.watch(wanted=Wanted(tenant="shop"))
        await watcher.until("ready")
        fail(gateway, "db_0")
        while watcher.last_id != streams.hub.position(1):
            assert await watcher.next() == ("comment", "still here")

    run(gateway, story)


def test_stream_ends_when_the_service_stops(gateway: LocalGateway) -> None:
    del gateway

    class Ending(LocalGateway):
        async def changes(self) -> AsyncIterator[tuple[str, ...]]:
            await asyncio.sleep(0)
            return
            yield ()

    async def story(streams: Streams) -> None:
        watcher = streams.watch()
        await watcher.until("ready")
        with pytest.raises(StopAsyncIteration):
            await watcher.next()

    run(Ending(), story)


def test_a_store_error_is_the_last_message(gateway: LocalGateway) -> None:
    async def story(streams: Streams) -> None:
        watcher = streams.watch()
        await watcher.until("ready")
        gateway.broken = StoreError("the disk is full")
        fail(gateway, "web_0")
        name, told = await watcher.next()
        assert (name, told["error"]) == ("error", "the disk is full")
        with pytest.raises(StopAsyncIteration):
            await watcher.next()

    run(gateway, story)


def test_number_of_streams_is_limited(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WATCHERS_MAX", 0)
    answer = client.get("/v1/watch", params={"topics": "events"})
    assert answer.status_code == 503
    assert "streams of operators are open already" in answer.json()["error"]


def test_simultaneous_streams_are_counted_before_the_first_message(
    gateway: LocalGateway,
) -> None:
    watchers = Watchers()

    async def story(streams: Streams) -> None:
        answers = [
            Counted(watchers, streams.watch("operations").texts) for _ in range(3)
        ]
        assert watchers.count == 3, "none has been read yet"

        async def gone() -> dict[str, str]:
            return {"type": "http.disconnect"}

        async def send(_message: object) -> None:
            return None

        for answer in answers:
            await answer({"type": "http"}, gone, send)

    run(gateway, story)
    assert watchers.count == 0


def test_tenant_cannot_use_the_streams_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "WATCHERS_MAX", 2)
    monkeypatch.setattr(limits, "TENANT_WATCHERS_MAX", 3)
    monkeypatch.setattr(limits, "ALL_TENANTS_WATCHERS_MAX", 5)
    watchers = Watchers()
    for _ in range(3):
        assert watchers.refusal("shop") is None
        watchers.enter("shop")
    refused = watchers.refusal("shop")
    assert refused is not None
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    assert b"3 streams of tenant shop are open" in refused.body
    # The other tenant has its own, until the machine's bound is reached.
    for _ in range(2):
        assert watchers.refusal("bank") is None
        watchers.enter("bank")
    refused = watchers.refusal("bank")
    assert refused is not None
    assert refused.status_code == 503
    assert b"shop" not in bytes(refused.body)
    # Operators have theirs all the while, and none of them counts for a tenant.
    for _ in range(2):
        assert watchers.refusal("") is None
        watchers.enter("")
    refused = watchers.refusal("")
    assert refused is not None
    assert refused.status_code == 503
    watchers.leave("shop")
    assert watchers.refusal("shop") is None
    assert watchers.refusal("bank") is None
    assert watchers.count == 6


def test_streams_of_a_tenant_count_against_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = Shared()
    shop, bank = shared.token("shop"), shared.token("hidden-bank")
    monkeypatch.setattr(limits, "TENANT_WATCHERS_MAX", 1)
    shared.app.state.watchers.enter("shop")
    answer = shared.ask(shop, "GET", "/v1/watch?topics=operations")
    assert (answer.status_code, answer.json()["kind"]) == (429, "too-many")
    shared.app.state.watchers.enter("hidden-bank")
    assert shared.ask(bank, "GET", "/v1/watch?topics=events").status_code == 429


def test_unknown_name_or_topic_is_rejected_at_once(client: TestClient) -> None:
    params = {"topics": "operations", "vm": "nope"}
    answer = client.get("/v1/watch", params=params)
    assert answer.status_code == 404
    assert answer.json()["error"] == "there is no VM 'nope'"
    answer = client.get("/v1/watch", params={"topics": "operations,vms"})
    assert answer.status_code == 400
    assert "'vms'" in answer.json()["error"]
    assert client.get("/v1/watch").status_code == 400


def test_tenant_cannot_watch_hosts() -> None:
    shared = Shared()
    token = shared.token("shop", read_only=True)
    answer = shared.ask(token, "GET", "/v1/watch?topics=operations,hosts")
    assert answer.status_code == 403
    assert set(TOPIC_DEMANDS) == set(TOPICS)
