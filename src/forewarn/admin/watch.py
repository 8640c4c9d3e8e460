"""The stream of changes, as server-sent events.

A stream begins with the current objects of its topics, then `event: ready`, then each
object that changes, in its state when it is sent. An object may be sent twice, and a
change that another soon follows may be left out. Each message has an `id`. A viewer
that reconnects with it as `Last-Event-ID` continues after that message. A viewer that
was away or slow for too long gets `event: reset`, and everything again.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Header, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from forewarn.admin import error_responses, errors, limits
from forewarn.admin.access import SESSION, TOPIC_DEMANDS, Caller, Demand, check
from forewarn.admin.answers import ANY_ERROR
from forewarn.admin.context import RouteGateway, caller_of, v1_router
from forewarn.admin.hub import BEGINNING, Hub, message
from forewarn.admin.hubs import Hubs
from forewarn.admin.lists import Filters, checked
from forewarn.admin.selection import Wanted
from forewarn.admin.topics import TOPICS
from forewarn.admin.upcoming import NAME_TENANT, UNNAMED_TENANT
from forewarn.admin.viewer_rights import NO_CREDENTIAL, Credential
from forewarn.protocol.errors import BadRequestError, ForewarnError

router = v1_router(tags=["streams"])

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events. `event` is the topic and `data` is one "
        "object, as the list of the topic has it. `event: ready` follows the current "
        "objects at the beginning. `event: reset` means that everything is "
        "sent again.",
        "content": {"text/event-stream": {}},
    },
    **ANY_ERROR,
}


class Watchers:
    """Numbers of open streams of each tenant, and of operators."""

    def __init__(self) -> None:
        """Begin without streams."""
        self._counts: Counter[str] = Counter()
        """Number of streams by tenant; the empty name is for operators."""

    @property
    def count(self) -> int:
        """Return the number of all streams."""
        return self._counts.total()

    def enter(self, tenant: str) -> None:
        """Count one more stream."""
        self._counts[tenant] += 1

    def leave(self, tenant: str) -> None:
        """Count one stream less."""
        self._counts[tenant] -= 1
        if not self._counts[tenant]:
            del self._counts[tenant]

    def refusal(self, tenant: str) -> Response | None:
        """Return the refusal of a further stream, or None.

        A tenant learns the number of its own streams only.
        """
        if tenant:
            return self._refusal_of_tenant(tenant)
        if self._counts[""] < limits.WATCHERS_MAX:
            return None
        return error_responses.problem(
            errors.Kind.UNAVAILABLE,
            f"{limits.WATCHERS_MAX} streams of operators are open already",
            hint="Close another stream, or poll the lists.",
        )

    def _refusal_of_tenant(self, tenant: str) -> Response | None:
        if self._counts[tenant] >= limits.TENANT_WATCHERS_MAX:
            return error_responses.of_error(
                errors.TooManyError(
                    f"{limits.TENANT_WATCHERS_MAX} streams of tenant {tenant} are "
                    "open, which is the maximum",
                    hint="Close another stream, or poll the lists.",
                    retry_seconds=limits.RETRY_SECONDS,
                )
            )
        if self.count - self._counts[""] < limits.ALL_TENANTS_WATCHERS_MAX:
            return None
        return error_responses.problem(
            errors.Kind.UNAVAILABLE,
            "the maximum number of streams is open",
            hint="Try again later, or poll the lists.",
        )


class Counted(StreamingResponse):
    """A stream that counts from its creation, before its first message is read.

    If streams counted later, many simultaneous ones would be admitted before the first
    is counted.
    """

    def __init__(
        self,
        watchers: Watchers,
        texts: AsyncGenerator[str, None],
        *,
        tenant: str = "",
    ) -> None:
        """Send `texts`, and count from now on."""
        super().__init__(
            texts,
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
        self._watchers = watchers
        self._tenant = tenant
        watchers.enter(tenant)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream, and count it until it ends."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._watchers.leave(self._tenant)


class WatchQuery(Filters):
    """The topics of a stream, and the objects that it has."""

    topics: str = Field(
        min_length=1,
        max_length=limits.NAME_CHARACTERS_MAX,
        description=f"Topics, separated by commas: {', '.join(TOPICS)}. Tenants have no "
        "`hosts` and no `campaigns`, and `campaigns` has only the selector `rollout`. Of `history`, only new entries are sent. An operator "
        "names the tenant of `upcoming`, which is then the only topic.",
        examples=["operations,problems"],
    )

    def names(self, caller: Caller) -> tuple[str, ...]:
        """Return the topics; raises BadRequestError and ForbiddenError."""
        names = tuple(dict.fromkeys(self.topics.split(",")))
        for name in names:
            if name not in TOPICS:
                raise BadRequestError(
                    f"topics: there is no topic {name!r}",
                    hint=f"Topics are {', '.join(TOPICS)}.",
                )
            check(caller, TOPIC_DEMANDS.get(name, Demand.OPERATOR_ADMINISTERS))
        return names

    def viewed_by(self, caller: Caller, names: Sequence[str]) -> str:
        """Return the tenant whose objects are sent; empty: those that operators see.

        Coming work is that of one tenant, and an operator gets exactly what the tenant
        gets. Raises BadRequestError.
        """
        if caller.tenant or "upcoming" not in names:
            return caller.tenant
        if len(names) > 1:
            raise BadRequestError(
                "topics: upcoming is that of one tenant, and the others are not",
                hint="Open a stream for `upcoming`, and another one for the others.",
            )
        if not self.tenant:
            raise BadRequestError(UNNAMED_TENANT, hint=NAME_TENANT)
        return self.tenant


def check_campaigns(names: Sequence[str], wanted: Wanted) -> None:
    """Raise BadRequestError for campaigns that are selected by a part of what they cover.

    A campaign covers up to a hundred thousand hosts, which a stream does not look up.
    """
    if "campaigns" in names and wanted != Wanted(rollout=wanted.rollout):
        raise BadRequestError(
            "topics: campaigns are selected by rollout only",
            hint="Open a stream for `campaigns`, and another one for the others. "
            "`campaign-hosts` has all selectors.",
        )


@router.get("/watch", response_class=Response, responses=_STREAM)
async def watch(
    query: Annotated[WatchQuery, Query()],
    gateway: RouteGateway,
    request: Request,
    last_event_id: Annotated[
        str,
        Header(
            max_length=limits.NAME_CHARACTERS_MAX,
            description="The `id` of the last message of a stream with the same query, "
            "to continue after it.",
        ),
    ] = "",
) -> Response:
    """Stream the objects of topics, then each of them that changes."""
    caller = caller_of(request)
    names = query.names(caller)
    wanted = await gateway.read(lambda reader: checked(reader, query))
    check_campaigns(names, wanted)
    viewed = query.viewed_by(caller, names)
    watchers: Watchers = request.app.state.watchers
    refusal = watchers.refusal(caller.tenant)
    if refusal is not None:
        return refusal
    hubs: Hubs = request.app.state.hubs
    viewer = Viewer(
        hub=hubs.of(viewed),
        wanted=wanted,
        topics=names,
        right=Credential.of(caller.name, caller.token_id, request.scope.get(SESSION)),
    )
    return Counted(watchers, viewer.stream(last_event_id), tenant=caller.tenant)


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """One reader of a stream."""

    hub: Hub
    wanted: Wanted
    topics: Sequence[str]
    right: Credential = NO_CREDENTIAL

    async def stream(self, last_id: str = "") -> AsyncGenerator[str, None]:
        """Yield whole messages until the viewer leaves, the service stops, or the token is no
        longer valid."""
        try:
            with self.hub.viewed(self.right):
                await self.hub.follow(self.topics)
                async for text in self._texts(last_id):
                    yield text
        except ForewarnError as error:
            is_out = isinstance(error, errors.UnauthorizedError)
            kind = errors.Kind.UNAUTHORIZED if is_out else errors.Kind.UNAVAILABLE
            body = {"error": error.message, "hint": error.hint, "kind": kind.word}
            yield message(body, name="error", position=BEGINNING)

    async def _texts(self, last_id: str) -> AsyncIterator[str]:
        hub = self.hub
        position = hub.number_of(last_id, self.topics)
        is_first = not last_id
        now = asyncio.get_running_loop().time
        quiet_since = now()
        while True:
            hub.check(self.right)
            entries = None if position is None else hub.after(position)
            if entries is None:
                if not is_first:
                    yield message({}, name="reset", position=BEGINNING)
                is_first, position = False, hub.last
                for name in self.topics:
                    after: str | None = ""
                    while after is not None:
                        page = await hub.present(name, self.wanted, after)
                        position = min(position, page.number)
                        if page.texts:
                            yield "".join(page.texts)
                        after = page.after or None
                yield message({}, name="ready", position=hub.position(position))
                quiet_since = now()
                continue
            texts = [
                entry.text
                for entry in entries
                if entry.topic in self.topics and self.wanted.matches(entry.about)
            ]
            if texts:
                # One piece: with many viewers, most of the cost is that of each piece.
                yield "".join(texts)
                quiet_since = now()
            if entries:
                position = entries[-1].number
                continue
            if hub.is_over:
                return
            quiet_until = quiet_since + limits.KEEP_ALIVE_SECONDS
            await hub.wait(seconds=max(0, quiet_until - now()))
            if now() >= quiet_until and position is not None:
                yield f": still here\nid: {hub.position(position)}\n\n"
                quiet_since = now()
