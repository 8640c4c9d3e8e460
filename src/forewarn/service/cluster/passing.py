"""Requests of VMs that only the leader can decide, passed on by a replica that follows.

The replica sends the request of the VM to the leader's endpoint for VMs, and signs for
which VM it speaks. An approval is answered with success only after the leader's answer,
which is durable, and after this replica serves the result, so that the VM reads what it
wrote. Without an answer, the VM gets 503 and asks again, which is harmless (3.2).
"""

import asyncio
import contextlib
import itertools
import json
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from forewarn.agent.wire.urls import Url
from forewarn.clock import Clock
from forewarn.forwarding.wire import Connection, UnreachableError
from forewarn.metadata.passed_on import replica_headers
from forewarn.protocol import versions
from forewarn.service import limits
from forewarn.service.gateways import ReadingGuests
from forewarn.service.readings import Readings
from forewarn.store.port import StoreError

_TARGET = f"/metadata/scheduledevents?api-version={versions.NEWEST_NAMES[0]}"

_OK, _REFUSED = 200, 400


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderDoor:
    """The address at which the leader answers VMs, and the key that signs requests."""

    url: Url
    key: bytes


class FollowerGuests(ReadingGuests):
    """The gateway of VMs of a replica that follows (metadata.gateway.ControlGateway)."""

    def __init__(
        self,
        *,
        door: Callable[[], LeaderDoor | None],
        caught_up: Callable[[], Awaitable[None]],
        readings: Readings,
        clock: Clock,
        sender: str,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Pass requests on to the leader that `door` returns.

        If it returns None, no leader is known.

        `sender` names this process: no other one uses the same name.

        `tls` checks the leader's certificate, if its URL is `https`.

        `caught_up` returns when this replica serves everything that was committed before
        the call.
        """
        super().__init__(readings=readings, clock=clock)
        self._door = door
        self._caught_up = caught_up
        self._tls = tls
        self._sender = sender
        self._numbers = itertools.count(1)
        self._idle: list[tuple[LeaderDoor, Connection]] = []
        self.passed_on: Counter[tuple[str, str]] = Counter()
        """Requests that were passed on, by kind and result."""
        self._turns = asyncio.Semaphore(limits.PASSED_ON_TOGETHER_MAX)

    async def enable(self, vm: str) -> None:
        """Enable the view of a VM; return when its document may have come.

        The leader can hold its answer for two minutes (7.1), but enables at once.
        """
        with self._counting_failures("enable"), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limits.ENABLE_PASSED_ON_SECONDS):
                await self._send("GET", vm, None)
        self.passed_on["enable", "accepted"] += 1
        await self._wait_until_served()

    async def approve(self, vm: str, event_ids: Sequence[str]) -> str | None:
        """Approve events for a VM; the result is None or the reason of a refusal."""
        with self._counting_failures("approve"):
            reason = await self._approved(vm, event_ids)
        result = "accepted" if reason is None else "refused"
        self.passed_on["approve", result] += 1
        await self._wait_until_served()
        return reason

    @contextlib.contextmanager
    def _counting_failures(self, request: str) -> Generator[None]:
        try:
            yield
        except UnreachableError:
            self.passed_on[request, "unavailable"] += 1
            raise

    async def _approved(self, vm: str, event_ids: Sequence[str]) -> str | None:
        body = {"StartRequests": [{"EventId": event_id} for event_id in event_ids]}
        try:
            async with asyncio.timeout(limits.PASSED_ON_SECONDS):
                status, text = await self._send("POST", vm, json.dumps(body).encode())
        except TimeoutError as error:
            raise UnreachableError("the leader did not answer in time") from error
        if status not in {_OK, _REFUSED}:
            raise UnreachableError(f"the leader answered with status {status}")
        return None if status == _OK else _reason(text)

    async def tell_seen(self, vms: Sequence[str]) -> None:
        """Ask the leader for the documents of VMs, which have asked for them here.

        The leader then knows that their views are in use. A request that fails is made up
        for by the next time.
        """
        left = iter(vms)

        async def tell() -> None:
            for vm in left:
                with contextlib.suppress(UnreachableError, TimeoutError):
                    async with asyncio.timeout(limits.ENABLE_PASSED_ON_SECONDS):
                        await self._send("GET", vm, None)

        await asyncio.gather(*(tell() for _ in range(limits.SEEN_TOLD_TOGETHER_MAX)))

    def close(self) -> None:
        """Close the connections that are not in use."""
        for _, connection in self._idle:
            connection.close()
        self._idle.clear()

    async def _wait_until_served(self) -> None:
        """Wait until the result is served here; it is durable in any case."""
        with contextlib.suppress(TimeoutError, StoreError):
            async with asyncio.timeout(limits.SERVED_SECONDS):
                await self._caught_up()

    async def _send(
        self, method: str, vm: str, body: bytes | None
    ) -> tuple[int, bytes]:
        """Return the status and body of the leader's answer; raises UnreachableError."""
        async with self._turns:
            door = self._door()
            if door is None:
                raise UnreachableError("no replica leads now")
            queue = self._take(door)
            if queue is not None:
                # The leader may have closed a kept connection. To repeat is harmless.
                with contextlib.suppress(UnreachableError):
                    return await self._exchange(door, queue, method, vm, body)
            fresh = Connection(door.url, tls=self._tls)
            await fresh.open()
            return await self._exchange(door, fresh, method, vm, body)

    def _take(self, door: LeaderDoor) -> Connection | None:
        while self._idle:
            to, connection = self._idle.pop()
            if to == door and connection.is_open:
                return connection
            connection.close()
        return None

    async def _exchange(
        self,
        door: LeaderDoor,
        connection: Connection,
        method: str,
        vm: str,
        body: bytes | None,
    ) -> tuple[int, bytes]:
        is_whole = False
        proof = replica_headers(
            door.key,
            vm,
            method=method,
            body=body or b"",
            sender=self._sender,
            number=next(self._numbers),
        )
        headers = {"Metadata": "true", **proof}
        try:
            status = await connection.ask(method, _TARGET, headers=headers, body=body)
            text = await connection.body()
            is_whole = True
        finally:
            # After a timeout, the next answer would be that to this request.
            if not is_whole:
                connection.close()
        self._idle.append((door, connection))
        return status, text


def _reason(text: bytes) -> str:
    """Return the reason in the answer to a refused approval."""
    try:
        body: Any = json.loads(text)
    except ValueError:
        body = None
    reason = body.get("error") if isinstance(body, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not isinstance(reason, str):
        raise UnreachableError("the leader's refusal has no reason")
    return reason
