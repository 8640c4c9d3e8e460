"""The stream of the service: connected, read, and connected again after a random pause."""

import asyncio
import json
import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast
from urllib.parse import quote

from forewarn.agent.wire.urls import Url
from forewarn.forwarding.limits import SILENCE_SECONDS
from forewarn.forwarding.wire import Connection, UnreachableError, bearer
from forewarn.protocol.errors import ForewarnError
from forewarn.relay import limits, messages
from forewarn.relay.knowledge import Line, Place, Step, Verdict

logger = logging.getLogger("forewarn.relay")

_UNAUTHORIZED = 401
_FORBIDDEN = 403
_UNAVAILABLE = 503
_OK = 200


def pause(failures: int, draw: float, *, has_lost: bool = False) -> float:
    """Return the seconds before the next attempt; `draw` is random, from 0 to 1.

    The pause is spread from 0 to a maximum that doubles, so that the relays of all hosts
    do not come at the same time. It is long if the service has lost its store.
    """
    if has_lost:
        return draw * limits.LOST_PAUSE_SECONDS_MAX
    # More than the limit after four failures.
    pause_max = limits.FIRST_PAUSE_SECONDS * 2 ** min(failures, 4)
    return draw * min(pause_max, limits.PAUSE_SECONDS_MAX)


class FollowsError(UnreachableError):
    """A replica follows another one, which serves relays."""

    def __init__(self, url: Url, leader: str) -> None:
        """Name the leader by the URL of its operator API; empty: none leads now."""
        who = f"follows {leader}" if leader else "follows, and no replica leads now"
        super().__init__(f"{url.base} {who}")
        self.leader = leader


class LostError(UnreachableError):
    """The store of a service has lost what this relay has served."""


class Upstream:
    """Keeps one stream of one of several services open.

    Only the replica that leads serves relays. The others name it, so that a relay finds
    it with one more request. It never sends its token to a URL that is not in its
    settings.
    """

    def __init__(
        self,
        urls: Sequence[Url],
        *,
        token: Callable[[], str],
        tls: ssl.SSLContext | None,
        take: Callable[[Line], Awaitable[Step]],
        position: Callable[[], str],
        holds: Callable[[], str],
        draw: Callable[[], float],
    ) -> None:
        """Give each line to `take`, and continue after `position`.

        `holds` returns the digest of all that is known, as the service sent it last.
        `token` returns the present token, which it reads from its file. `draw` returns
        random numbers from 0 to 1.
        """
        self._urls = urls
        self._token = token
        self._tls = tls
        self._take = take
        self._position = position
        self._holds = holds
        self._draw = draw
        self._at = 0
        self._failures = 0
        self._told = ""
        self._connection: Connection | None = None
        self.is_connected = False

    def doubt(self, url: Url) -> None:
        """Leave the stream of a replica that gave a request no answer.

        The process of the operator API can keep a stream alive although the service
        itself hangs, and another replica leads by then. `url` is the next replica at
        once, so the next request goes there. A request can end long after the stream
        has left its replica, so it says nothing of another one.
        """
        connection = self._connection
        if connection is None or not self.is_connected:
            return
        if url == self.url and len(self._urls) > 1:
            self._connection = None
            connection.close()
            self._turn(None)

    @property
    def url(self) -> Url:
        """Return the service of the stream, or the one to try next."""
        return self._urls[self._at % len(self._urls)]

    async def run(self) -> None:
        """Keep the stream open, until the task is cancelled."""
        while True:
            leader, has_lost = None, False
            try:
                await self._follow()
                reason = "it ended the stream"
            except FollowsError as error:
                reason, leader = error.message, error.leader
            except (ForewarnError, ValueError) as error:
                has_lost = isinstance(error, LostError)
                reason = getattr(error, "message", "") or f"invalid line: {error}"
            self._note_lost(reason)
            # A doubt has turned already.
            if self._connection is not None:
                self._turn(leader)
            await asyncio.sleep(pause(self._failures, self._draw(), has_lost=has_lost))
            self._failures += 1

    async def _follow(self) -> None:
        """Connect, and take lines until the stream ends; raises UnreachableError."""
        url = self.url
        connection = self._connection = Connection(url, tls=self._tls)
        after, holds = self._position(), self._holds()
        path = f"/v1/relay/stream?after={quote(after, safe='')}&confirms=true"
        path += f"&holds={quote(holds, safe='')}" if holds else ""
        try:
            await connection.open()
            async with asyncio.timeout(SILENCE_SECONDS):
                status = await connection.ask(
                    "GET",
                    path,
                    headers=bearer(self._token()),
                )
                if status == _UNAVAILABLE:
                    leader = leader_in(await connection.body())
                    if leader is not None:
                        raise FollowsError(url, leader)
            if status != _OK:
                raise refused(url, status)
            async for text in connection.lines():
                step = await self._take(messages.line_of(text))
                if step.verdict is Verdict.LEAVE:
                    raise _left(url, step)
                self._note_connected(url)
        except TimeoutError as error:
            raise UnreachableError(f"{url.base}: no answer") from error
        finally:
            connection.close()

    def _note_connected(self, url: Url) -> None:
        self._failures = 0
        if not self.is_connected:
            self.is_connected = True
            self._told = ""
            logger.info("following the service at %s", url.base)

    def _note_lost(self, reason: str) -> None:
        was_connected, self.is_connected = self.is_connected, False
        if was_connected or reason != self._told:
            self._told = reason
            logger.warning(
                "no stream of the service, VMs get the documents that are known: %s",
                reason,
            )

    def _turn(self, leader: str | None) -> None:
        """Choose the service to try next; `leader` is None, or as in FollowsError.

        While no replica leads, the next leader is seconds away, so the pauses stay short.
        """
        if leader is not None:
            self._failures = min(self._failures, 1)
        places = [number for number, url in enumerate(self._urls) if url.base == leader]
        if places:
            self._failures = 0
            self._at = places[0]
        else:
            self._at += 1


def leader_in(body: bytes) -> str | None:
    """Return the leader's URL in the answer of a replica that follows.

    Empty: no replica leads. None: it is another answer.
    """
    try:
        answer: Any = json.loads(body)
    except ValueError:
        return None
    if not isinstance(answer, dict):
        return None
    members = cast("dict[str, Any]", answer)
    if members.get("kind") != "follows":
        return None
    return str(members.get("leader") or "").rstrip("/")


def refused(url: Url, status: int) -> UnreachableError:
    """Return the error of a status; it says nothing of the token."""
    hint = ""
    if status in {_UNAUTHORIZED, _FORBIDDEN}:
        hint = "Write a new token to token_file: `forewarn token create --relay HOST`."
    message = f"{url.base} answered with status {status}"
    return UnreachableError(
        f"{message}. {hint}" if hint else message, hint=hint, status=status
    )


def _left(url: Url, step: Step) -> UnreachableError:
    if step.place in {Place.BEHIND, Place.LOST}:
        kind = LostError if step.place is Place.LOST else UnreachableError
        return kind(
            f"{url.base} is behind what this relay has served already. If its store was "
            "restored from a backup, stop the service, run `forewarn store restored`, and "
            "start it"
        )
    return UnreachableError(f"{url.base}: {step.place.value}")
