"""Requests of VMs, sent to the service: approvals together, the rest one by one.

An approval is answered with success only after the service has made it durable. If the
service gives no answer, the VM gets 503 and asks again, which is harmless (3.2).
"""

import asyncio
import contextlib
import json
import logging
import math
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from forewarn.agent.wire.urls import Url
from forewarn.clock import Clock
from forewarn.fleet.instance import InstanceFacts
from forewarn.instants import SECOND, Micros
from forewarn.protocol.own_events import OwnEvents
from forewarn.relay import limits
from forewarn.relay.knowledge import Knowledge, Position, position_of
from forewarn.relay.upstream import refused
from forewarn.relay.wire import Connection, UnreachableError

logger = logging.getLogger("forewarn.relay")

_OK = 200

_UNKNOWN = 404

_INVALID = frozenset({400, 413, 422})
"""The statuses of a request that no repetition makes valid."""

INVALID = "the service does not know such events"
"""The refusal of an approval that is not valid, such as one of an ID that is too long."""

_Asked: TypeAlias = tuple[str, tuple[str, ...], "asyncio.Future[str | None]"]
"""The approval of a VM: its name, the events, and where the result goes."""


class Post:
    """Sends requests to the service one at a time, over a connection that it keeps."""

    def __init__(
        self,
        url: Callable[[], Url],
        *,
        token: Callable[[], str],
        tls: ssl.SSLContext | None,
    ) -> None:
        """Send to the service that `url` returns: the one of the stream."""
        self._url = url
        self._token = token
        self._tls = tls
        self._turn = asyncio.Lock()
        self._connection: Connection | None = None
        self._to: Url | None = None

    async def send(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the answer to a POST; raises UnreachableError."""
        data = json.dumps(body).encode()
        try:
            async with asyncio.timeout(limits.POST_SECONDS), self._turn:
                return await self._send(path, data)
        except TimeoutError as error:
            raise UnreachableError(f"{self._url().base}: no answer in time") from error

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _send(self, path: str, data: bytes) -> Mapping[str, Any]:
        url = self._url()
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
            status = await connection.ask("POST", path, token=self._token(), body=data)
            text = await connection.body()
            is_whole = True
        finally:
            # After a timeout, the next answer would be that to this request.
            if not is_whole:
                self.close()
        if status != _OK:
            raise refused(url, status)
        try:
            found: Any = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise UnreachableError(f"{url.base} did not answer with a table of JSON")
        return cast("Mapping[str, Any]", found)


class Desk:
    """The gateway of the metadata endpoint (metadata.gateway.ControlGateway)."""

    def __init__(
        self,
        *,
        approvals: Post,
        others: Post,
        knowledge: Callable[[], Knowledge],
        reached: Callable[[Position], Awaitable[None]],
        clock: Clock,
    ) -> None:
        """Send approvals with one `Post` and the rest with another.

        `reached` returns when the stream has reached a position.
        """
        self._approvals = approvals
        self._others = others
        self._knowledge = knowledge
        self._reached = reached
        self._clock = clock
        self._waiting: deque[_Asked] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_sending = False
        self._logged = -math.inf

    async def enable(self, vm: str) -> None:
        """Enable the view of a VM; return when its document has come."""
        answer = await self._send(self._others, "enable", {"vm": vm})
        if answer.get("enabled") is not True:
            raise UnreachableError(f"{vm} is not on this host")
        if not await self._has_come(answer):
            raise UnreachableError(f"the document of {vm} has not come yet")

    def approve(
        self, vm: str, event_ids: Sequence[str]
    ) -> "asyncio.Future[str | None]":
        """Approve events for a VM; the result is None or the reason of a refusal."""
        verdict = asyncio.get_running_loop().create_future()
        self._waiting.append((vm, tuple(event_ids), verdict))
        if not self._is_sending:
            self._is_sending = True
            self._spawn(self._send_approvals())
        return verdict

    async def instance(self, vm: str) -> InstanceFacts | None:
        """Return the facts of the instance endpoint, which came with the VM."""
        known = self._knowledge().guests.get(vm)
        return None if known is None else known.instance

    async def own_events(self, vm: str) -> OwnEvents | None:
        """Return nothing: a relay has no event details, so no VM can ask."""
        raise AssertionError(vm)

    async def report_seen(self, ages: Mapping[str, Micros]) -> None:
        """Report how long ago VMs asked; a lost report is replaced by the next one."""
        seconds = {vm: ages[vm] // SECOND for vm in sorted(ages)}
        for some in _in_parts(seconds):
            with contextlib.suppress(UnreachableError):
                await self._send(self._others, "seen", {"seconds_ago": some})

    async def confirm(self, position: Position) -> bool:
        """Confirm that a position is applied; return whether that is done."""
        body = {"position": position.text}
        try:
            await self._others.send("/v1/relay/served", body)
        except UnreachableError as error:
            # A service of an earlier version waits for nothing.
            return error.status == _UNKNOWN
        return True

    async def close(self) -> None:
        """Wait for the requests that were sent, and close the connections."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        self._approvals.close()
        self._others.close()

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_approvals(self) -> None:
        """Send those that wait together, until none waits."""
        # Those that arrive in this iteration of the loop go together.
        await asyncio.sleep(0)
        try:
            while self._waiting:
                if some := self._next():
                    await self._send_some(some)
        finally:
            self._is_sending = False

    def _next(self) -> list[_Asked]:
        """Take the approvals of the next request, within the limits of the service."""
        some: list[_Asked] = []
        events = size = 0
        while self._waiting and len(some) < limits.APPROVALS_TOGETHER_MAX:
            vm, ids, verdict = self._waiting[0]
            events += len(ids)
            size += _size(_members(vm, ids))
            is_full = (
                events > limits.EVENTS_TOGETHER_MAX or size > limits.BODY_BYTES_MAX
            )
            if some and is_full:
                break
            asked = self._waiting.popleft()
            # A VM that does not wait any longer asks again.
            if verdict.done():
                events -= len(ids)
                size -= _size(_members(vm, ids))
            else:
                some.append(asked)
        return some

    async def _send_some(self, some: list[_Asked]) -> None:
        body = {"approvals": [_members(vm, ids) for vm, ids, _ in some]}
        verdicts = [verdict for *_, verdict in some]
        try:
            answer = await self._send(self._approvals, "approve", body)
            refusals = _refusals(answer, len(some))
        except UnreachableError as error:
            if error.status in _INVALID:
                await self._send_alone(some)
                return
            for verdict in verdicts:
                if not verdict.done():
                    verdict.set_exception(error)
                    # If the VM has left, the exception is not asked for.
                    verdict.exception()
            return
        self._spawn(self._tell(verdicts, refusals, answer))

    async def _send_alone(self, some: list[_Asked]) -> None:
        """Send approvals again that were refused together, because one is not valid.

        The approval of one VM must not hold up those of others.
        """
        if len(some) > 1:
            for asked in some:
                await self._send_some([asked])
            return
        [(_, _, verdict)] = some
        if not verdict.done():
            verdict.set_result(INVALID)

    async def _tell(
        self,
        verdicts: list["asyncio.Future[str | None]"],
        refusals: list[object],
        answer: Mapping[str, Any],
    ) -> None:
        """Answer when the stream has the result, so that a VM reads what it wrote."""
        await self._has_come(answer)
        for verdict, refusal in zip(verdicts, refusals, strict=True):
            if not verdict.done():
                verdict.set_result(None if refusal is None else str(refusal))

    async def _has_come(self, answer: Mapping[str, Any]) -> bool:
        """Wait until the stream has the result of a request; return whether it has."""
        try:
            position = position_of(str(answer.get("position", "")))
            async with asyncio.timeout(limits.POSITION_SECONDS):
                await self._reached(position)
        except (ValueError, TimeoutError):
            return False
        return True

    async def _send(
        self, post: Post, name: str, body: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        try:
            return await post.send(f"/v1/relay/{name}", body)
        except UnreachableError as error:
            now = self._clock.monotonic()
            if now - self._logged >= limits.LOG_SECONDS:
                self._logged = now
                logger.warning("a request of a VM was not taken: %s", error.message)
            raise


def _refusals(answer: Mapping[str, Any], number: int) -> list[object]:
    """Return the result of each approval; raises UnreachableError."""
    found: Any = answer.get("refusals")
    refusals = cast("list[object]", found) if isinstance(found, list) else []
    if len(refusals) != number:
        raise UnreachableError("the service did not answer each approval")
    return refusals


def _members(vm: str, event_ids: Sequence[str]) -> dict[str, Any]:
    """Return an approval for a body."""
    return {"vm": vm, "event_ids": event_ids}


def _size(members: Mapping[str, Any]) -> int:
    """Return the bytes of a value in a body, with the comma after it."""
    return len(json.dumps(members)) + 2


def _in_parts(seconds: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield the numbers in parts, each of which the service takes as one body."""
    part: dict[str, int] = {}
    size = 0
    for vm, number in seconds.items():
        more = _size({vm: number})
        if part and (
            len(part) == limits.SEEN_TOGETHER_MAX or size + more > limits.BODY_BYTES_MAX
        ):
            yield part
            part, size = {}, 0
        part[vm] = number
        size += more
    if part:
        yield part
