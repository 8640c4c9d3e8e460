"""Routes for the page of a simulator: documents, lanes of VMs, and news as a stream."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from forewarn.admin.answers import ANY_ERROR, answer, documented
from forewarn.control.transactions.event_json import event_report
from forewarn.fleet.model import Vm
from forewarn.instants import format_instant
from forewarn.metadata.server import Address
from forewarn.protocol.events import Event, EventStatus
from forewarn.protocol.versions import NEWEST
from forewarn.protocol.views import View
from forewarn.service.listening import url_of
from forewarn.sim.journal import JournalEntry
from forewarn.sim.live import Live, Source
from forewarn.sim.routes import Simulated
from forewarn.sim.sim_server import SimServer
from forewarn.sim.vms import in_order, named
from forewarn.store import kinds
from forewarn.store.port import Reader, every

VMS_MAX = 50
"""Maximum VMs of one answer: more cards do not fit into a page. A document can have many
kilobytes."""

OPERATIONS_MAX = 500
"""Maximum operations of a VM in its lane, and events of other VMs there, the last ones: more
events are one line on a screen."""

PEERS_MAX = 20
"""Maximum VMs of a scope whose ended events are looked for; of more, only the live events
are shown."""

REQUESTS_MAX = 500
"""Maximum requests of one lane, the last ones: more ticks are one line on a screen."""


class LaneQuery(BaseModel):
    """The VMs of a page."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vm: str = Field(
        default="",
        max_length=4_000,
        description="Only these VMs, separated by commas; empty: all, in pages.",
    )
    after: int = Field(default=0, ge=0, description="`next` of the previous page.")


class SimDocumentsShape(BaseModel):
    """The documents of VMs as they are served now."""

    now: str
    version: str = Field(description="The api-version of the documents.")
    documents: list[dict[str, Any]] = Field(
        description="`vm`, `url`, `state`, `host`, `scope`, `tenant`, `enabled`, "
        "`incarnation`, `body` (null before the first request), `last` request, "
        "`withheld` and `faults`."
    )
    next: int | None = Field(
        description="`after` of the next page; null: the last one."
    )


class SimTimelineShape(BaseModel):
    """The events and requests of VMs over time."""

    now: str
    lanes: list[dict[str, Any]] = Field(
        description="`vm`, the `events` that it got, those of its scope, with their "
        "times, and its last `requests`: "
        "number, time, method, status, fault, deviations and approved events."
    )
    next: int | None = Field(
        description="`after` of the next page; null: the last one."
    )


_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events: `news` as in the output, and `request` as in "
        "the journal, without repeated polls. `reset` means that some were missed.",
        "content": {"text/event-stream": {}},
    },
    **ANY_ERROR,
}


class Watched(Source, Simulated, Protocol):
    """A simulator whose world can be replaced."""


def console_router(simulator: Watched) -> APIRouter:
    """Return the routes for the page of a simulator; it must be on a running loop."""
    sim = APIRouter(prefix="/sim", tags=["simulator"])
    live = Live(simulator)

    @sim.get("/documents", responses=documented(SimDocumentsShape, 400))
    async def documents(query: Annotated[LaneQuery, Query()]) -> Response:
        """Return the documents of VMs, byte for byte, without a request of the VM."""
        stage = simulator.stage
        vms, following = _page(stage, query)
        return answer(
            {
                "now": format_instant(stage.engine.now),
                "version": NEWEST.name,
                "documents": _documents(stage, vms, simulator.addresses()),
                "next": following,
            }
        )

    @sim.get("/timeline", responses=documented(SimTimelineShape, 400))
    async def timeline(query: Annotated[LaneQuery, Query()]) -> Response:
        """Return the events of each VM, and its requests."""
        stage = simulator.stage
        vms, following = _page(stage, query)
        return answer(
            {
                "now": format_instant(stage.engine.now),
                "lanes": _lanes(stage, vms),
                "next": following,
            }
        )

    @sim.get("/watch", response_class=Response, responses=_STREAM)
    async def watch_simulation(
        last_event_id: Annotated[
            str,
            Header(max_length=100, description="The `id` of the last message."),
        ] = "",
    ) -> Response:
        """Stream the news of the simulation and the requests of its VMs."""
        return StreamingResponse(
            live.texts(last_event_id),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    return sim


def _page(stage: SimServer, query: LaneQuery) -> tuple[list[Vm], int | None]:
    wanted = [name for name in query.vm.split(",") if name]
    vms = stage.engine.read(
        lambda reader: named(reader, wanted) if wanted else in_order(reader)
    )
    end = query.after + VMS_MAX
    return vms[query.after : end], end if len(vms) > end else None


def _documents(
    stage: SimServer, vms: Iterable[Vm], addresses: Mapping[str, Address]
) -> list[dict[str, Any]]:
    faults = [(set(rule.playbook.vms), rule.steps) for rule in stage.faults.listing()]

    def read(reader: Reader) -> list[dict[str, Any]]:
        return [_document(stage, reader, vm, addresses, faults) for vm in vms]

    return stage.engine.read(read)


def _document(
    stage: SimServer,
    reader: Reader,
    vm: Vm,
    addresses: Mapping[str, Address],
    faults: Iterable[tuple[set[str], Iterable[str]]],
) -> dict[str, Any]:
    view = reader.get(View, vm.view)
    shown = stage.engine.endpoint.shown(vm.view, NEWEST, now=stage.engine.now)
    entry = stage.journal.latest(vm.name)
    is_enabled = view is not None and view.is_enabled
    return {
        "vm": vm.name,
        "url": url_of(addresses[vm.name]) if vm.name in addresses else None,
        "state": vm.state.value,
        "host": vm.host,
        "scope": vm.scope,
        "tenant": vm.tenant,
        "enabled": is_enabled,
        "incarnation": view.incarnation if view is not None and is_enabled else None,
        "body": None if shown is None else shown.decode("utf-8"),
        "last": None if entry is None else entry.members(),
        "withheld": vm.name in stage.withheld.vms,
        "faults": [
            step
            for names, steps in faults
            if not names or vm.name in names
            for step in steps
        ],
    }


def _lanes(stage: SimServer, vms: list[Vm]) -> list[dict[str, Any]]:
    events = stage.engine.read(lambda reader: _events(reader, vms))
    return [
        {
            "vm": vm.name,
            "events": [event_report(event) for event in events[vm.name]],
            "requests": [
                _tick(entry) for entry in stage.journal.find(vm=vm.name)[-REQUESTS_MAX:]
            ],
        }
        for vm in vms
    ]


def _events(reader: Reader, vms: Iterable[Vm]) -> Mapping[str, list[Event]]:
    """Return the events that each VM got, the oldest first.

    A VM gets the events of all VMs of its scope.
    """
    # Several VMs can share a scope, and an operation.
    of_scope: dict[str, list[Event]] = {}
    for vm in vms:
        if vm.scope not in of_scope:
            of_scope[vm.scope] = _told_in(reader, vm.scope)
    return {vm.name: _last(of_scope[vm.scope], vm.name) for vm in vms}


def _last(told: Iterable[Event], vm: str) -> list[Event]:
    """Return the last events about a VM, and the last ones about others of its scope."""
    parts: dict[bool, deque[Event]] = {
        is_own: deque(maxlen=OPERATIONS_MAX) for is_own in (True, False)
    }
    for event in told:
        parts[any(resource.vm == vm for resource in event.resources)].append(event)
    return sorted((*parts[True], *parts[False]), key=lambda event: event.place)


def _told_in(reader: Reader, scope: str) -> list[Event]:
    """Return the published events of a scope, the oldest first."""
    peers = reader.select(kinds.VMS_OF_SCOPE, scope, limit=PEERS_MAX)
    # Their IDs sort by time.
    operations = {
        operation.key
        for vm in peers
        for operation in deque(
            every(reader, kinds.OPERATIONS_OF_VM, vm.name), OPERATIONS_MAX
        )
    }
    events = {
        event.event_id: event
        for name in operations
        for event in every(reader, kinds.EVENTS_OF_OPERATION, name)
        if event.scope == scope
    }
    live = every(reader, kinds.LIVE_EVENTS_OF_SCOPE, scope)
    events.update((event.event_id, event) for event in live)
    shown = (event for event in events.values() if event.status is not EventStatus.NEW)
    return sorted(shown, key=lambda event: event.place)


def _tick(entry: JournalEntry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "at": format_instant(entry.at),
        "method": entry.method,
        "status": entry.status,
        "fault": entry.fault,
        "deviations": [deviation.name for deviation in entry.deviations],
        "approved": list(entry.approved),
    }
