"""Streams: first what is, then what changes, and never without bound."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from forewarn.admin import limits, watch
from forewarn.admin.selection import Wanted
from forewarn.admin.watch import EVENTS, OPERATIONS, Changes, Subject, Watchers, counted
from forewarn.control.requests import failures
from forewarn.control.transactions.work import Who
from forewarn.fleet.model import Vm
from forewarn.protocol.actors import operator
from forewarn.protocol.operations import Operation
from forewarn.store.port import StoreError
from tests.unit.admin.gateway import LocalGateway
from tests.unit.admin.tenants import Shared


class Watcher:
    """Reads a stream, event by event."""

    def __init__(self, texts: AsyncIterator[str]) -> None:
        self.texts = texts

    async def next(self) -> tuple[str, Any]:
        """Return the next event's name and data, or a comment."""
        text = await anext(self.texts)
        assert text.endswith("\n\n")
        if text.startswith(":"):
            return ("comment", text[1:].strip())
        *head, data = text.strip().split("\n")
        name = head[0].removeprefix("event: ") if head else ""
        return name, json.loads(data.removeprefix("data: "))

    async def until(self, name: str) -> list[Any]:
        """Return the objects that come before an event of this name."""
        found: list[Any] = []
        while (each := await self.next())[0] != name:
            assert each[0] == ""
            found.append(each[1])
        return found


def run(
    gateway: LocalGateway,
    story: Callable[[Watcher], Awaitable[None]],
    *,
    wanted: Wanted | None = None,
    subject: Subject = OPERATIONS,
) -> None:
    """Let a story read a stream."""

    async def play() -> None:
        texts = watch.stream(gateway, wanted or Wanted(), subject)
        await story(Watcher(texts))
        await texts.aclose()

    asyncio.run(play())


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


def test_what_is_comes_first_then_what_changes(gateway: LocalGateway) -> None:
    first = fail(gateway, "web_0")

    async def story(watcher: Watcher) -> None:
        before = await watcher.until("ready")
        assert [each["operation"] for each in before] == [first.operation_id]
        second = fail(gateway, "db_0")
        _, told = await watcher.next()
        assert (told["operation"], told["state"]) == (
            second.operation_id,
            "Impacting",
        )
        restore(gateway, "web_0")
        _, told = await watcher.next()
        assert (told["operation"], told["state"]) == (first.operation_id, "Done")

    run(gateway, story)
    assert gateway.watchers == []


def test_a_change_while_the_first_objects_are_read_is_not_lost(
    gateway: LocalGateway,
) -> None:
    fail(gateway, "web_0")

    async def story(watcher: Watcher) -> None:
        await watcher.next()
        late = fail(gateway, "db_0")
        assert await watcher.until("ready") == []
        _, told = await watcher.next()
        assert told["operation"] == late.operation_id

    run(gateway, story)


def test_filters_hold_for_both(gateway: LocalGateway) -> None:
    fail(gateway, "db_0")

    async def story(watcher: Watcher) -> None:
        assert await watcher.until("ready") == []
        fail(gateway, "db_1")
        mine = fail(gateway, "web_1")
        _, told = await watcher.next()
        assert told["operation"] == mine.operation_id

    run(gateway, story, wanted=Wanted(tenant="shop"))


def test_events_are_watched_until_they_are_removed(gateway: LocalGateway) -> None:
    fail(gateway, "db_0")

    async def story(watcher: Watcher) -> None:
        (event,) = await watcher.until("ready")
        assert event["EventStatus"] == "Started"
        restore(gateway, "db_0")
        _, told = await watcher.next()
        assert told["EventId"] == event["EventId"]
        assert (told["EventStatus"], told["outcome"]) == ("Removed", "completed")

    run(gateway, story, subject=EVENTS)


def test_who_is_too_slow_gets_everything_anew(gateway: LocalGateway) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.until("ready")
        operation = fail(gateway, "web_0")
        gateway.watchers[0].put_nowait(())
        assert await watcher.until("reset") == []
        (told,) = await watcher.until("ready")
        assert told["operation"] == operation.operation_id

    run(gateway, story)


def test_what_waits_for_a_watcher_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PENDING_IDS_MAX", 3)

    async def feed() -> AsyncIterator[tuple[str, ...]]:
        yield ("a", "b")
        yield ("b", "c")
        yield ("d",)

    async def story() -> None:
        changes = Changes()
        await changes.follow(feed())
        assert await changes.take(seconds=1) is None
        assert changes.is_over

    asyncio.run(story())


def test_a_silent_stream_shows_that_it_lives(
    gateway: LocalGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "KEEP_ALIVE_SECONDS", 0.01)

    async def story(watcher: Watcher) -> None:
        await watcher.until("ready")
        assert await watcher.next() == ("comment", "still here")

    run(gateway, story)


def test_a_stream_ends_when_the_service_has_no_more_to_tell(
    gateway: LocalGateway,
) -> None:
    class Ending(LocalGateway):
        async def changes(self) -> AsyncIterator[tuple[str, ...]]:
            await asyncio.sleep(0)
            return
            yield ()

    async def story(watcher: Watcher) -> None:
        await watcher.until("ready")
        with pytest.raises(StopAsyncIteration):
            await watcher.next()

    run(Ending(), story)


def test_a_store_that_fails_is_told_at_the_end(gateway: LocalGateway) -> None:
    async def story(watcher: Watcher) -> None:
        await watcher.until("ready")
        gateway.broken = StoreError("the disk is full")
        fail(gateway, "web_0")
        name, told = await watcher.next()
        assert (name, told["error"]) == ("error", "the disk is full")
        with pytest.raises(StopAsyncIteration):
            await watcher.next()

    run(gateway, story)


def test_watchers_are_counted(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WATCHERS_MAX", 0)
    for path in ("operations", "events"):
        answer = client.get(f"/v1/watch/{path}")
        assert answer.status_code == 503
        assert "watchers" in answer.json()["error"]


def test_who_comes_at_the_same_time_is_counted_before_anything_is_answered(
    gateway: LocalGateway,
) -> None:
    watchers = Watchers()

    async def story() -> None:
        answers = [
            counted(watchers, watch.stream(gateway, Wanted(), OPERATIONS))
            for _ in range(3)
        ]
        assert watchers.count == 3, "none has been read yet"

        async def gone() -> dict[str, str]:
            return {"type": "http.disconnect"}

        async def send(_message: object) -> None:
            return None

        for answer in answers:
            await answer({"type": "http"}, gone, send)

    asyncio.run(story())
    assert watchers.count == 0


def test_no_tenant_takes_the_streams_of_others(
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


def test_a_tenants_stream_is_counted_as_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = Shared()
    shop, bank = shared.token("shop"), shared.token("hidden-bank")
    monkeypatch.setattr(limits, "TENANT_WATCHERS_MAX", 1)
    shared.app.state.watchers.enter("shop")
    answer = shared.ask(shop, "GET", "/v1/watch/operations")
    assert (answer.status_code, answer.json()["kind"]) == (429, "too-many")
    shared.app.state.watchers.enter("hidden-bank")
    assert shared.ask(bank, "GET", "/v1/watch/events").status_code == 429


@pytest.mark.parametrize("path", ["operations", "events"])
def test_a_misspelt_name_is_told_at_once(client: TestClient, path: str) -> None:
    answer = client.get(f"/v1/watch/{path}", params={"vm": "nope"})

    assert answer.status_code == 404
    assert answer.json()["error"] == "there is no vm 'nope'"
