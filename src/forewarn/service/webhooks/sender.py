"""One receiver's HTTP: a POST, and what came of it. The home of httpx2 here.

Certificates are verified, redirects are not followed, the environment's proxies
and cookies mean nothing, and of an answer only its status counts.
"""

import asyncio
import ssl

import httpx2

from forewarn import __version__
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros
from forewarn.service.webhooks import limits
from forewarn.service.webhooks.decisions import Answer

_HEADERS = {
    "Content-Type": "application/json",
    "User-Agent": f"forewarn/{__version__}",
}


class Sender:
    """Posts to one URL over at most two connections: messages, and a test."""

    def __init__(
        self, url: str, *, timeout: Micros, clock: Clock, ca_file: str, proxy: str
    ) -> None:
        """Post to `url`; raises OSError where `ca_file` cannot be used."""
        self._url = url
        self._seconds = timeout / SECOND
        self._clock = clock
        self._http = httpx2.AsyncClient(
            verify=ssl.create_default_context(cafile=ca_file or None),
            proxy=proxy or None,
            trust_env=False,
            follow_redirects=False,
            timeout=self._seconds,
            limits=httpx2.Limits(max_connections=2, max_keepalive_connections=1),
            headers=_HEADERS,
        )

    async def post(self, body: bytes, headers: dict[str, str]) -> Answer:
        """Post `body`; whatever goes wrong is an answer too."""
        begun = self._clock.monotonic()

        def told(status: int = 0, error: str = "", retry_after: str = "") -> Answer:
            return Answer(
                status=status,
                error=error,
                retry_after=retry_after,
                seconds=self._clock.monotonic() - begun,
            )

        try:
            # The time-outs of the client are for each read; this is for all of it.
            async with (
                asyncio.timeout(self._seconds),
                self._http.stream(
                    "POST", self._url, content=body, headers=headers
                ) as answer,
            ):
                await _skip(answer)
                status = answer.status_code
                return told(status, retry_after=answer.headers.get("retry-after", ""))
        except (TimeoutError, httpx2.TimeoutException):
            return told(error=f"no answer in {self._seconds:g} s")
        except httpx2.ConnectError as error:
            return told(error=f"no connection: {error}")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            return told(error=f"{type(error).__name__}: {error}")
        finally:
            self._http.cookies.clear()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


async def _skip(answer: httpx2.Response) -> None:
    """Read what is left of an answer, so that its connection may be used again."""
    size = 0
    async for chunk in answer.aiter_raw():
        size += len(chunk)
        if size > limits.ANSWER_BYTES_MAX:
            return
