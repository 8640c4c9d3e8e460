"""The HTTP client of one receiver: a POST and its result.

Only this module of the service imports httpx2. Certificates are verified. Redirects,
cookies and the proxies of the environment are ignored. Only the status and Retry-After
of a response matter.
"""

import asyncio
import ssl

import httpx2

from forewarn import __version__
from forewarn.clock import Clock
from forewarn.instants import SECOND, Micros
from forewarn.service.webhooks import limits
from forewarn.service.webhooks.decisions import Answer

_HEADERS = {"User-Agent": f"forewarn/{__version__}"}


class Sender:
    """Posts to one URL over at most two connections: one for messages, one for tests."""

    def __init__(
        self, url: str, *, timeout: Micros, clock: Clock, ca_file: str, proxy: str
    ) -> None:
        """Prepare posts to `url`; raises OSError if `ca_file` cannot be used."""
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
        """Post `body`; failures are returned, not raised."""
        begun = self._clock.monotonic()

        def answer_of(
            status: int = 0, error: str = "", retry_after: str = ""
        ) -> Answer:
            return Answer(
                status=status,
                error=error.replace(self._url, "its URL"),
                retry_after=retry_after,
                seconds=self._clock.monotonic() - begun,
            )

        try:
            # The client's timeouts apply to each read; this one to the whole exchange.
            async with (
                asyncio.timeout(self._seconds),
                self._http.stream(
                    "POST", self._url, content=body, headers=headers
                ) as answer,
            ):
                await _skip(answer)
                status = answer.status_code
                return answer_of(
                    status, retry_after=answer.headers.get("retry-after", "")
                )
        except (TimeoutError, httpx2.TimeoutException):
            return answer_of(error=f"no response within {self._seconds:g} s")
        except httpx2.ConnectError as error:
            return answer_of(error=f"no connection: {error}")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            return answer_of(error=f"{type(error).__name__}: {error}")
        finally:
            self._http.cookies.clear()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


async def _skip(answer: httpx2.Response) -> None:
    """Read the rest of a response, so that the connection can be reused."""
    size = 0
    async for chunk in answer.aiter_raw():
        size += len(chunk)
        if size > limits.ANSWER_BYTES_MAX:
            return
