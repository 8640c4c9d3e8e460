"""Lists of operations, events, rollouts and requests."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from starlette.responses import Response

from forewarn.admin import limits, selection, shapes
from forewarn.admin.answers import answer, documented
from forewarn.admin.context import RouteGateway, v1_router
from forewarn.admin.selection import Wanted
from forewarn.control.gateway import CallerGateway
from forewarn.control.redaction import tenant_reader
from forewarn.control.transactions.event_json import event_report
from forewarn.control.transactions.named import need
from forewarn.fleet.model import LABEL, PLACES, Host, Scope, Tenant, Vm, place
from forewarn.protocol.errors import NotFoundError
from forewarn.protocol.events import EventStatus
from forewarn.protocol.operations import Operation, OperationState, Request
from forewarn.reporting import reports
from forewarn.store import kinds
from forewarn.store.port import Reader, Record

router = v1_router(tags=["operations and events"])


def _capitalised(value: object) -> object:
    return value.capitalize() if isinstance(value, str) else value


Name = Annotated[str, Field(max_length=limits.NAME_CHARACTERS_MAX)]


def _readable_pair(text: str) -> str:
    key, equals, _ = text.partition("=")
    if text and not (key and equals):
        raise ValueError("must be KEY=VALUE, such as role=web")
    return text


Pair = Annotated[
    str,
    Field(
        max_length=2 * limits.NAME_CHARACTERS_MAX,
        json_schema_extra={"pattern": "^([^=]+=.*)?$"},
    ),
    AfterValidator(_readable_pair),
]
"""A tag of a VM or a label of a host, `key=value`."""
State = Annotated[OperationState, BeforeValidator(_capitalised)]
Status = Annotated[EventStatus, BeforeValidator(_capitalised)]


class Paged(BaseModel):
    """A page of a list."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    after: Name = Field(default="", description="`next` of the previous page.")
    limit: int = Field(default=limits.PAGE_OBJECTS, ge=1, le=limits.PAGE_OBJECTS_MAX)


class Ordered(Paged):
    """A page of a list that can be read from its end."""

    newest: bool = Field(
        default=False,
        description="From the newest on. `after` continues with the older.",
    )


class Selectors(BaseModel):
    """The names that a list is narrowed to; all of them must match."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vm: Name = Field(default="", description="Only objects about this VM.")
    host: Name = Field(default="", description="Only objects on this host.")
    scope: Name = Field(default="", description="Only objects of this scope.")
    tenant: Name = Field(default="", description="Only objects of this tenant.")
    zone: Name = Field(default="", description="Only objects on hosts of this zone.")
    cluster: Name = Field(
        default="", description="Only objects on hosts of this cluster."
    )
    rack: Name = Field(default="", description="Only objects on hosts of this rack.")
    pool: Name = Field(default="", description="Only objects on hosts of this pool.")
    label: Pair = Field(
        default="",
        description="Only objects on hosts with this label.",
        examples=["model=r7525"],
    )
    tag: Pair = Field(
        default="",
        description="Only objects about VMs with this tag.",
        examples=["role=web"],
    )

    @property
    def places(self) -> tuple[str, ...]:
        """Return the places and labels of hosts that are selected."""
        named = ((kind, getattr(self, kind)) for kind in (*PLACES, LABEL))
        return tuple(place(kind, name) for kind, name in named if name)

    @property
    def selected(self) -> dict[str, str]:
        """Return the value of each selector; empty: it selects everything."""
        return {key: getattr(self, key) for key in Selectors.model_fields}

    def wanted(self, reader: Reader, *, ended: bool = False) -> Wanted:
        """Return the selection; with `ended`, ended objects too."""
        del reader
        return Wanted(
            vm=self.vm,
            host=self.host,
            scope=self.scope,
            tenant=self.tenant,
            places=self.places,
            tag=self.tag,
            ended=ended,
        )


class Filters(Selectors):
    """The same, also by rollout."""

    rollout: Name = Field(default="", description="Only objects of this rollout.")

    def wanted(self, reader: Reader, *, ended: bool = False) -> Wanted:
        """Return the selection; with `ended`, ended objects too."""
        return replace(
            super().wanted(reader, ended=ended),
            rollout=tenant_reader.real_id(reader, self.rollout),
        )


class _All(Paged):
    ended: bool = Field(
        default=False, alias="all", description="Include ended objects."
    )


class OperationQuery(Filters, _All):
    """Filters and paging parameters of the operations."""

    state: State | None = Field(default=None, description="Only objects in this state.")

    def wanted(self, reader: Reader, *, ended: bool = False) -> Wanted:
        """Return the selection; with `ended`, ended operations too."""
        return replace(super().wanted(reader, ended=ended), state=self.state)


class EventQuery(Filters, _All):
    """Filters and paging parameters of the events."""

    state: Status | None = Field(
        default=None, description="Only objects in this state."
    )

    def wanted(self, reader: Reader, *, ended: bool = False) -> Wanted:
        """Return the selection; with `ended`, removed events too."""
        removed = self.state is EventStatus.REMOVED
        return replace(
            super().wanted(reader, ended=ended or removed), status=self.state
        )


class RolloutQuery(Selectors, _All):
    """Selectors and paging of the rollouts: those with a selected operation."""


@router.get("/operations", responses=documented(shapes.OperationPage, 400, 404))
async def operations(
    query: Annotated[OperationQuery, Query()], gateway: RouteGateway
) -> Response:
    """List operations: the open ones, or with `all` the ended ones too."""
    now = gateway.now()
    return await _listed(
        "operations",
        query,
        gateway,
        selection.operations,
        lambda reader, row: reports.operation_report(reader, row, now=now),
    )


@router.get("/operations/{name}", responses=documented(shapes.OperationShape, 404))
async def operation(name: str, gateway: RouteGateway) -> Response:
    """Return one operation."""
    return answer(
        await gateway.read(
            lambda reader: reports.operation_report(
                reader,
                need(reader, Operation, tenant_reader.real_id(reader, name)),
                now=gateway.now(),
            )
        )
    )


@router.get("/requests/{name}", responses=documented(shapes.RequestShape, 404))
async def request(name: str, gateway: RouteGateway) -> Response:
    """Return a rollout or another request, with its operations."""
    return answer(
        await gateway.read(
            lambda reader: reports.request_report(
                reader,
                need(reader, Request, tenant_reader.real_id(reader, name)),
                now=gateway.now(),
            )
        )
    )


@router.get("/rollouts", responses=documented(shapes.RolloutPage, 400, 404))
async def rollouts(
    query: Annotated[RolloutQuery, Query()], gateway: RouteGateway
) -> Response:
    """List rollouts, each with the number of its operations in each state.

    Without `all`, only rollouts with open operations are listed.
    """
    return await _listed(
        "rollouts", query, gateway, selection.rollouts, reports.rollout_report
    )


@router.get("/rollouts/{name}", responses=documented(shapes.RolloutShape, 404))
async def rollout(name: str, gateway: RouteGateway) -> Response:
    """Return one rollout; `/v1/operations?rollout=` lists its operations."""
    return answer(
        await gateway.read(
            lambda reader: reports.rollout_report(
                reader, need(reader, Request, tenant_reader.real_id(reader, name))
            )
        )
    )


@router.get("/events", responses=documented(shapes.EventPage, 400, 404))
async def events(
    query: Annotated[EventQuery, Query()], gateway: RouteGateway
) -> Response:
    """List events: the live ones, or with `all` the removed ones too."""
    return await _listed(
        "events",
        query,
        gateway,
        selection.events,
        lambda _reader, event: event_report(event),
    )


async def _listed(
    name: str,
    query: OperationQuery | EventQuery | RolloutQuery,
    gateway: CallerGateway,
    select: Callable[..., tuple[list[Any], str]],
    report: Callable[[Reader, Any], dict[str, Any]],
) -> Response:
    """Return a page of a list, and where the next page begins."""

    def ask(reader: Reader) -> dict[str, Any]:
        wanted = query.wanted(reader, ended=query.ended)
        found, after = select(reader, wanted, after=query.after, limit=query.limit)
        if not found:
            check_names(reader, query)
        known = tenant_reader.remembered(reader)
        return {
            name: [report(known, record) for record in found],
            "next": after or None,
        }

    return answer(await gateway.read(ask))


def checked(reader: Reader, filters: Selectors) -> Wanted:
    """Return the selection; raises NotFoundError if a name does not exist."""
    check_names(reader, filters)
    return filters.wanted(reader)


def check_names(reader: Reader, filters: Selectors) -> None:
    """Raise NotFoundError for a misspelled name, which would select nothing."""
    named: list[tuple[type[Record], str]] = [
        (Vm, filters.vm),
        (Host, filters.host),
        (Scope, filters.scope),
        (Tenant, filters.tenant),
    ]
    if isinstance(filters, Filters):
        named.append((Request, tenant_reader.real_id(reader, filters.rollout)))
    for kind, name in named:
        if name:
            need(reader, kind, name)
    check_places(reader, filters)


def check_places(reader: Reader, filters: Selectors) -> None:
    """Raise NotFoundError for a place or label that no host has."""
    for place_ in filters.places:
        if not reader.select(kinds.HOSTS_AT_PLACE, place_, limit=1):
            kind, _, name = place_.partition("=")
            noun = f"host with label {name}" if kind == LABEL else f"{kind} {name!r}"
            raise NotFoundError(
                f"there is no {noun}",
                hint="Run `forewarn fleet show` to list the places and labels of hosts.",
            )
