"""Replicas: a service that follows another one answers reads, and sends the rest there.

Everything that changes something is decided by the replica that leads. A relay connects to
that one too, since it confirms what it has applied.
"""

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from forewarn.admin.error_responses import problem
from forewarn.admin.errors import Kind
from forewarn.admin.leader import Leader, Leading

_READS = frozenset({"GET", "HEAD", "OPTIONS"})

_OF_RELAYS = "/v1/relay/"
"""The begin of the paths of relays. The list of relays is `/v1/relays`."""

_OF_SESSIONS = "/v1/session"
"""A session begins without a change of the store; its routes refuse the rest."""


class OnlyReads:
    """Middleware that refuses what only the leading replica can do."""

    def __init__(self, app: ASGIApp, *, leading: Leading) -> None:
        """Wrap `app`, as `leading` says at each request."""
        self._app = app
        self._leading = leading

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        leader = self._leading.elsewhere
        if (
            leader is None
            or scope["type"] != "http"
            or scope["path"] == _OF_SESSIONS
            or (scope["method"] in _READS and not scope["path"].startswith(_OF_RELAYS))
        ):
            await self._app(scope, receive, send)
            return
        await refusal_of(leader)(scope, receive, send)


def refusal_of(leader: Leader) -> JSONResponse:
    """Return the response of a replica that follows."""
    if not leader.name:
        return problem(
            Kind.FOLLOWS,
            "this replica follows, and no replica leads now",
            hint="Another replica takes over within seconds. Try again then.",
        )
    to = f"Send it to {leader.url}." if leader.url else "Send it to that replica."
    return problem(
        Kind.FOLLOWS,
        f"this replica follows {leader.name}, which decides",
        hint=f"{to} FOREWARN_URL can list the URLs of all replicas.",
        leader=leader.url,
    )
