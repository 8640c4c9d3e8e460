"""News for relays: what commits touch, in order, within a bound."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from forewarn.admin.relay_hub import News
from forewarn.fleet.model import Vm
from forewarn.service import limits
from forewarn.service.observed import Change, Changes
from forewarn.service.relay_news import RelayNews
from forewarn.store import kinds
from forewarn.store.records import Token
from tests.unit.admin.relays import RelayGateway


async def first(news: RelayNews) -> News:
    async with asyncio.timeout(20):
        return await anext(aiter(news.relay_news()))


def vm_of(name: str) -> Vm:
    gateway = RelayGateway()
    vm = gateway.store.read(lambda reader: reader.get(Vm, name))
    assert vm is not None
    return vm


def test_a_vm_that_moves_concerns_both_hosts() -> None:
    vm, news = vm_of("web_0"), RelayNews()
    news.committed(Changes(Change(vm, replace(vm, moving_to="h2"))))
    news.committed(Changes(Change(replace(vm, moving_to="h2"), replace(vm, host="h2"))))
    assert asyncio.run(first(news)) == News(hosts=frozenset({"h1", "h2"}))


def test_a_change_that_no_relay_sees_is_no_news() -> None:
    vm, news = vm_of("web_0"), RelayNews()
    news.committed(Changes(Change(vm, replace(vm, started=("op-1",)))))
    news.committed(Changes(Change(vm, replace(vm, addresses=("192.0.2.9",)))))
    assert asyncio.run(first(news)) == News(hosts=frozenset({"h1"}))
    news.committed(Changes(Change(vm, replace(vm, down_for="flash", revision=9))))
    news.committed(Changes())
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(first(news), 0.01))


def test_a_revoked_token_and_an_enabled_view_are_news() -> None:
    gateway = RelayGateway()
    (view,) = [
        view
        for view in gateway.store.read(lambda reader: reader.select(kinds.ALL_VIEWS))
        if view.scope == "web"
    ]
    token: Any = Token(
        token_id="tk-1",
        name="x",
        tenant="",
        roles=(),
        digest="",
        created_at=0,
        created_by=None,  # pyright: ignore[reportArgumentType]
        host="h2",
    )
    news = RelayNews()
    news.committed(Changes(Change(token, None), Change(view, view)))
    expected = News(hosts=frozenset({"h2"}), views=frozenset({view.view_id}))
    assert asyncio.run(first(news)) == expected
    # Its last use, which is stored hourly, is not reported.
    news.committed(
        Changes(Change(token, replace(token, last_used_at=1)), Change(view, view))
    )
    assert asyncio.run(first(news)).hosts == frozenset()


def test_too_many_names_become_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RELAY_NEWS_KEPT", 3)
    vm, news = vm_of("web_0"), RelayNews()
    for number in range(5):
        moved = replace(vm, moving_to=f"h{number + 10}")
        news.committed(Changes(Change(vm, moved)))
    result = asyncio.run(first(news))
    assert result.is_everything
    assert len(result.hosts) <= 3


def test_a_closed_feed_ends_its_reader() -> None:
    async def story() -> None:
        news = RelayNews()
        reader = asyncio.ensure_future(anext(aiter(news.relay_news()), None))
        await asyncio.sleep(0)
        news.close()
        assert await asyncio.wait_for(reader, 20) is None

    asyncio.run(story())
