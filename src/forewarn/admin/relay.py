"""The routes of relays: the stream of their VMs, and requests on behalf of these.

A relay belongs to a host, which its token names. No route takes a host as an argument.
"""

from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from forewarn.admin import error_responses, limits
from forewarn.admin.answers import ANY_ERROR, answer, documented
from forewarn.admin.context import caller_of, v1_router
from forewarn.admin.errors import Kind
from forewarn.admin.orders import Giving
from forewarn.admin.relay_bodies import (
    RelayApprovals,
    RelayEnable,
    RelaySeen,
    RelayServed,
)
from forewarn.admin.relay_hub import RelayHub
from forewarn.admin.shapes import shape

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "JSON Lines. Each line has a `position`. The first line has "
        "`whole`, the `host`, and all its VMs (`guests`) and `views`; later lines have "
        "what changed `since` a number, and the names of what is gone (`guests_gone`, "
        "`views_gone`). "
        "A line with nothing but a position comes every few seconds. With `after`, a "
        "position of an earlier stream, the first line has only the changes since, if "
        "the service still knows them. With `holds`, the last `digest` of such a stream, "
        "the first line is `same` if nothing has changed. The stream ends when the token is revoked.",
        "content": {"application/jsonl": {}},
    },
    **ANY_ERROR,
}

ApprovalsShape = shape(
    "RelayApprovalsShape",
    "The results of approvals.",
    refusals=(
        list[str | None],
        "For each approval null, or the reason of its refusal, for the VM.",
    ),
    position=(str, "The position in the stream that has the result."),
)

EnabledShape = shape(
    "RelayEnabledShape",
    "The result of an enabling.",
    enabled=(bool, "Whether all these VMs are on the host or on their way to it."),
    vms=(list[str], "The VMs that are."),
    position=(str, "The position in the stream that has the document."),
)

SeenShape = shape("RelaySeenShape", "Nothing: the times are stored.")

ServedShape = shape("RelayServedShape", "Nothing: planned work waits no longer.")


class _Stream(StreamingResponse):
    """A stream of a relay."""

    def __init__(self, lines: AsyncGenerator[str, None]) -> None:
        super().__init__(
            lines,
            media_type="application/jsonl",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )


def router(hub: RelayHub) -> APIRouter:
    """Return the routes below /v1/relay."""
    routes = v1_router(prefix="/relay", tags=["relays"])

    _add_stream(routes, hub)

    @routes.post(
        "/approve",
        responses=documented(ApprovalsShape, 400),
    )
    async def relay_approve(body: RelayApprovals, giver: Giving) -> Response:
        """Approve events for VMs of the relay's host."""
        hub.note_heard(giver.caller.host)
        refusals = await giver.give("relay-approve", body)
        vms = {approval.vm for approval in body.approvals}
        position = await hub.catch_up(giver.caller.host, vms)
        return answer({"refusals": refusals, "position": position})

    @routes.post("/enable", responses=documented(EnabledShape, 400))
    async def relay_enable(body: RelayEnable, giver: Giving) -> Response:
        """Enable Scheduled Events for VMs of the relay's host."""
        hub.note_heard(giver.caller.host)
        vms = await giver.give("relay-enable", body)
        position = await hub.catch_up(giver.caller.host, set(body.names))
        enabled = len(vms) == len(body.names)
        return answer({"enabled": enabled, "vms": vms, "position": position})

    @routes.post("/seen", responses=documented(SeenShape, 400))
    async def relay_seen(body: RelaySeen, giver: Giving) -> Response:
        """Store when VMs of the relay's host last requested their documents."""
        hub.note_heard(giver.caller.host)
        await giver.give("relay-seen", body)
        return answer({})

    _add_served(routes, hub)
    return routes


def _add_stream(routes: APIRouter, hub: RelayHub) -> None:
    @routes.get("/stream", response_class=Response, responses=_STREAM)
    async def relay_stream(
        request: Request,
        after: Annotated[
            str,
            Query(
                max_length=limits.NAME_CHARACTERS_MAX,
                description="The position of an earlier stream, to continue after it.",
            ),
        ] = "",
        *,
        confirms: Annotated[
            bool,
            Query(
                description="Whether the relay confirms each position that it has "
                "applied: `POST /v1/relay/served`."
            ),
        ] = False,
        holds: Annotated[
            str,
            Query(
                max_length=limits.NAME_CHARACTERS_MAX,
                description="The last `digest` of an earlier stream: all that the relay "
                "serves.",
            ),
        ] = "",
    ) -> Response:
        """Stream the VMs of the relay's host with their documents, and each change."""
        caller = caller_of(request)
        if (
            hub.count(caller.host) >= limits.RELAY_STREAMS_MAX
            or hub.streams >= limits.ALL_RELAY_STREAMS_MAX
        ):
            return error_responses.problem(
                Kind.UNAVAILABLE,
                f"{hub.count(caller.host)} streams for the relay of {caller.host} and "
                f"{hub.streams} streams of all relays are open, and no more are allowed",
                hint="Run one relay on each host.",
            )
        return _Stream(
            hub.lines(
                caller.host, caller.token_id, after, confirms=confirms, holds=holds
            )
        )


def _add_served(routes: APIRouter, hub: RelayHub) -> None:
    @routes.post("/served", responses=documented(ServedShape, 400))
    async def relay_served(request: Request, body: RelayServed) -> Response:
        """Confirm that the relay has applied a position, and shows it to its VMs."""
        hub.confirm(caller_of(request).host, body.position)
        return answer({})
