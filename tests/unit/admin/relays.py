"""The operator API with relays: an application, their tokens, and their streams."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

from starlette.testclient import TestClient

from forewarn.admin.app import create_app
from forewarn.admin.relay_hub import News, RelayHub
from forewarn.instants import Micros
from forewarn.service.observed import ObservedStore
from forewarn.service.relay_news import RelayNews
from tests.unit.admin.gateway import LocalGateway

PATIENCE_SECONDS = 20.0
"""Maximum seconds for what takes milliseconds, on a busy machine."""


class RelayGateway(LocalGateway):
    """A gateway whose commits are news for relays."""

    def __init__(self) -> None:
        super().__init__()
        self.news = RelayNews().through(self)
        self.reads = 0
        self.plane.store = ObservedStore(
            self.store, clock=self.clock, listeners=[self.news]
        )

    async def read(self, ask: Any) -> Any:
        self.reads += 1
        return await super().read(ask)


class Api:
    """An operator API with relays, and the tokens of two of them."""

    def __init__(self) -> None:
        self.gateway = RelayGateway()
        self.hub = RelayHub(lambda: self.gateway, self.gateway.news)
        self.app = create_app(self.gateway, tokens=None, version="1", relays=self.hub)
        self.client = TestClient(self.app, base_url="http://127.0.0.1:8200")

    def create(self, host: str, **body: Any) -> Any:
        answer = self.client.post("/v1/tokens", json={"relay": host, **body})
        assert answer.status_code == 201, answer.text
        return answer.json()

    def ask(self, token: str, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        more: dict[str, Any] = (
            {} if method == "GET" else {"json": {} if body is None else body}
        )
        return self.client.request(method, path, headers=headers, **more)

    def event(self, vm: str) -> str:
        """Announce the reboot of a VM; return the ID of the event."""
        answer = self.client.post("/v1/reboot", json={"vms": [vm]})
        assert answer.status_code == 201, answer.text
        return answer.json()["operations"][0]["events"][0]["EventId"]


class Stream:
    """A relay's stream, without HTTP."""

    def __init__(
        self,
        hub: RelayHub,
        host: str,
        token: str,
        after: str = "",
        *,
        confirms: bool = False,
        holds: str = "",
    ) -> None:
        self._lines: AsyncGenerator[str, None] = hub.lines(
            host, token, after, confirms=confirms, holds=holds
        )

    async def next(self) -> Any:
        """Return the next line; None: the stream has ended."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            line = await anext(self._lines, None)
        return None if line is None else json.loads(line)

    async def until(self, member: str) -> Any:
        """Return the next line with a member."""
        while member not in (line := await self.next()):
            pass
        return line

    async def close(self) -> None:
        await self._lines.aclose()


class NoNews:
    """A feed in which nothing ever happens."""

    async def relay_news(self) -> AsyncIterator[News]:
        await asyncio.Event().wait()
        yield News()

    async def note_links(self, silent_since: Mapping[str, Micros]) -> None:
        """Store nothing."""
