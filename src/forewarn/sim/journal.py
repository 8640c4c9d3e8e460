"""Every request that a stage has seen, with what became of it: for assertions.

It is bounded: the oldest is dropped for the newest, and counted. What a request
brings is kept as far as it is of interest.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from forewarn.instants import Micros, format_instant
from forewarn.metadata.http import Request
from forewarn.sim.deviations import Deviation

SEEN_MAX = 10_000
"""Requests that are kept: three hours of one poller, at some 300 bytes each."""

BODY_KEPT_MAX = 4 * 1024
"""Bytes of a request's body that are kept: forty approvals."""

TARGET_KEPT_MAX = 512
"""Bytes of a path, and of a query."""

VALUE_KEPT_MAX = 256
"""Bytes of a header's value."""

HEADERS = (
    "metadata",
    "user-agent",
    "if-none-match",
    "x-forwarded-for",
    "content-type",
    "host",
)
"""The headers that are kept."""


class Seen(NamedTuple):
    """One request, and its answer."""

    number: int
    """Counted from 1; none is used twice, also after `clear`."""
    at: Micros
    """Model time."""
    vm: str
    """Also one that was deleted, whose address still answers. Empty: a stranger."""
    address: str
    request: Request
    """As far as it is kept. A connection that was refused has the method ""."""
    status: int
    """What the VM was answered; 0: nothing, or a reset."""
    genuine: int
    """What the endpoint answered; 0: it was not asked."""
    fault: str
    """The fault that was played, as one writes it; empty: none."""
    deviations: tuple[Deviation, ...]
    approved: tuple[str, ...]
    """The events that a POST names."""

    @property
    def method(self) -> str:
        """Return the verb."""
        return self.request.method

    @property
    def target(self) -> str:
        """Return path and query, as they were sent."""
        path, query = self.request.path, self.request.query
        return f"{path}?{query}" if query else path

    @property
    def headers(self) -> Mapping[str, tuple[str, ...]]:
        """Return the headers of interest."""
        return self.request.headers

    @property
    def body(self) -> bytes:
        """Return the body, as far as it is kept."""
        return self.request.body

    @property
    def took_effect(self) -> bool:
        """Tell whether an approval counts, whatever the VM was answered."""
        return bool(self.approved) and self.genuine == 200  # noqa: PLR2004

    def members(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {
            "number": self.number,
            "at": format_instant(self.at),
            "vm": self.vm,
            "address": self.address,
            "method": self.method,
            "target": self.target,
            "headers": {name: list(values) for name, values in self.headers.items()},
            "body": self.body.decode("utf-8", "replace"),
            "status": self.status,
            "genuine": self.genuine,
            "fault": self.fault,
            "approved": list(self.approved),
            "deviations": [
                {"rule": each.name, "clause": each.rule.clause, "sentence": str(each)}
                for each in self.deviations
            ],
        }

    def __str__(self) -> str:
        """Return the line for a person."""
        what = f"{self.method} {self.target}" if self.method else "a connection"
        status = self.status or "no answer"
        fault = f" ({self.fault})" if self.fault else ""
        return (
            f"{format_instant(self.at)} {self.vm or self.address}: "
            f"{what} -> {status}{fault}"
        )


class Journal:
    """What was seen, the oldest first. It is used on the stage's loop."""

    def __init__(self, *, most: int = SEEN_MAX) -> None:
        """Keep `most` requests."""
        self._seen: deque[Seen] = deque(maxlen=most)
        self.last = 0
        """The number of the newest: what comes later is since then."""
        self.dropped = 0
        """Requests that were seen and are kept no more."""
        self.on_seen: Callable[[Seen], None] | None = None
        """Told of each request: a live view, a profile that reports deviations."""

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._seen)

    def __iter__(self) -> Iterator[Seen]:
        """Yield all that is kept, the oldest first."""
        return iter(tuple(self._seen))

    def add(self, seen: Seen) -> None:
        """Keep one more; its number is the next."""
        self.dropped += len(self._seen) == self._seen.maxlen
        self._seen.append(seen)
        self.last = seen.number
        if self.on_seen is not None:
            self.on_seen(seen)

    def clear(self) -> None:
        """Forget what was seen; numbers go on."""
        self._seen.clear()
        self.dropped = 0

    def find(
        self,
        *,
        vm: str | None = None,
        method: str | None = None,
        event_id: str | None = None,
        since: int = 0,
        from_time: Micros | None = None,
        deviating: bool = False,
    ) -> list[Seen]:
        """Return what fits all that is given, the oldest first.

        `since` is a number: only later ones; `event_id` is that of an approval, in
        any case; with `deviating`, only what deviates.
        """
        wanted = None if event_id is None else event_id.upper()
        return [
            seen
            for seen in self._seen
            if seen.number > since
            and (vm is None or seen.vm == vm)
            and (method is None or seen.method == method)
            and (wanted is None or wanted in seen.approved)
            and (from_time is None or seen.at >= from_time)
            and (not deviating or seen.deviations)
        ]

    def approvals(
        self, event_id: str | None = None, *, vm: str | None = None, since: int = 0
    ) -> list[Seen]:
        """Return the approvals that count, the oldest first."""
        found = self.find(vm=vm, event_id=event_id, since=since)
        return [seen for seen in found if seen.took_effect]

    def deviations(
        self, *, vm: str | None = None, since: int = 0
    ) -> list[tuple[Seen, Deviation]]:
        """Return each deviation, with the request that it was in."""
        return [
            (seen, each)
            for seen in self.find(vm=vm, since=since, deviating=True)
            for each in seen.deviations
        ]


def kept(request: Request) -> Request:
    """Return a request as far as a journal keeps it."""
    return request._replace(
        path=request.path[:TARGET_KEPT_MAX],
        query=request.query[:TARGET_KEPT_MAX],
        headers={
            name: tuple(value[:VALUE_KEPT_MAX] for value in request.headers[name][:2])
            for name in HEADERS
            if name in request.headers
        },
        body=request.body[:BODY_KEPT_MAX],
    )
