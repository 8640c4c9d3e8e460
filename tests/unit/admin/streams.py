"""Viewers of the change stream, without HTTP."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Self

from forewarn.admin.access import Caller
from forewarn.admin.hub import Hub
from forewarn.admin.selection import Wanted
from forewarn.admin.viewer_rights import Credential, IsGood
from forewarn.admin.watch import Viewer
from forewarn.control.gateway import CallerGateway
from forewarn.reporting.attention import Surroundings
from forewarn.store import kinds
from tests.unit.admin.gateway import LocalGateway

SECONDS = 20.0
"""Longer than any message takes."""


async def around(_gateway: CallerGateway) -> Surroundings:
    return Surroundings()


class Watcher:
    """Reads a stream, message by message."""

    def __init__(self, viewer: Viewer, last_id: str = "") -> None:
        self.texts: AsyncGenerator[str, None] = viewer.stream(last_id)
        self.last_id = last_id
        self._come: list[str] = []
        """Messages that have come together with those that were read."""

    async def text(self) -> str:
        """Return the next message or comment."""
        if not self._come:
            async with asyncio.timeout(SECONDS):
                text = await anext(self.texts)
            assert text.endswith("\n\n")
            self._come = [f"{message}\n\n" for message in text[:-2].split("\n\n")]
        return self._come.pop(0)

    async def next(self) -> tuple[str, Any]:
        """Return the next message's name and data, or a comment."""
        fields: dict[str, str] = {}
        for line in (await self.text()).strip().split("\n"):
            name, _, value = line.partition(": ")
            fields[name] = value
        self.last_id = fields["id"]
        if "" in fields:
            return "comment", fields[""]
        return fields["event"], json.loads(fields["data"])

    async def until(self, name: str) -> list[Any]:
        """Return the objects that come before a message of this name."""
        bodies: list[Any] = []
        while (message := await self.next())[0] != name:
            bodies.append(message[1])
        return bodies

    async def close(self) -> None:
        await self.texts.aclose()


async def always_good(_right: Credential) -> bool:
    return True


class Streams:
    """A hub with its viewers."""

    def __init__(
        self,
        gateway: LocalGateway,
        tenant: str = "",
        *,
        is_good_here: IsGood = always_good,
    ) -> None:
        self.gateway = gateway
        self.tenant = tenant
        self.hub = Hub(gateway, tenant, around, is_good_here)

    async def __aenter__(self) -> Self:
        self.hub.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.hub.stop()
        await asyncio.sleep(0)

    def caller(self) -> Caller:
        """Return who holds the first token of the tenant, if it has one."""
        tokens = self.gateway.store.read(
            lambda reader: reader.select(kinds.TOKENS_OF_TENANT, self.tenant)
        )
        return Caller.of_token(tokens[0]) if tokens else Caller(name="operator")

    def watch(
        self,
        *topics: str,
        wanted: Wanted | None = None,
        last_id: str = "",
        right: Credential | None = None,
    ) -> Watcher:
        viewer = Viewer(
            hub=self.hub,
            wanted=wanted or Wanted(),
            topics=topics or ("operations",),
            right=right or Credential(token_id=self.caller().token_id),
        )
        return Watcher(viewer, last_id)


def run(
    gateway: LocalGateway,
    story: Callable[[Streams], Awaitable[None]],
    *,
    tenant: str = "",
    is_good_here: IsGood = always_good,
) -> None:
    """Play a story of viewers."""

    async def play() -> None:
        async with Streams(gateway, tenant, is_good_here=is_good_here) as streams:
            await story(streams)

    asyncio.run(play())


def names(found: Sequence[Any], key: str) -> list[str]:
    return [row[key] for row in found]
