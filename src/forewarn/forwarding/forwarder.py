"""Requests of VMs, passed on to the service: approvals together, the rest one by one.

An approval is answered with success only after the service has made it durable. If the
service gives no answer, the VM gets 503 and asks again, which is harmless (3.2).
"""

import asyncio
import contextlib
import json
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from forewarn.clock import Clock
from forewarn.forwarding import limits
from forewarn.forwarding.post import Post
from forewarn.forwarding.wire import UnreachableError
from forewarn.instants import SECOND, Micros

logger = logging.getLogger("forewarn.forwarding")

_INVALID = frozenset({400, 413, 422})
"""The statuses of a request that no repetition makes valid."""

INVALID = "the service does not know such events"
"""The refusal of an approval that is not valid, such as one of an ID that is too long."""

_Asked: TypeAlias = tuple[str, tuple[str, ...], "asyncio.Future[str | None]"]
"""The approval of a VM: its name, the events, and where the result goes."""


class Forwarder:
    """Passes the requests of VMs on, approvals together and the rest one by one."""

    def __init__(
        self,
        *,
        to: str,
        approvals: Post,
        others: Post,
        reached: Callable[[str], Awaitable[None]],
        clock: Clock,
    ) -> None:
        """Send approvals with one `Post` and the rest with another.

        `to` is the path above the routes. `reached` returns when this process has the
        documents at a position that an answer names, and raises ValueError if it is not
        a position.
        """
        self._path = to
        self._approvals = approvals
        self._others = others
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
            raise UnreachableError(f"{vm} is not known here")
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

    async def report_seen(self, ages: Mapping[str, Micros]) -> None:
        """Report how long ago VMs asked; a lost report is replaced by the next one."""
        seconds = {vm: ages[vm] // SECOND for vm in sorted(ages)}
        for some in _in_parts(seconds):
            with contextlib.suppress(UnreachableError):
                await self._send(self._others, "seen", {"seconds_ago": some})

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
            approval = self._waiting.popleft()
            # A VM that does not wait any longer asks again.
            if verdict.done():
                events -= len(ids)
                size -= _size(_members(vm, ids))
            else:
                some.append(approval)
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
        self._spawn(self._set_verdicts(verdicts, refusals, answer))

    async def _send_alone(self, some: list[_Asked]) -> None:
        """Send approvals again that were refused together, because one is not valid.

        The approval of one VM must not hold up those of others.
        """
        if len(some) > 1:
            for approval in some:
                await self._send_some([approval])
            return
        [(_, _, verdict)] = some
        if not verdict.done():
            verdict.set_result(INVALID)

    async def _set_verdicts(
        self,
        verdicts: list["asyncio.Future[str | None]"],
        refusals: list[object],
        answer: Mapping[str, Any],
    ) -> None:
        """Answer when the result is served here, so that a VM reads what it wrote."""
        await self._has_come(answer)
        for verdict, refusal in zip(verdicts, refusals, strict=True):
            if not verdict.done():
                verdict.set_result(None if refusal is None else str(refusal))

    async def _has_come(self, answer: Mapping[str, Any]) -> bool:
        """Wait until the result of a request is served here; return whether it is."""
        try:
            async with asyncio.timeout(limits.POSITION_SECONDS):
                await self._reached(str(answer.get("position", "")))
        except (ValueError, TimeoutError):
            return False
        return True

    async def _send(
        self, post: Post, name: str, body: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        try:
            return await post.send(f"{self._path}/{name}", body)
        except UnreachableError as error:
            now = self._clock.monotonic()
            if now - self._logged >= limits.LOG_SECONDS:
                self._logged = now
                logger.warning("a request of a VM was not taken: %s", error.message)
            raise


def _refusals(answer: Mapping[str, Any], number: int) -> list[object]:
    """Return the result of each approval; raises UnreachableError."""
    value: Any = answer.get("refusals")
    refusals = cast("list[object]", value) if isinstance(value, list) else []
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
