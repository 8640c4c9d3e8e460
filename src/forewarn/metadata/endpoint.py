"""The core of the endpoint: published values and a request in, a response out.

It is synchronous, without sockets or a clock. If only control can decide, the result
is a question. The shell sends it to control and passes the reply back.
"""

import json
import logging
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from forewarn.fleet import instance
from forewarn.instants import Micros
from forewarn.metadata import answers, routes
from forewarn.metadata.cached_response import VALID_SECONDS, CachedResponse, Edition
from forewarn.metadata.http import TEXT_TYPE, Request, Response, build
from forewarn.metadata.identity import Caller, Directory, Source
from forewarn.metadata.limits import ALWAYS_READ_BYTES_MAX, BODY_BYTES_OF_REQUEST
from forewarn.metadata.prepared import Preparer, ServedView
from forewarn.metadata.ratelimit import Bucket, RateLimit
from forewarn.metadata.waiting import Wait, Waits
from forewarn.protocol import approvals
from forewarn.protocol.documents import render
from forewarn.protocol.errors import BadRequestError
from forewarn.protocol.own_events import OwnEvents
from forewarn.protocol.published import Publication
from forewarn.protocol.versions import ApiVersion
from forewarn.wording import vms

UNKNOWN_LOG_SECONDS = 60.0
"""Minimum seconds between log lines about unknown callers: these can be frequent."""

_DOCUMENT_STATUSES = frozenset({200, 304})

_BODY_HEADERS = frozenset(["content-length", "transfer-encoding", "expect"])
"""Headers of a request with a body, which may arrive after the bytes of the head."""

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
    """Enable the caller's view, then handle the request again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Handle the request again when the model time is `until` (clause 7.1)."""

    until: Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve:
    """Approve the events for `vm`, then pass the reply to `approved`."""

    vm: str
    event_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """Get the caller's facts, then pass them to `described`."""

    route: routes.InstanceRead


Question: TypeAlias = Enable | Hold | Approve | Describe | routes.OwnRead
Answer: TypeAlias = Response | Question | Wait

WAIT_HEADER = "Forewarn-Wait"
"""The response header to a request with `wait`: the maximum wait in seconds."""


class Counters:
    """Counters of responses, for the metrics."""

    __slots__ = ("by_status", "unknown_callers")

    def __init__(self) -> None:
        """Start at 0."""
        self.by_status = [0] * _STATUSES
        """Responses by status. The shell counts when it writes the bytes. It is a list
        because counting in a dictionary takes three times as long."""
        self.unknown_callers = 0
        """Number of requests of unknown callers."""

    @property
    def responses(self) -> dict[int, int]:
        """Return the number of responses by status, without statuses at 0."""
        return {status: n for status, n in enumerate(self.by_status) if n}


class Endpoint:
    """The published state for VMs, and the rules of the responses."""

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
        """Start without VMs; `rate_limit` is per second and VM, 0: unlimited.

        Until the endpoint is open, every caller gets 503, because the VMs and their
        documents are not published in full.

        Without `waits`, a request with `wait` gets its response at once. Without
        `own_events`, the path of event details does not exist. `preparer` creates the
        documents.
        """
        self._open_until = math.inf if is_open else -math.inf
        self._has_own_events = own_events
        self.waits = Waits() if waits is None else waits
        self.on_delays_ended: Callable[[Collection[Micros]], None] = lambda _ended: None
        """Called with the planned ends of first-response delays that are over (7.1)."""
        self.counters = Counters()
        self._edition = Edition()
        self.directory = Directory(secret=secret, edition=self._edition)
        self._limit = RateLimit(rate_limit)
        self._preparer = preparer or Preparer()
        self._views: dict[str, ServedView] = {}
        self._served = 0
        self._seen: dict[str, Micros] = {}
        self._unknown_logged = -math.inf

    def publish(self, publication: Publication) -> None:
        """Serve the committed state of control; repeated and old messages are safe."""
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

    def open(self, *, until: float = math.inf) -> None:
        """Respond to VMs from now on, because everything is published.

        From the I/O time `until` on, every caller gets 503 again, unless this is called
        before with a later time. A process that was stopped meanwhile thus serves no old
        document, although it could not close the endpoint.
        """
        self._open_until = until

    def close(self) -> None:
        """Respond with 503 from now on: the documents may be too old."""
        self._open_until = -math.inf
        self._edition.end()

    def is_open(self, monotonic: float) -> bool:
        """Return whether VMs get their documents at this I/O time."""
        return monotonic < self._open_until

    def shown(self, view_id: str, version: ApiVersion, *, now: Micros) -> bytes | None:
        """Return the document of a view as a VM would get it; None: it has none yet.

        It does not count as a request.
        """
        view = self._views.get(view_id)
        if view is None or view.document is None or view.ready_at > now:
            return None
        return render(view.document.incarnation, view.document.events, version)

    def count_documents(self) -> tuple[int, int]:
        """Return the number of enabled views, and of all views."""
        return self._served, len(self._views)

    def take_last_seen(self, *, now: Micros | None = None) -> dict[str, Micros]:
        """Return the last-seen times of views since the last call (7.1).

        With `now`, views with waiting requests count as seen now. Without it, they
        were seen at the beginning of the wait, and will be at its end.
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
        """Return the response to `request`, or the question for control.

        `again` means that the request was handled before and its question has a reply:
        it does not count against the rate limit twice.
        """
        if monotonic >= self._open_until:
            return answers.BUSY
        caller, signed = self.directory.identify(request, source)
        if caller is None or (
            signed and not again and not self.directory.takes(request)
        ):
            return self.refuse_unknown(source, monotonic=monotonic)
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
        """Return the question of an approval, or its refusal.

        The request counts against the rate limit by its size, before it is parsed.
        """
        size = len(request.body) + request.overhead
        cost = 1 + size // BODY_BYTES_OF_REQUEST
        if not again:
            if not self._limit.allows_cost(caller.bucket, monotonic, cost):
                return _too_many(request)
            if size > ALWAYS_READ_BYTES_MAX and not self._may_be_refused(
                caller, monotonic
            ):
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
        """Return the refusal of a request, or 429 after too many refusals.

        Refused requests have a separate rate limit. A faulty program in a VM therefore
        cannot use up the requests that the VM needs for its approval.
        """
        if caller.refused is None:
            caller.refused = Bucket()
        if again or self._limit.allows_cost(caller.refused, monotonic, cost):
            return refusal
        return _too_many(request)

    def route(self, request: Request, *, signed: bool) -> routes.Route | Response:
        """Return the route of `request`, or its error response."""
        longest = self.waits.longest_seconds
        return routes.route(
            request, signed=signed, longest_wait=longest, own=self._has_own_events
        )

    def repeatable(self, request: Request, source: Source) -> routes.Read | None:
        """Return the route with which `repeat` can respond to the same request again."""
        # The head of a request with a body is judged before the body, by the caller.
        has_body = not _BODY_HEADERS.isdisjoint(request.headers)
        if has_body or self.directory.is_signed(request, source):
            return None
        route = self.route(request, signed=False)
        return route if isinstance(route, routes.Read) else None

    def repeat(
        self, route: routes.Read, source: Source, *, now: Micros, monotonic: float
    ) -> Answer:
        """Return the result of `handle` for a request with this repeatable route."""
        if monotonic >= self._open_until:
            return answers.BUSY
        caller = self.directory.find(source)
        if caller is None:
            return self.refuse_unknown(source, monotonic=monotonic)
        if not self._limit.allows(caller.bucket, monotonic):
            return answers.TOO_MANY
        return self._read(route, caller, now=now)

    def cacheable(
        self,
        route: routes.Read,
        source: Source,
        answer: Response,
        *,
        now: Micros,
        monotonic: float,
    ) -> CachedResponse | None:
        """Return `answer` as a cached response, if `repeat` would give the same again.

        It would not if the response was the first one since an enabling, after which
        304 is allowed (1.10), or if the caller was refused. The passing of time changes
        nothing: a document that can be shown now (7.1) can be shown later.
        """
        if answer.status not in _DOCUMENT_STATUSES:
            # A refused request must not update the last-seen time.
            return None
        caller = self.directory.find(source)
        if caller is None or self._read(route, caller, now=now) is not answer:
            return None
        return CachedResponse(
            answer,
            edition=self._edition,
            limit=self._limit,
            bucket=caller.bucket,
            until=min(monotonic + VALID_SECONDS, self._open_until),
        )

    def refuse(
        self,
        refusal: Response,
        request: Request | None,
        source: Source,
        *,
        monotonic: float,
    ) -> Response:
        """Return `refusal`, or the response to an unknown caller.

        The request was not read in full. Without a head, only its address or its
        listener identifies the caller.
        """
        if self.identify(request, source) is None:
            return self.refuse_unknown(source, monotonic=monotonic)
        return refusal

    def identify(self, request: Request | None, source: Source) -> str | None:
        """Return the key of the calling VM; None: unknown caller."""
        caller, _ = self.directory.identify(request, source)
        return None if caller is None else caller.guest.vm

    def refuse_unknown(self, source: Source, *, monotonic: float) -> Response:
        """Return the response to an unknown caller, and log it at a limited rate."""
        if monotonic >= self._open_until:
            return answers.BUSY
        self.counters.unknown_callers += 1
        if monotonic - self._unknown_logged >= UNKNOWN_LOG_SECONDS:
            self._unknown_logged = monotonic
            logger.warning(
                "unknown caller %r got 404 (%d such requests so far): its address "
                "belongs to no VM of the fleet",
                source.vm or source.address,
                self.counters.unknown_callers,
            )
        # The connection of a metadata proxy has the requests of many VMs.
        is_proxy = self.directory.is_proxy(source)
        return answers.NOT_FOUND if is_proxy else answers.UNKNOWN_CALLER

    def judge_head(
        self, request: Request, source: Source, *, monotonic: float
    ) -> Response | None:
        """Return the refusal of a request whose body must not be read; None: read it.

        Bodies of unknown callers and of VMs above the rate limit are not read. If
        the client waits for a 100, any other error of the head is returned too.
        """
        caller, signed = self.directory.identify(request, source)
        if caller is None:
            # A metadata proxy forwards whole requests of many VMs.
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
        """Return the response to an approval; success keeps the view enabled (7.1)."""
        if refusal is not None:
            return answers.error(400, refusal)
        caller = self.directory.by_vm.get(vm)
        if caller is not None:
            self._seen[caller.guest.view_id] = now
        return answers.APPROVED

    def described(
        self, question: Describe, facts: instance.InstanceFacts | None
    ) -> Response:
        """Return the requested part of the caller's facts (1.11)."""
        if facts is None:
            return answers.NOT_FOUND
        route = question.route
        node = instance.find(
            instance.document(facts, version=route.version), route.path
        )
        if node is None:
            return answers.NOT_FOUND
        if not route.text:
            # As documented: the text of a leaf is not JSON and is not sent as JSON.
            if isinstance(node, str):
                return answers.LEAF_FORMAT
            return build(200, json.dumps(node, separators=(",", ":")).encode("ascii"))
        # As in Azure, a branch in text format is the list of its children.
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
        """Return the response with the header for requests with `wait`."""
        return answer.with_header(WAIT_HEADER, str(self.waits.longest_seconds))


def details(events: OwnEvents | None) -> Response:
    """Return the response with a VM's own events; None: the VM was deleted."""
    return answers.NOT_FOUND if events is None else build(200, vms.render(events))


def _too_many(request: Request) -> Response:
    """Return 429; it closes the connection if the request has a body."""
    return answers.TOO_MANY_CLOSE if request.body else answers.TOO_MANY
