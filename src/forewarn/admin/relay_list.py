"""`/v1/relays`: the relays of all hosts, and whether they are connected. For operators."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from forewarn.admin.answers import answer, documented
from forewarn.admin.context import RouteGateway, v1_router
from forewarn.admin.fleet_selection import FleetSelection
from forewarn.admin.lists import Selectors, check_names
from forewarn.admin.relay_hub import RelayHub, State
from forewarn.admin.shapes import list_of, shape
from forewarn.instants import instant_or_none
from forewarn.store import kinds
from forewarn.store.port import Reader, every

RelayShape = shape(
    "RelayShape",
    "The relay of a host.",
    host=str,
    connected=bool,
    since=(str | None, "When it connected; null if it is not connected."),
    last_seen=(
        str | None,
        "When it last sent a request, or left; null: not since the service started.",
    ),
    behind_seconds=(
        float,
        "For how long a change waits until the relay confirms it; 0 if it has all.",
    ),
    streams=(int, "Open streams: more than one if an earlier one has not ended yet."),
)

RelayList = shape(
    "RelayList",
    "The hosts for whose relay a token exists, and those with a connected relay.",
    relays=list_of(RelayShape),
)


def router(hub: RelayHub) -> APIRouter:
    """Return the route of /v1/relays."""
    routes = v1_router(tags=["relays"])

    @routes.get("/relays", responses=documented(RelayList, 400, 404))
    async def list_relays(
        query: Annotated[Selectors, Query()], gateway: RouteGateway
    ) -> Response:
        """List the relays of hosts with their connections, in order of the hosts."""
        now = gateway.now()

        def ask(reader: Reader) -> tuple[set[str], frozenset[str] | None]:
            check_names(reader, query)
            expected = {
                token.host
                for token in every(reader, kinds.ALL_TOKENS)
                if token.host and not token.is_expired(now=now)
            }
            selected = FleetSelection(reader, query.wanted(reader))
            return expected, selected.host_names()

        expected, selected = await gateway.read(ask)
        relays = report(expected, hub.states())
        if selected is not None:
            relays = [relay for relay in relays if relay["host"] in selected]
        return answer({"relays": relays})

    return routes


def report(
    expected: Collection[str], states: Mapping[str, State]
) -> list[dict[str, Any]]:
    """Return the relays of hosts: those that are expected, and connected ones."""
    connected = {host for host, state in states.items() if state.streams}
    return [
        _relay(host, states.get(host, State()))
        for host in sorted({*expected, *connected})
    ]


def _relay(host: str, state: State) -> dict[str, Any]:
    return {
        "host": host,
        "connected": state.streams > 0,
        "since": instant_or_none(state.connected_at),
        "last_seen": instant_or_none(state.heard_at),
        "behind_seconds": round(state.behind_seconds, 3),
        "streams": state.streams,
    }
