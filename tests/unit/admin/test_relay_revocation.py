"""How long a revoked token of a relay keeps working: until the next read, and no longer."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from forewarn.admin import limits
from forewarn.admin.relay_hub import RelayHub
from tests.unit.admin.relays import Api, Stream
from tests.unit.admin.test_relay_stream import revoke

STORM = 60
"""Relays that come at once while a token is revoked."""


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_request_with_a_revoked_token_is_refused_at_once() -> None:
    api = Api()
    created = api.create("h1")
    bodies = {
        "approve": {"approvals": [{"vm": "web_0", "event_ids": ["x"]}]},
        "enable": {"vm": "web_0"},
        "seen": {"seconds_ago": {}},
        "served": {"position": "1.1.x"},
    }
    for name, body in bodies.items():
        answer = api.ask(created["token"], "POST", f"/v1/relay/{name}", body)
        assert answer.status_code == 200, name
    revoke(api, created["id"])
    for name, body in bodies.items():
        answer = api.ask(created["token"], "POST", f"/v1/relay/{name}", body)
        assert answer.status_code == 401, name


def test_stream_of_a_revoked_token_ends_after_few_reads_in_a_storm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "RELAY_HOSTS_TOGETHER", 1)
    # The stream must not need the line that comes when nothing happens.
    monkeypatch.setattr(limits, "KEEP_ALIVE_SECONDS", 3_600.0)
    api = Api()
    token = api.create("h1")["id"]

    async def story() -> None:
        hub = RelayHub(lambda: api.gateway, api.gateway.news)
        stolen = Stream(hub, "h1", token)
        await stolen.next()
        storm = [
            asyncio.ensure_future(Stream(hub, f"other-{number}", token).next())
            for number in range(STORM)
        ]
        reads = api.gateway.reads
        while api.gateway.reads < reads + 3:  # noqa: ASYNC110 - nothing tells when
            await asyncio.sleep(0)
        revoke(api, token)
        before = api.gateway.reads
        assert await stolen.next() is None
        # One read of the storm may have begun, and others take turns with the news.
        assert api.gateway.reads - before <= 4 < STORM
        await asyncio.gather(*storm)

    run(story())
