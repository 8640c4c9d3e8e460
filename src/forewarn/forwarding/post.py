"""Requests to the service over a connection that is kept: JSON out, JSON back."""

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping
from typing import Any, cast

from forewarn.agent.wire.urls import Url
from forewarn.forwarding import limits
from forewarn.forwarding.wire import Connection, UnreachableError

_OK = 200


class Post:
    """Sends requests to the service one at a time, over a connection that it keeps."""

    def __init__(
        self,
        url: Callable[[], Url],
        *,
        headers: Callable[[str, bytes], Mapping[str, str]],
        tls: ssl.SSLContext | None,
        refused: Callable[[Url, int], UnreachableError],
        unanswered: Callable[[Url], None] = lambda _url: None,
    ) -> None:
        """Send to the service that `url` returns; it may be another one each time.

        `headers` returns the headers for a path and a body that show who asks, and
        `refused` the error for a status other than 200. `unanswered` is called with the
        service that was asked, if it gave no usable answer at all.
        """
        self._url = url
        self._headers = headers
        self._refused = refused
        self._unanswered = unanswered
        self._tls = tls
        self._turn = asyncio.Lock()
        self._connection: Connection | None = None
        self._to: Url | None = None

    async def send(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the answer to a POST; raises UnreachableError."""
        data = json.dumps(body).encode()
        # None: another request has the connection, so no service is asked yet.
        url: Url | None = None
        try:
            async with asyncio.timeout(limits.POST_SECONDS), self._turn:
                url = self._url()
                return await self._send(url, path, data)
        except TimeoutError as error:
            self._note_unanswered(url)
            base = (url or self._url()).base
            raise UnreachableError(f"{base}: no answer in time") from error
        except UnreachableError as error:
            if not error.status:
                self._note_unanswered(url)
            raise

    def _note_unanswered(self, url: Url | None) -> None:
        if url is not None:
            self._unanswered(url)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _send(self, url: Url, path: str, data: bytes) -> Mapping[str, Any]:
        is_kept = self._connection is not None and self._connection.is_open
        if not is_kept or url != self._to:
            is_kept = False
            await self._connect(url)
        try:
            return await self._exchange(url, path, data)
        except UnreachableError as error:
            # The service may have closed a kept connection. To repeat is harmless.
            if not is_kept or error.status:
                raise
        await self._connect(url)
        return await self._exchange(url, path, data)

    async def _connect(self, url: Url) -> None:
        self.close()
        self._connection, self._to = Connection(url, tls=self._tls), url
        await self._connection.open()

    async def _exchange(self, url: Url, path: str, data: bytes) -> Mapping[str, Any]:
        connection = self._connection
        assert connection is not None, "it is connected"
        is_whole = False
        try:
            status = await connection.ask(
                "POST", path, headers=self._headers(path, data), body=data
            )
            text = await connection.body()
            is_whole = True
        finally:
            # After a timeout, the next answer would be that to this request.
            if not is_whole:
                self.close()
        if status != _OK:
            raise self._refused(url, status)
        try:
            members: Any = json.loads(text)
        except ValueError:
            members = None
        if not isinstance(members, dict):
            raise UnreachableError(f"{url.base} did not answer with a table of JSON")
        return cast("Mapping[str, Any]", members)
