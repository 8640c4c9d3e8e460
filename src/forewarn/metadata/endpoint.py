"""The endpoint's core: published values and a request in, an answer out.

Synchronous, without sockets or a clock. What only control can decide comes back
as a question; the shell asks it and brings the reply.
"""

import json
import logging
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from forewarn.control.transactions.messages import Publication
from forewarn.fleet import instance
from forewarn.fleet.instance import InstanceFacts
from forewarn.instants import Micros
from forewarn.metadata import answers, routes
from forewarn.metadata.cached_response import CachedResponse, Edition
from forewarn.metadata.http import TEXT_TYPE, Request, Response, build
from forewarn.metadata.identity import Caller, Directory, Source
from forewarn.metadata.limits import BODY_BYTES_OF_REQUEST, SPARED_BYTES_MAX
from forewarn.metadata.own_events import OwnRead
from forewarn.metadata.prepared import Preparer, ServedView
from forewarn.metadata.ratelimit import Bucket, RateLimit
from forewarn.metadata.waiting import Wait, Waits
from forewarn.protocol import approvals
from forewarn.protocol.errors import BadRequestError

STRANGER_LOG_SECONDS = 60.0
"""Between two log lines about unknown callers: one may ask thousands of times."""

_DOCUMENT_STATUSES = frozenset({200, 304})

_BODY_HEADERS = frozenset(["content-length", "transfer-encoding", "expect"])
"""Headers of a request whose body comes later, or not as part of the same bytes."""

_STATUSES = 600
"""One more than the greatest status of HTTP."""

logger = logging.getLogger("forewarn.metadata")

_VERSION_LIST = build(
    200,
    json.dumps(
        {"apiVersions": list(instance.VERSIONS)}, separators=(",", ":")
    ).encode(),
)


@dataclass(frozen=True, slots=True)
class Enable:
    """Have the caller's view enabled, then handle the request again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Handle the request again when the model time is `until` (clause 7.1)."""

    until: Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve:
    """Have the events approved for `vm`, then give the reply to `approved`."""

    vm: str
    event_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """Get the caller's facts, then give them to `described`."""

    route: routes.InstanceRead


Question: TypeAlias = Enable | Hold | Approve | Describe | OwnRead
Answer: TypeAlias = Response | Question | Wait

WAIT_HEADER = "Forewarn-Wait"
"""Tells who asked with `wait` that it is understood, and the longest in seconds."""


class Counters:
    """What was answered, for the metrics."""

    __slots__ = ("by_status", "unknown_callers")

    def __init__(self) -> None:
        """Begin at nothing."""
        self.by_status = [0] * _STATUSES
        """Counted by the shell when the bytes are written: a list, since counting in
        it takes a third of the time that a dictionary does."""
        self.unknown_callers = 0
        """Requests of callers that are no VM."""

    @property
    def responses(self) -> dict[int, int]:
        """Return how often each status was given, without those that never were."""
        return {status: n for status, n in enumerate(self.by_status) if n}


class Endpoint:
    """Everything that VMs may be told, and the rules for telling it."""

    def __init__(
        self,
        *,
        rate_limit: float = 0,
        secret: bytes = b"",
        waits: Waits | None = None,
        own_events: bool = False,
        preparer: Preparer | None = None,
        is_open: bool = True,
    ) -> None:
        """Begin with no VM; `rate_limit` is a second and VM, 0 is none.

        Until it is open every caller is told to ask again, VM or not: who is a VM,
        and what it may be shown, is not known in full.

        Without `waits`, a VM that asks to wait for a change is answered at once;
        without `own_events`, nobody may ask for those. `preparer` makes documents
        of what is published.
        """
        self._is_open = is_open
        self._has_own_events = own_events
        self.waits = Waits() if waits is None else waits
        self.on_delays_ended: Callable[[Collection[Micros]], None] = lambda _ended: None
        """Called with the planned ends of first-answer delays that are over (7.1)."""
        self.counters = Counters()
        self._edition = Edition()
        self.directory = Directory(secret=secret, edition=self._edition)
        self._limit = RateLimit(rate_limit)
        self._preparer = preparer or Preparer()
        self._views: dict[str, ServedView] = {}
        self._served = 0
        self._seen: dict[str, Micros] = {}
        self._stranger_logged = -math.inf

    def publish(self, publication: Publication) -> None:
        """Serve what control has committed; repeats and old news do no harm."""
        self._edition.end()
        ended: set[Micros] = set()
        for view_id in publication.views_gone:
            gone = self._views.pop(view_id, None)
            self._served -= gone is not None and gone.enabled
            self._seen.pop(view_id, None)
            self.waits.call_view(view_id)
        for snapshot in publication.views:
            view = self._views.get(snapshot.view_id)
            if view is None:
                view = self._views[snapshot.view_id] = ServedView(snapshot.view_id)
            if view.is_older_than(snapshot):
                if snapshot.ready_at < view.ready_at:
                    ended.add(view.ready_at)
                self._served -= view.enabled
                view.take(snapshot, preparer=self._preparer)
                self._served += view.enabled
                self.waits.call_view(snapshot.view_id)
        for vm in publication.guests_gone:
            self.directory.drop(vm)
            self.waits.call_vm(vm)
        if self.waits:
            for vm in self.directory.concerned(publication.guests):
                self.waits.call_vm(vm)
        self.directory.put(publication.guests)
        if ended:
            self.on_delays_ended(ended)

    def open(self) -> None:
        """Answer from now on: everything is published."""
        self._is_open = True

    def count_documents(self) -> tuple[int, int]:
        """Return how many lists of events are served, and how many there are."""
        return self._served, len(self._views)

    def take_last_seen(self, *, now: Micros | None = None) -> dict[str, Micros]:
        """Return when each view was last asked for since the last call (7.1).

        With `now`, those that somebody waits for are being asked for now; without,
        they were when the wait began, and will be when it ends.
        """
        if now is not None:
            self._seen.update(dict.fromkeys(self.waits.views, now))
        self._edition.end()
        seen, self._seen = self._seen, {}
        return seen

    def handle(
        self,
        request: Request,
        source: Source,
        *,
        now: Micros,
        monotonic: float,
        again: bool = False,
    ) -> Answer:
        """Return the answer to `request`, or what control must be asked first.

        `again` says that it was handled before and its question is settled: it
        does not count against the rate limit twice.
        """
        if not self._is_open:
            return answers.BUSY
        caller, signed = self.directory.identify(request, source)
        if caller is None:
            return self.meet_stranger(source, monotonic=monotonic)
        route = self.route(request, signed=signed)
        if isinstance(route, Response):
            return self._refused(route, request, caller, monotonic, cost=1, again=again)
        if isinstance(route, routes.Approval):
            return self._approval(request, caller, monotonic, again=again)
        if not again and not self._limit.allows(caller.bucket, monotonic):
            return _too_many(request)
        if isinstance(route, routes.Read):
            return self._read(route, caller, now=now)
        if isinstance(route, routes.InstanceRead):
            return Describe(route=route)
        return _VERSION_LIST if isinstance(route, routes.VersionList) else route

    def _approval(
        self, request: Request, caller: Caller, monotonic: float, *, again: bool
    ) -> Approve | Response:
        """Return the question that an approval is, or why it is none.

        It is charged by its bytes before it is parsed.
        """
        size = len(request.body) + request.overhead
        cost = 1 + size // BODY_BYTES_OF_REQUEST
        if not again:
            if not self._limit.allows_cost(caller.bucket, monotonic, cost):
                return _too_many(request)
            if size > SPARED_BYTES_MAX and not self._may_be_refused(caller, monotonic):
                return _too_many(request)
        try:
            event_ids = approvals.parse_start_requests(request.body)
        except BadRequestError as error:
            if not again:
                self._limit.give_back(caller.bucket, cost)
            refusal = answers.error(400, error.message)
            return self._refused(
                refusal, request, caller, monotonic, cost=cost, again=again
            )
        return Approve(vm=caller.guest.vm, event_ids=event_ids)

    def _may_be_refused(self, caller: Caller, monotonic: float) -> bool:
        return caller.refused is None or self._limit.has(caller.refused, monotonic)

    def _refused(
        self,
        refusal: Response,
        request: Request,
        caller: Caller,
        monotonic: float,
        *,
        cost: float,
        again: bool,
    ) -> Response:
        """Return the refusal of a request, unless the VM has had too many.

        Refused requests have a limit of their own, so that a faulty program in a VM
        cannot use up what the VM needs for its approval.
        """
        if caller.refused is None:
            caller.refused = Bucket()
        if again or self._limit.allows_cost(caller.refused, monotonic, cost):
            return refusal
        return _too_many(request)

    def route(self, request: Request, *, signed: bool) -> routes.Route | Response:
        """Return what `request` asks for here, or the error that it deserves."""
        longest = self.waits.longest_seconds
        return routes.route(
            request, signed=signed, longest_wait=longest, own=self._has_own_events
        )

    def repeatable(self, request: Request, source: Source) -> routes.Read | None:
        """Return the route by which `repeat` may answer the same request again."""
        # A head before a body is judged before the body comes, by who asks.
        has_body = not _BODY_HEADERS.isdisjoint(request.headers)
        if has_body or self.directory.is_signed(request, source):
            return None
        route = self.route(request, signed=False)
        return route if isinstance(route, routes.Read) else None

    def repeat(
        self, route: routes.Read, source: Source, *, now: Micros, monotonic: float
    ) -> Answer:
        """Return what `handle` would for a request with this repeatable route."""
        if not self._is_open:
            return answers.BUSY
        caller = self.directory.find(source)
        if caller is None:
            return self.meet_stranger(source, monotonic=monotonic)
        if not self._limit.allows(caller.bucket, monotonic):
            return answers.TOO_MANY
        return self._read(route, caller, now=now)

    def standing(
        self,
        route: routes.Read,
        source: Source,
        answer: Response,
        *,
        now: Micros,
        monotonic: float,
    ) -> CachedResponse | None:
        """Return what `repeat` has just answered, if it would answer the same again.

        It would not where that answer was the first since an enabling, after which
        304 is allowed (1.10), nor where the caller was refused. Time alone changes
        nothing: a document that may be shown by now (7.1) may be shown later.
        """
        if answer.status not in _DOCUMENT_STATUSES:
            # A request that was refused is no sighting, so it must not be read.
            return None
        caller = self.directory.find(source)
        if caller is None or self._read(route, caller, now=now) is not answer:
            return None
        return CachedResponse(
            answer,
            edition=self._edition,
            limit=self._limit,
            bucket=caller.bucket,
            monotonic=monotonic,
        )

    def refuse(
        self,
        refusal: Response,
        request: Request | None,
        source: Source,
        *,
        monotonic: float,
    ) -> Response:
        """Return `refusal` of a request that was not read in full, or the stranger's.

        Without even a head, its address or its listener alone tells who asks.
        """
        if self.identify(request, source) is None:
            return self.meet_stranger(source, monotonic=monotonic)
        return refusal

    def identify(self, request: Request | None, source: Source) -> str | None:
        """Return the key of the VM that asks, for a question about it."""
        caller, _ = self.directory.identify(request, source)
        return None if caller is None else caller.guest.vm

    def meet_stranger(self, source: Source, *, monotonic: float) -> Response:
        """Return what somebody unknown is told; the log hears it now and then."""
        if not self._is_open:
            return answers.BUSY
        self.counters.unknown_callers += 1
        if monotonic - self._stranger_logged >= STRANGER_LOG_SECONDS:
            self._stranger_logged = monotonic
            logger.warning(
                "a request from %r is of no known VM and got 404; %d such so far. "
                "Is its address in the fleet?",
                source.vm or source.address,
                self.counters.unknown_callers,
            )
        # The connection of a metadata proxy carries the requests of many VMs.
        is_proxy = self.directory.is_proxy(source)
        return answers.NOT_FOUND if is_proxy else answers.UNKNOWN_CALLER

    def judge_head(
        self, request: Request, source: Source, *, monotonic: float
    ) -> Response | None:
        """Return why the body after a head is not read; None: read it.

        Bodies of unknown callers and of VMs that ask too often are not kept. Where
        the client waits for a 100, any other fault of the head is told too.
        """
        caller, signed = self.directory.identify(request, source)
        if caller is None:
            # A metadata proxy forwards the requests of many VMs, in whole.
            is_read = self.directory.is_proxy(source) and not request.values("expect")
            return None if is_read else answers.NOT_FOUND
        route = self.route(request, signed=signed)
        expects = request.values("expect") and not request.http10
        if isinstance(route, Response) and expects:
            return route
        bucket = caller.refused if isinstance(route, Response) else caller.bucket
        if bucket is None or self._limit.has(bucket, monotonic):
            return None
        return answers.TOO_MANY_CLOSE

    def approved(self, vm: str, refusal: str | None, *, now: Micros) -> Response:
        """Return the answer to an approval; an accepted one keeps enabled (7.1)."""
        if refusal is not None:
            return answers.error(400, refusal)
        caller = self.directory.by_vm.get(vm)
        if caller is not None:
            self._seen[caller.guest.view_id] = now
        return answers.APPROVED

    def described(self, question: Describe, facts: InstanceFacts | None) -> Response:
        """Return the part of the caller's own facts that it asked for (1.11)."""
        if facts is None:
            return answers.NOT_FOUND
        route = question.route
        tree = instance.document(facts, version=route.version)
        node = instance.find(tree, route.path)
        if node is None:
            return answers.NOT_FOUND
        if not route.text:
            # As documented: a leaf's bare text is no JSON, and is not given as such.
            if isinstance(node, str):
                return answers.LEAF_FORMAT
            return build(200, json.dumps(node, separators=(",", ":")).encode("ascii"))
        # A branch in text is the list of what is below it, as the real one gives.
        text = node if isinstance(node, str) else instance.listing(node)
        return build(200, text.encode("utf-8", "replace"), content_type=TEXT_TYPE)

    def _read(self, route: routes.Read, caller: Caller, *, now: Micros) -> Answer:
        view = self._views.get(caller.guest.view_id)
        if view is None or view.document is None:
            return Enable()
        if view.ready_at > now:
            return Hold(until=view.ready_at)
        self._seen[view.view_id] = now
        document = view.document
        if route.tags and document.tag in route.tags and caller.greeted == view.epoch:
            if route.wait is None:
                return document.not_modified
            otherwise = self._waited(document.not_modified)
            if not route.wait:
                return otherwise
            return Wait(
                vm=caller.guest.vm,
                view_id=view.view_id,
                seconds=route.wait,
                otherwise=otherwise,
            )
        caller.greeted = view.epoch
        view.used |= 1 << route.version.order
        answer = document.answer(route.version)
        return answer if route.wait is None else self._waited(answer)

    def _waited(self, answer: Response) -> Response:
        """Return the answer as it is told to who asked with `wait`."""
        return answer.with_header(WAIT_HEADER, str(self.waits.longest_seconds))


def _too_many(request: Request) -> Response:
    """Return 429; after a body it closes, as where the body was not even read."""
    return answers.TOO_MANY_CLOSE if request.body else answers.TOO_MANY
