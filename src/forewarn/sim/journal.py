"""The journal of a simulated server: its requests and answers, for assertions.

The journal is bounded: it drops the oldest request for the newest, and counts the dropped
ones. Requests are stored in part. Of a repeated poll, only the number and the time are
stored; the rest is added when the journal is read. Requests with deviations and approvals
that count are also stored separately and not dropped.
"""

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from http import HTTPStatus
from itertools import islice
from typing import NamedTuple

from forewarn.instants import SECOND, Micros, format_instant
from forewarn.metadata.http import Request
from forewarn.sim.deviations import Deviation

SEEN_MAX = 10_000
"""Maximum number of requests: three hours of one poller, at some 150 bytes each. A
request that is not repeated takes some 300 bytes."""

BODY_KEPT_MAX = 4 * 1024
"""Maximum stored bytes of a request body: forty approvals."""

TARGET_KEPT_MAX = 512
"""Maximum stored bytes of a path, and of a query."""

_EVENTS_PATH = "/scheduledevents"
"""A part of the path in every api-version, in lower case."""

_ANSWERED = frozenset({HTTPStatus.OK, HTTPStatus.NOT_MODIFIED})

VALUE_KEPT_MAX = 256
"""Maximum stored bytes of a header value."""

HEADERS = (
    "metadata",
    "user-agent",
    "if-none-match",
    "x-forwarded-for",
    "content-type",
    "host",
)
"""The stored headers."""


class JournalEntry(NamedTuple):
    """A request and its answer."""

    number: int
    """Counted from 1. A number is never reused, even after `clear`."""
    at: Micros
    """Model time."""
    vm: str
    """The VM, or a deleted VM whose address still answers. Empty: an unknown caller."""
    address: str
    request: Request
    """The stored part of the request. A refused connection has the method ""."""
    status: int
    """Status of the answer that the VM received; 0: none, or a reset."""
    genuine: int
    """Status of the endpoint's answer; 0: the request did not reach it."""
    fault: str
    """The applied fault in its syntax; empty: none."""
    deviations: tuple[Deviation, ...]
    approved: tuple[str, ...]
    """The events in a POST."""

    @property
    def method(self) -> str:
        """Return the method."""
        return self.request.method

    @property
    def target(self) -> str:
        """Return path and query as they were sent."""
        path, query = self.request.path, self.request.query
        return f"{path}?{query}" if query else path

    @property
    def headers(self) -> Mapping[str, tuple[str, ...]]:
        """Return the stored headers."""
        return self.request.headers

    @property
    def body(self) -> bytes:
        """Return the stored part of the body."""
        return self.request.body

    @property
    def took_effect(self) -> bool:
        """Return whether an approval counts, even if the VM got a faulty answer."""
        return bool(self.approved) and self.genuine == HTTPStatus.OK

    @property
    def is_answered_poll(self) -> bool:
        """Return whether a VM asked for its events and got an answer from the endpoint.

        Such a request enables events for a scope (7.1). A request for another resource,
        such as `/metadata/instance`, or a refused request does not.
        """
        return (
            bool(self.vm)
            and self.method == "GET"
            and _EVENTS_PATH in self.request.path.lower()
            and self.genuine in _ANSWERED
            and self.status in _ANSWERED
        )

    def members(self) -> dict[str, object]:
        """Return the request as JSON values."""
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
                {
                    "rule": deviation.name,
                    "clause": deviation.rule.clause,
                    "sentence": str(deviation),
                }
                for deviation in self.deviations
            ],
        }

    def __str__(self) -> str:
        """Return a line of text."""
        request_text = f"{self.method} {self.target}" if self.method else "a connection"
        status = self.status or "no answer"
        fault = f" ({self.fault})" if self.fault else ""
        return (
            f"{format_instant(self.at)} {self.vm or self.address}: "
            f"{request_text} -> {status}{fault}"
        )


class Repeated:
    """A request that is repeated: only its time changes."""

    __slots__ = ("_monotonic", "_now", "seen")

    def __init__(self, entry: JournalEntry, *, now: Micros, monotonic: float) -> None:
        """Store `seen` without number and time.

        `monotonic` is the I/O time of the instant `now`, for the conversion of later I/O
        times.
        """
        self.seen = entry
        self._now = now
        self._monotonic = monotonic

    def at(self, number: int, monotonic: float) -> JournalEntry:
        """Return the request that was received at an I/O time."""
        return self.seen._replace(
            number=number, at=self._now + round((monotonic - self._monotonic) * SECOND)
        )


EVIDENCE_MAX = 10_000
"""Maximum number of first requests that are kept, at some 500 bytes each. The first and
the latest request of each VM and rule are kept in addition."""


class Evidence:
    """Requests that must not be dropped, such as approvals.

    An assertion that something did not happen needs all requests. So the first requests
    are kept, and the latest of each kind. This is enough to decide for any time and kind
    whether it happened.
    """

    def __init__(self, *, requests_max: int = EVIDENCE_MAX) -> None:
        """Keep the first `requests_max` requests, and the first and latest of each kind."""
        self._requests_max = requests_max
        self._first: list[JournalEntry] = []
        self._latest: dict[Hashable, JournalEntry] = {}

    def add(self, entry: JournalEntry, kinds: Iterable[Hashable]) -> None:
        """Keep a request as the latest of its kinds, and permanently if possible."""
        entries_by_kind = dict.fromkeys(kinds, entry)
        if (
            len(self._first) < self._requests_max
            or entries_by_kind.keys() - self._latest.keys()
        ):
            self._first.append(entry)
        self._latest |= entries_by_kind

    def all(self) -> list[JournalEntry]:
        """Return the kept requests, the oldest first."""
        by_number = {
            entry.number: entry for entry in (*self._first, *self._latest.values())
        }
        return [by_number[number] for number in sorted(by_number)]


class Journal:
    """The requests, oldest first. Only the event loop of the server uses this
    object."""

    def __init__(self, *, requests_max: int = SEEN_MAX) -> None:
        """Keep up to `requests_max` requests."""
        self._seen: deque[JournalEntry | Repeated] = deque(maxlen=requests_max)
        """The numbers have no gaps, so the index determines the number."""
        self._times: deque[float] = deque(maxlen=requests_max)
        """The I/O time of a repeated request, at the same index. Two deques are faster than
        one deque of pairs: a repeated request creates only a number."""
        self._deviating = Evidence()
        self._approving = Evidence()
        self._latest: dict[str, tuple[JournalEntry | Repeated, int, float]] = {}
        """The last request of a VM: itself, or the request that it repeats and its time."""
        self._cleared = 0
        """The last number before the last `clear`."""
        self.last = 0
        """The number of the newest request."""
        self.on_seen: list[Callable[[JournalEntry], None]] = []
        """Called with each request except the repeated ones of `repeating`: for a live view,
        or for reports of deviations."""
        self.on_again: Callable[[], None] | None = None
        """Called for each repeated request, without the request."""

    def __len__(self) -> int:
        """Return the number of stored requests."""
        return len(self._seen)

    def __iter__(self) -> Iterator[JournalEntry]:
        """Yield the stored requests, the oldest first."""
        return iter(self.find())

    @property
    def dropped(self) -> int:
        """Return the number of requests that were dropped since the last `clear`."""
        return self.last - self._cleared - len(self._seen)

    @property
    def vms(self) -> Collection[str]:
        """Return the VMs that have sent a request."""
        return [vm for vm in self._latest if vm]

    def latest(self, vm: str) -> JournalEntry | None:
        """Return the last request of a VM, even if it was dropped."""
        if vm not in self._latest:
            return None
        entry, number, monotonic = self._latest[vm]
        return entry if isinstance(entry, JournalEntry) else entry.at(number, monotonic)

    def add(self, entry: JournalEntry) -> None:
        """Add a request, which must have the next number."""
        self._seen.append(entry)
        self._times.append(0.0)
        self._latest[entry.vm] = entry, entry.number, 0.0
        if entry.deviations:
            self._deviating.add(
                entry, ((entry.vm, deviation.name) for deviation in entry.deviations)
            )
        if entry.took_effect:
            self._approving.add(entry, [entry.vm])
        self.last = entry.number
        for listener in self.on_seen:
            listener(entry)

    def repeating(self, repeated: Repeated) -> Callable[[float], None]:
        """Return a function that notes a repeated request by its I/O time.

        It is used for a short time only: if the machine's clock is set, its times are
        those of the clock before.
        """
        latest, vm = self._latest, repeated.seen.vm
        keep, keep_time = self._seen.append, self._times.append

        def note(monotonic: float) -> None:
            keep(repeated)
            keep_time(monotonic)
            number = self.last = self.last + 1
            latest[vm] = repeated, number, monotonic
            if self.on_again is not None:
                self.on_again()

        return note

    def clear(self) -> None:
        """Remove all requests; numbers continue."""
        self._seen.clear()
        self._times.clear()
        self._deviating, self._approving = Evidence(), Evidence()
        self._cleared = self.last

    def find(
        self,
        *,
        vm: str | None = None,
        method: str | None = None,
        event_id: str | None = None,
        since: int = 0,
        from_time: Micros | None = None,
        deviating: bool = False,
    ) -> list[JournalEntry]:
        """Return the requests that match all criteria, the oldest first.

        `since` selects requests with greater numbers. `event_id` is the event of an
        approval, in any case. `deviating` selects requests with deviations, including
        dropped ones.
        """
        wanted = None if event_id is None else event_id.upper()
        if deviating:
            return [
                entry
                for entry in self._deviating.all()
                if (vm is None or entry.vm == vm)
                and (method is None or entry.method == method)
                and (wanted is None or wanted in entry.approved)
                and entry.number > since
                and (from_time is None or entry.at >= from_time)
            ]
        before = self.last - len(self._seen)
        skipped = max(0, since - before)
        rows = islice(zip(self._seen, self._times, strict=True), skipped, None)
        entries: list[JournalEntry] = []
        for number, (row, time) in enumerate(rows, before + skipped + 1):
            # Check the criteria first, so that no `JournalEntry` is created for other requests.
            kind = row if isinstance(row, JournalEntry) else row.seen
            if (
                (vm is None or kind.vm == vm)
                and (method is None or kind.method == method)
                and (wanted is None or wanted in kind.approved)
            ):
                entry = row if isinstance(row, JournalEntry) else row.at(number, time)
                if from_time is None or entry.at >= from_time:
                    entries.append(entry)
        return entries

    def approvals(
        self, event_id: str | None = None, *, vm: str | None = None, since: int = 0
    ) -> list[JournalEntry]:
        """Return the approvals that count, the oldest first, including dropped ones."""
        wanted = None if event_id is None else event_id.upper()
        return [
            entry
            for entry in self._approving.all()
            if (vm is None or entry.vm == vm)
            and (wanted is None or wanted in entry.approved)
            and entry.number > since
        ]

    def deviations(
        self, *, vm: str | None = None, since: int = 0
    ) -> list[tuple[JournalEntry, Deviation]]:
        """Return each deviation with its request."""
        return [
            (entry, deviation)
            for entry in self.find(vm=vm, since=since, deviating=True)
            for deviation in entry.deviations
        ]


def kept(request: Request) -> Request:
    """Return the part of a request that a journal stores."""
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
