"""Every request that a stage has seen, with what became of it: for assertions.

It is bounded: the oldest is dropped for the newest, and counted. What a request
brings is kept as far as it is of interest. Of one that a poller repeats, only its
number and its time are noted; the rest is put to them when somebody looks. What
deviates, and the approvals that count, are kept apart and not dropped.
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
"""Requests that are kept: three hours of one poller, at some 150 bytes each; one that
is not repeated takes some 300."""

BODY_KEPT_MAX = 4 * 1024
"""Bytes of a request's body that are kept: forty approvals."""

TARGET_KEPT_MAX = 512
"""Bytes of a path, and of a query."""

_EVENTS_PATH = "/scheduledevents"
"""Part of the path of every api-version, in lower case."""

_ANSWERED = frozenset({HTTPStatus.OK, HTTPStatus.NOT_MODIFIED})

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
        return bool(self.approved) and self.genuine == HTTPStatus.OK

    @property
    def is_answered_poll(self) -> bool:
        """Tell whether a VM asked for its events and got an answer from the endpoint.

        This is what enables events for a scope (7.1). A question to another resource,
        such as `/metadata/instance`, does not, and neither does one that is refused.
        """
        return (
            bool(self.vm)
            and self.method == "GET"
            and _EVENTS_PATH in self.request.path.lower()
            and self.genuine in _ANSWERED
            and self.status in _ANSWERED
        )

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


class Repeated:
    """A request that comes again and again, with nothing new but its time."""

    __slots__ = ("_monotonic", "_now", "seen")

    def __init__(self, seen: Seen, *, now: Micros, monotonic: float) -> None:
        """Be kept as `seen`, but for number and time; it is now `now`.

        `monotonic` is the I/O time of that instant: later ones are told by what has
        passed since.
        """
        self.seen = seen
        self._now = now
        self._monotonic = monotonic

    def at(self, number: int, monotonic: float) -> Seen:
        """Return the request that came at an I/O time, as one by itself."""
        passed = round((monotonic - self._monotonic) * SECOND)
        return self.seen._replace(number=number, at=self._now + passed)


EVIDENCE_MAX = 10_000
"""Requests of one kind of deed that are kept as the first ones, at some 500 bytes each.
Of each VM and rule one more may be, and the latest."""


class Evidence:
    """The requests that did something, which must not be forgotten.

    Who asserts that something was not done, such as a deviation or an approval, must
    know of all requests there were. So the first ones are kept, and of each kind the
    latest: enough to say for any time and kind whether it happened.
    """

    def __init__(self, *, most: int = EVIDENCE_MAX) -> None:
        """Keep the first `most`, and what is first or latest of its kind."""
        self._most = most
        self._first: list[Seen] = []
        self._latest: dict[Hashable, Seen] = {}

    def add(self, seen: Seen, kinds: Iterable[Hashable]) -> None:
        """Keep a request as the latest of its kinds, and if there is room for ever."""
        found = dict.fromkeys(kinds, seen)
        if len(self._first) < self._most or found.keys() - self._latest.keys():
            self._first.append(seen)
        self._latest |= found

    def all(self) -> list[Seen]:
        """Return what is kept, the oldest first."""
        found = {seen.number: seen for seen in (*self._first, *self._latest.values())}
        return [found[number] for number in sorted(found)]


class Journal:
    """What was seen, the oldest first. It is used on the stage's loop."""

    def __init__(self, *, most: int = SEEN_MAX) -> None:
        """Keep `most` requests."""
        self._seen: deque[Seen | Repeated] = deque(maxlen=most)
        """Their numbers have no gaps, so they are told by the place."""
        self._times: deque[float] = deque(maxlen=most)
        """At the same place, the I/O time when what is repeated came again. Two rows
        cost less than one of pairs: nothing is made for a request but a number."""
        self._deviating = Evidence()
        self._approving = Evidence()
        self._latest: dict[str, tuple[Seen | Repeated, int, float]] = {}
        """The last request of a VM: as one by itself, or what it repeats, and when."""
        self._cleared = 0
        """The number of the newest that was forgotten by order."""
        self.last = 0
        """The number of the newest: what comes later is since then."""
        self.on_seen: list[Callable[[Seen], None]] = []
        """Told of each request in which there may be news, that is of all but those
        which `repeating` notes: a live view, a profile that reports deviations."""
        self.on_again: Callable[[], None] | None = None
        """Told that one came of which `on_seen` is not told: who counts requests."""

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._seen)

    def __iter__(self) -> Iterator[Seen]:
        """Yield all that is kept, the oldest first."""
        return iter(self.find())

    @property
    def dropped(self) -> int:
        """Return how many were seen since the last `clear` and are kept no more."""
        return self.last - self._cleared - len(self._seen)

    @property
    def vms(self) -> Collection[str]:
        """Return the VMs that have sent anything."""
        return [vm for vm in self._latest if vm]

    def latest(self, vm: str) -> Seen | None:
        """Return the last request of a VM, also if it is kept no more."""
        if vm not in self._latest:
            return None
        seen, number, monotonic = self._latest[vm]
        return seen if isinstance(seen, Seen) else seen.at(number, monotonic)

    def add(self, seen: Seen) -> None:
        """Keep one more; its number is the next."""
        self._seen.append(seen)
        self._times.append(0.0)
        self._latest[seen.vm] = seen, seen.number, 0.0
        if seen.deviations:
            self._deviating.add(
                seen, ((seen.vm, each.name) for each in seen.deviations)
            )
        if seen.took_effect:
            self._approving.add(seen, [seen.vm])
        self.last = seen.number
        for told in self.on_seen:
            told(seen)

    def repeating(self, repeated: Repeated) -> Callable[[float], None]:
        """Return what notes, with its I/O time, that a request came again.

        It is used for a while only: if the machine's clock is set meanwhile, these
        are told by the clock as it was.
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
        """Forget what was seen; numbers go on."""
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
    ) -> list[Seen]:
        """Return what fits all that is given, the oldest first.

        `since` is a number: only later ones; `event_id` is that of an approval, in
        any case; with `deviating`, only what deviates, also what is dropped.
        """
        wanted = None if event_id is None else event_id.upper()
        if deviating:
            return [
                seen
                for seen in self._deviating.all()
                if (vm is None or seen.vm == vm)
                and (method is None or seen.method == method)
                and (wanted is None or wanted in seen.approved)
                and seen.number > since
                and (from_time is None or seen.at >= from_time)
            ]
        before = self.last - len(self._seen)
        skipped = max(0, since - before)
        rows = islice(zip(self._seen, self._times, strict=True), skipped, None)
        found: list[Seen] = []
        for number, (each, time) in enumerate(rows, before + skipped + 1):
            # Thousands of repetitions are not made whole only to be left out.
            kind = each if isinstance(each, Seen) else each.seen
            if (
                (vm is None or kind.vm == vm)
                and (method is None or kind.method == method)
                and (wanted is None or wanted in kind.approved)
            ):
                seen = each if isinstance(each, Seen) else each.at(number, time)
                if from_time is None or seen.at >= from_time:
                    found.append(seen)
        return found

    def approvals(
        self, event_id: str | None = None, *, vm: str | None = None, since: int = 0
    ) -> list[Seen]:
        """Return the approvals that count, the oldest first, also dropped ones."""
        wanted = None if event_id is None else event_id.upper()
        return [
            seen
            for seen in self._approving.all()
            if (vm is None or seen.vm == vm)
            and (wanted is None or wanted in seen.approved)
            and seen.number > since
        ]

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
