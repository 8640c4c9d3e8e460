"""Requests of VMs, passed on to the service: approvals together, and first requests too.

An approval is answered with success only after the service has made it durable. If the
service gives no answer, the VM gets 503 and asks again, which is harmless (3.2).
"""

import asyncio
import contextlib
import json
import logging
import math
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from collections.abc import Set as AbstractSet
from typing import Any, cast

from forewarn.clock import Clock
from forewarn.forwarding import limits
from forewarn.forwarding.gathering import Gathering, QueuedRequest
from forewarn.forwarding.post import Post
from forewarn.forwarding.wire import UnreachableError
from forewarn.instants import SECOND, Micros

logger = logging.getLogger("forewarn.forwarding")

_INVALID = frozenset({400, 413, 422})
"""The statuses of a request that no repetition makes valid."""

INVALID = "the service does not know such events"
"""The refusal of an approval that is not valid, such as one of an ID that is too long."""


class Forwarder:
    """Passes the requests of VMs on, those of one kind together."""

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
        self._approving = Gathering(
            self._send_approvals,
            together_max=limits.APPROVALS_TOGETHER_MAX,
            spawn=self._spawn,
        )
        self._enabling = Gathering(
            self._send_enablings,
            together_max=limits.ENABLINGS_TOGETHER_MAX,
            spawn=self._spawn,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._logged = -math.inf

    async def enable(self, vm: str) -> None:
        """Enable the view of a VM; return when its document has come."""
        result = asyncio.get_running_loop().create_future()
        self._enabling.add(QueuedRequest(vm=vm, size=_size(vm), result=result))
        await result

    def approve(
        self, vm: str, event_ids: Sequence[str]
    ) -> "asyncio.Future[str | None]":
        """Approve events for a VM; the result is None or the reason of a refusal."""
        result = asyncio.get_running_loop().create_future()
        ids = tuple(event_ids)
        size = _size(_members(vm, ids))
        self._approving.add(
            QueuedRequest(vm=vm, event_ids=ids, size=size, result=result)
        )
        return result

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

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_approvals(self, some: Sequence[QueuedRequest]) -> None:
        body = {
            "approvals": [_members(request.vm, request.event_ids) for request in some]
        }
        try:
            answer = await self._send(self._approvals, "approve", body)
            refusals = _refusals(answer, len(some))
        except UnreachableError as error:
            if error.status not in _INVALID:
                _fail(some, error)
            elif len(some) == 1:
                some[0].answer(INVALID)
            else:
                # The approval of one VM must not hold up those of others.
                await self._send_alone(self._send_approvals, some)
            return
        self._spawn(self._set_verdicts(some, refusals, answer))

    async def _send_enablings(self, some: Sequence[QueuedRequest]) -> None:
        names = [request.vm for request in some]
        # A service of an earlier version takes one at a time.
        body = {"vm": names[0]} if len(names) == 1 else {"vms": names}
        try:
            answer = await self._send(self._others, "enable", body)
        except UnreachableError as error:
            if error.status in _INVALID and len(some) > 1:
                await self._send_alone(self._send_enablings, some)
            else:
                _fail(some, error)
            return
        self._spawn(self._set_enabled(some, answer))

    async def _send_alone(
        self,
        send: Callable[[Sequence[QueuedRequest]], Awaitable[None]],
        some: Sequence[QueuedRequest],
    ) -> None:
        """Send requests again that were refused together, because one is not valid."""
        for request in some:
            await send([request])

    async def _set_verdicts(
        self,
        some: Sequence[QueuedRequest],
        refusals: list[object],
        answer: Mapping[str, Any],
    ) -> None:
        """Answer when the result is served here, so that a VM reads what it wrote."""
        await self._has_come(answer)
        for request, refusal in zip(some, refusals, strict=True):
            request.answer(None if refusal is None else str(refusal))

    async def _set_enabled(
        self, some: Sequence[QueuedRequest], answer: Mapping[str, Any]
    ) -> None:
        """Answer when the documents are served here."""
        names = _enabled(some, answer)
        has_come = await self._has_come(answer)
        for request in some:
            if request.vm not in names:
                request.fail(UnreachableError(f"{request.vm} is not known here"))
            elif not has_come:
                request.fail(
                    UnreachableError(f"the document of {request.vm} has not come yet")
                )
            else:
                request.answer(None)

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


def _enabled(
    some: Sequence[QueuedRequest], answer: Mapping[str, Any]
) -> AbstractSet[str]:
    """Return the VMs that the service has enabled."""
    value: Any = answer.get("vms")
    if isinstance(value, list):
        return frozenset(map(str, cast("list[object]", value)))
    # A service of an earlier version answers for the only one.
    return (
        {request.vm for request in some}
        if answer.get("enabled") is True
        else frozenset()
    )


def _fail(some: Sequence[QueuedRequest], error: UnreachableError) -> None:
    for request in some:
        request.fail(error)


def _members(vm: str, event_ids: Sequence[str]) -> dict[str, Any]:
    """Return an approval for a body."""
    return {"vm": vm, "event_ids": event_ids}


def _size(members: Any) -> int:
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
