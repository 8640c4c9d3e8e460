"""Streams of what changes, as server-sent events.

A stream begins with what is (each object one `data:` of one JSON document), then
`event: ready`, then each object that changed, as it is when it is sent. An object
may be sent twice, and a change that another soon follows may not be seen. A
watcher who is too slow gets `event: reset` and everything again. What waits for a
watcher is bounded, since only the ids of what changed wait.
"""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from forewarn.admin import errors, limits, selection
from forewarn.admin.access import caller_of
from forewarn.admin.answers import ANY_ERROR
from forewarn.admin.context import Desk
from forewarn.admin.lists import EventFilters, OperationFilters, checked
from forewarn.admin.selection import Scopes, Wanted
from forewarn.control.gateway import OperatorGateway
from forewarn.control.redaction import tenant_reader
from forewarn.control.transactions.event_json import event_report
from forewarn.instants import Micros
from forewarn.protocol.blockers import AnyBlocker, NotDue, NoticeRuns
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.operations import Operation
from forewarn.reporting import reports
from forewarn.store.port import Reader

router = APIRouter(tags=["streams"])

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events: `data` is one object as in the list; "
        "`event: ready` follows the objects that are there at the beginning.",
        "content": {"text/event-stream": {}},
    },
    **ANY_ERROR,
}

_CHANGE_WITH_TIME = (NotDue, NoticeRuns)
"""Reasons that look otherwise at each moment although nothing has happened."""


class News(NamedTuple):
    """An object as it is sent, and the reasons that hold it."""

    body: dict[str, Any]
    blockers: tuple[AnyBlocker, ...] = ()


Page = tuple[list[News], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a stream is about: how a page is read, and what changed."""

    page: Callable[[Reader, Wanted, str, Micros], Page]
    changed: Callable[[Reader, Wanted, Operation, Micros], list[News]]


class Watchers:
    """How many streams are open: of each tenant, and of operators."""

    def __init__(self) -> None:
        """Begin with none."""
        self._counts: Counter[str] = Counter()
        """By tenant; operators have no name here."""

    @property
    def count(self) -> int:
        """Return how many there are."""
        return self._counts.total()

    def enter(self, tenant: str) -> None:
        """Count one more."""
        self._counts[tenant] += 1

    def leave(self, tenant: str) -> None:
        """Count one less."""
        self._counts[tenant] -= 1
        if not self._counts[tenant]:
            del self._counts[tenant]

    def refusal(self, tenant: str) -> Response | None:
        """Return the answer to whom no further stream can be served, if so.

        A tenant is told of its own streams alone.
        """
        if tenant:
            return self._refusal_of_tenant(tenant)
        if self._counts[""] < limits.WATCHERS_MAX:
            return None
        return errors.problem(
            errors.Kind.UNAVAILABLE,
            f"{limits.WATCHERS_MAX} watchers of operators are served already",
            hint="close another one, or ask now and then instead of watching",
        )

    def _refusal_of_tenant(self, tenant: str) -> Response | None:
        if self._counts[tenant] >= limits.TENANT_WATCHERS_MAX:
            return errors.of_error(
                errors.TooManyError(
                    f"{limits.TENANT_WATCHERS_MAX} streams of tenant {tenant} are "
                    "open, and it may have no more",
                    hint="close another one, or ask now and then instead of watching",
                    retry_seconds=limits.RETRY_SECONDS,
                )
            )
        if self.count - self._counts[""] < limits.ALL_TENANTS_WATCHERS_MAX:
            return None
        return errors.problem(
            errors.Kind.UNAVAILABLE,
            "no further stream can be served now",
            hint="ask now and then instead of watching, or try again later",
        )


class _Counted(StreamingResponse):
    """A stream that counts from its answer's making, before its first text is read.

    Else many that come at once would all be let in before the first is counted.
    """

    def __init__(
        self,
        watchers: Watchers,
        tenant: str,
        texts: AsyncGenerator[str, None],
        **rest: Any,
    ) -> None:
        super().__init__(texts, **rest)
        self._watchers = watchers
        self._tenant = tenant
        watchers.enter(tenant)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._watchers.leave(self._tenant)


class Changes:
    """What has changed since its reader last looked; at most so many ids."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.is_over = False
        self._ids: dict[str, None] = {}
        self._anew = False
        self._wake = asyncio.Event()

    async def follow(self, feed: AsyncIterator[tuple[str, ...]]) -> None:
        """Take over what the feed tells, until it ends."""
        try:
            async for ids in feed:
                self._ids.update(dict.fromkeys(ids))
                if not ids or len(self._ids) > limits.PENDING_IDS_MAX:
                    self._ids.clear()
                    self._anew = True
                self._wake.set()
        finally:
            self.is_over = True
            self._wake.set()

    async def take(self, *, seconds: float) -> tuple[str, ...] | None:
        """Wait for changes, but not for long; None: everything must be read anew."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        if not self.is_over:
            self._wake.clear()
        ids, anew = tuple(self._ids), self._anew
        self._ids.clear()
        self._anew = False
        return None if anew else ids


class Told:
    """What a watcher was told last of each object that is under way."""

    def __init__(self, *, repeats: bool) -> None:
        """Remember nothing; with `repeats`, nothing ever."""
        self._repeats = repeats
        self._last: dict[str, tuple[str, tuple[AnyBlocker, ...]]] = {}

    def forget(self) -> None:
        """Begin anew."""
        self._last.clear()

    def is_news(self, news: News) -> bool:
        """Tell whether the object looks otherwise than it did, time aside."""
        if self._repeats:
            return True
        body = news.body
        key = str(body.get("EventId") or body["operation"])
        blockers = tuple(
            each for each in news.blockers if not isinstance(each, _CHANGE_WITH_TIME)
        )
        looks = json.dumps({**body, "blocked_by": []}), blockers
        is_same = self._last.get(key) == looks
        self._last[key] = looks
        if body.get("removed") or body.get("ended"):
            del self._last[key]
        return not is_same


@router.get("/watch/operations", response_class=Response, responses=_STREAM)
async def watch_operations(
    query: Annotated[OperationFilters, Query()], gateway: Desk, request: Request
) -> Response:
    """Stream operations: the open ones, then each that changes."""
    wanted = await gateway.read(lambda reader: checked(reader, query))
    return _begin(request, gateway, wanted, OPERATIONS)


@router.get("/watch/events", response_class=Response, responses=_STREAM)
async def watch_events(
    query: Annotated[EventFilters, Query()], gateway: Desk, request: Request
) -> Response:
    """Stream events: the live ones, then each that changes; last it is Removed."""
    wanted = await gateway.read(lambda reader: checked(reader, query))
    return _begin(request, gateway, wanted, EVENTS)


def _begin(
    request: Request, gateway: OperatorGateway, wanted: Wanted, subject: Subject
) -> Response:
    watchers: Watchers = request.app.state.watchers
    tenant = caller_of(request).tenant
    refusal = watchers.refusal(tenant)
    if refusal is not None:
        return refusal
    texts = stream(gateway, wanted, subject, repeats=not tenant)
    return counted(watchers, texts, tenant=tenant)


def counted(
    watchers: Watchers, texts: AsyncGenerator[str, None], *, tenant: str = ""
) -> StreamingResponse:
    """Return the answer that sends `texts`, and counts from now on."""
    return _Counted(
        watchers,
        tenant,
        texts,
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def stream(
    gateway: OperatorGateway, wanted: Wanted, subject: Subject, *, repeats: bool = True
) -> AsyncGenerator[str, None]:
    """Yield the text of one watcher's stream, until it or the service ends.

    Without `repeats` an object is not told again that looks as it did: to be told
    so would show a tenant that others have done something.
    """
    told = Told(repeats=repeats)
    changes = Changes()
    feed = asyncio.create_task(changes.follow(gateway.changes()))
    try:
        # The feed, and what it may be read through, must be listening before
        # anything is read.
        for _ in range(2):
            await asyncio.sleep(0)
        async for text in _texts(gateway, wanted, subject, changes, told):
            yield text
        # It may have ended because who watches may no longer.
        await gateway.read(lambda _reader: None)
    except ForewarnError as error:
        is_out = isinstance(error, errors.UnauthorizedError)
        kind = errors.Kind.UNAUTHORIZED if is_out else errors.Kind.UNAVAILABLE
        body = {"error": error.message, "hint": error.hint, "kind": kind.word}
        yield _event(body, name="error")
    finally:
        feed.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await feed


async def _texts(
    gateway: OperatorGateway,
    wanted: Wanted,
    subject: Subject,
    changes: Changes,
    told: "Told",
) -> AsyncIterator[str]:
    async for text in _everything(gateway, wanted, subject, told):
        yield text
    while not changes.is_over:
        ids = await changes.take(seconds=limits.KEEP_ALIVE_SECONDS)
        if ids is None:
            yield _event({}, name="reset")
            async for text in _everything(gateway, wanted, subject, told):
                yield text
        elif not ids and not changes.is_over:
            yield ": still here\n\n"
        for start in range(0, len(ids or ()), limits.PAGE_OBJECTS):
            some = (ids or ())[start : start + limits.PAGE_OBJECTS]
            for news in await gateway.read(
                lambda reader, some=some: _changed(
                    reader, wanted, subject, some, gateway
                )
            ):
                if told.is_news(news):
                    yield _event(news.body)


async def _everything(
    gateway: OperatorGateway, wanted: Wanted, subject: Subject, told: "Told"
) -> AsyncIterator[str]:
    told.forget()
    after = ""
    while True:
        page, after = await gateway.read(
            lambda reader, after=after: subject.page(
                reader, wanted, after, gateway.now()
            )
        )
        for news in page:
            told.is_news(news)
            yield _event(news.body)
        if not after:
            break
    yield _event({}, name="ready")


def _changed(
    reader: Reader,
    wanted: Wanted,
    subject: Subject,
    ids: tuple[str, ...],
    gateway: OperatorGateway,
) -> list[News]:
    scopes = Scopes(reader, {})
    found: list[News] = []
    for operation_id in ids:
        operation = reader.get(Operation, operation_id)
        if operation is not None and selection.is_wanted(operation, wanted, scopes):
            found += subject.changed(reader, wanted, operation, gateway.now())
    return found


def _event(body: dict[str, Any], *, name: str = "") -> str:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(body, separators=(',', ':'))}\n\n"


def _operation_page(reader: Reader, wanted: Wanted, after: str, now: Micros) -> Page:
    found, following = selection.operations(
        reader, wanted, after=after, limit=limits.PAGE_OBJECTS
    )
    return [_of_operation(reader, each, now) for each in found], following


def _of_operation(reader: Reader, operation: Operation, now: Micros) -> News:
    blockers = tenant_reader.blockers(reader, operation, now=now)
    return News(reports.operation_body(reader, operation, blockers), blockers)


def _event_page(reader: Reader, wanted: Wanted, after: str, _now: Micros) -> Page:
    found, following = selection.events(
        reader, wanted, after=after, limit=limits.PAGE_OBJECTS
    )
    return [News(event_report(event)) for event in found], following


def _changed_events(
    reader: Reader, wanted: Wanted, operation: Operation, _now: Micros
) -> list[News]:
    # Who watches must be told of the end too.
    also_ended = replace(wanted, ended=True)
    return [
        News(event_report(event))
        for event in selection.events_of(reader, operation, also_ended)
    ]


OPERATIONS = Subject(
    page=_operation_page,
    changed=lambda reader, _wanted, operation, now: [
        _of_operation(reader, operation, now)
    ],
)
EVENTS = Subject(page=_event_page, changed=_changed_events)
