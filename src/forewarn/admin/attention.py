"""Problems, missing approvals, capacity, and the explanation of any object."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar, cast

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forewarn.admin import attention_shapes as shapes
from forewarn.admin.answers import answer, documented
from forewarn.admin.context import RouteGateway, Service, caller_of, v1_router
from forewarn.admin.fleet_selection import FleetSelection
from forewarn.admin.gateways import CheckGateway, ClusterGateway, WebhookGateway
from forewarn.admin.lists import Filters, Paged, Selectors, check_names
from forewarn.admin.selection import Lookups
from forewarn.admin.shared_reads import shared_answer
from forewarn.cluster.view import View
from forewarn.control.gateway import CallerGateway, OperatorGateway
from forewarn.control.redaction import tenant_reader
from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation
from forewarn.reporting import (
    attention,
    explained_problems,
    explanations,
    held,
    sums,
)
from forewarn.reporting.attention import ProblemKind, Surroundings
from forewarn.reporting.explained_names import (
    KINDS_OUTSIDE,
    NOTHING_OUTSIDE,
    Outside,
)
from forewarn.reporting.replicas import report as replicas_report
from forewarn.store.port import Reader
from forewarn.verbs.explained_kinds import ExplainedKind

T = TypeVar("T")

router = v1_router(tags=["attention"])


class ProblemQuery(Filters, Paged):
    """Filters and paging parameters of the problems."""

    kind: ProblemKind | None = Field(default=None, description="Only this kind.")


class WaitQuery(Filters, Paged):
    """Filters and paging parameters of the missing approvals."""


class CapacityQuery(Selectors, Paged):
    """Selectors and paging parameters of the zones."""


class ExplainQuery(BaseModel):
    """The kind of the object to explain, if several have the same name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["", ExplainedKind] = Field(
        default="", description="Required if several objects have this name."
    )


def _page(
    found: Sequence[T], key: Callable[[T], str], *, after: str, limit: int
) -> tuple[list[T], str | None]:
    """Return a page of objects that are sorted by `key`, and where the next page
    begins."""
    rest = [item for item in found if key(item) > after]
    page = rest[:limit]
    return page, key(page[-1]) if len(rest) > limit else None


async def surroundings(
    receivers: WebhookGateway | None,
    replicas: ClusterGateway | None,
    gateway: CallerGateway,
) -> Surroundings:
    """Return the health of the service, its receivers and replicas, for operators."""
    health = await gateway.health()
    rows: Sequence[dict[str, Any]] = ()
    cluster: View | None = None
    # `health` already reports a service that does not answer.
    with contextlib.suppress(ForewarnError):
        cluster = await replicas.cluster() if replicas else None
        rows = await receivers.webhooks() if receivers else ()
    return Surroundings(
        problems=health.problems,
        seen=health.seen,
        webhooks=rows,
        cluster=cluster,
    )


@router.get("/problems", responses=documented(shapes.ProblemPage, 400, 404))
async def problems(
    query: Annotated[ProblemQuery, Query()], gateway: RouteGateway, request: Request
) -> Response:
    """List the problems that need attention, the worst first, with the sums of all."""
    receivers = cast("WebhookGateway | None", request.app.state.receivers)
    replicas = cast("ClusterGateway | None", request.app.state.replicas)
    around = await surroundings(receivers, replicas, gateway)

    def ask(fresh: Reader) -> dict[str, Any]:
        # Problems of many hosts look at the same campaigns.
        reader = tenant_reader.remembered(fresh)
        wanted, lookups = query.wanted(reader), Lookups(reader)
        problems = [
            problem
            for problem in attention.problems(reader, around, now=gateway.now())
            if query.kind in {None, problem.kind}
            and wanted.matches(lookups.about_problem(problem, wanted))
        ]
        if not problems:
            check_names(reader, query)
        page, after = _page(
            problems, lambda problem: problem.key, after=query.after, limit=query.limit
        )
        return {
            "problems": [attention.report(problem) for problem in page],
            "counts": attention.counts(problems),
            "next": after,
        }

    return answer(await gateway.read(ask))


@router.get("/waits", responses=documented(shapes.WaitPage, 400, 404))
async def list_waits(
    query: Annotated[WaitQuery, Query()],
    gateway: RouteGateway,
    service: Service,
    request: Request,
) -> Response:
    """List the tenants whose approval is missing, the longest wait first.

    `held` has the windows, deferrals, blackouts and silent relays that hold maintenance, those that
    end first before the others. It is empty for a tenant, and after the first page.
    """
    now = gateway.now()

    def ask(reader: Reader) -> dict[str, Any]:
        events, is_whole = sums.live_events(reader)
        # Selecting an event and summing it up need the same operation.
        known = tenant_reader.remembered(reader)
        waits = sums.waits(known, _selected(known, query, events))
        if not waits:
            check_names(reader, query)
        page, after = _page(
            waits, lambda wait: wait.key, after=query.after, limit=query.limit
        )
        holds, names_all = ([], True) if query.after else _held(reader, query, now)
        return {
            "held": [held.held_report(hold) for hold in holds],
            "waits": [sums.wait_report(reader, wait) for wait in page],
            "sums": sums.wait_sums(waits),
            "complete": is_whole and names_all,
            "next": after,
        }

    if caller_of(request).tenant:
        return answer(await gateway.read(ask))
    # The caller's token is checked for each request.
    await gateway.read(lambda _reader: None)
    return await shared_answer(request, ("waits", query), lambda: service.read(ask))


def _held(
    reader: Reader, query: WaitQuery, now: Micros
) -> tuple[list[held.Held], bool]:
    """Return what holds maintenance, and whether that is complete.

    Those of scopes can be selected by scope and tenant. Those of campaigns and of the service are of no
    scope or tenant, so each selector leaves them out, and silent relays too. Hosts of several
    rollouts can wait for the same end, so a rollout selects none of them.
    """
    names = {key for key, value in query.selected.items() if value}
    is_tenant = isinstance(reader, tenant_reader.TenantReader)
    if is_tenant or query.rollout or names - {"scope", "tenant"}:
        return [], True
    found, is_whole = held.by_scopes(reader, scope=query.scope, tenant=query.tenant)
    if not names:
        found += held.by_campaigns(reader, now=now)
        found += held.by_blackouts(reader, now=now)
        found += held.by_relays(reader)
    return held.in_order(found), is_whole


def _selected(
    reader: Reader, query: Selectors, events: Iterable[Event]
) -> Iterator[Event]:
    """Yield the selected events out of those that wait for an approval."""
    wanted, lookups = query.wanted(reader), Lookups(reader)
    for event in events:
        if not event.awaits_approval:
            continue
        operation = reader.get(Operation, event.operation)
        if operation is not None and wanted.matches(
            lookups.about_event(event, operation, wanted)
        ):
            yield event


@router.get("/capacity", responses=documented(shapes.CapacityPage, 400, 404))
async def list_capacity(
    query: Annotated[CapacityQuery, Query()],
    gateway: RouteGateway,
    service: Service,
    request: Request,
) -> Response:
    """List the free capacity of the selected hosts by zone and by cluster, and the needs
    of the next ones of rollouts.

    In a large fleet, callers share an answer that is at most some seconds old.
    """
    now, reserve = gateway.now(), gateway.reserve

    def ask(reader: Reader) -> dict[str, Any]:
        check_names(reader, query)
        hosts = FleetSelection(reader, query.wanted(reader)).host_names()
        rooms = sums.rooms(reader, hosts)
        zones = sums.zones(rooms)
        # The name of a zone can be empty, and an empty cursor means the beginning.
        page, after = _page(
            zones, lambda zone: f"={zone.name}", after=query.after, limit=query.limit
        )
        clusters, names_all_clusters = sums.clusters(rooms)
        pools, names_all_pools = sums.pools(reader, rooms, reserve)
        return {
            "zones": [zone.report("zone") for zone in page],
            "clusters": [cluster.report("cluster") for cluster in clusters],
            "pools": pools,
            "next_hosts": sums.next_hosts(reader, hosts, now=now, reserve=reserve),
            "complete": names_all_clusters and names_all_pools,
            "next": after,
        }

    # The caller's token is checked for each request, as for the overview of the fleet.
    await gateway.read(lambda _reader: None)
    key = ("capacity", query)
    return await shared_answer(request, key, lambda: service.read(ask))


@router.get("/explain/{name}", responses=documented(shapes.ExplanationShape, 404, 409))
async def explain(
    name: str,
    query: Annotated[ExplainQuery, Query()],
    gateway: RouteGateway,
    request: Request,
) -> Response:
    """Explain the state of any object and why it waits; reasons with a remedy come
    first."""
    beyond = await _outside(request, query.kind)
    around: Surroundings | None = None
    if not query.kind and explained_problems.is_id(name):
        state = request.app.state
        around = await surroundings(state.receivers, state.replicas, gateway)
    now = gateway.now()

    def ask(reader: Reader) -> dict[str, Any]:
        problem = None
        if around is not None:
            problem = explained_problems.explain(reader, name, around, now=now)
        return problem or explanations.explain(
            reader, name, now=now, kind=query.kind, outside=beyond
        )

    return answer(await gateway.read(ask))


async def _outside(request: Request, kind: str) -> Outside:
    """Return what is not in the store, if the kind needs it; empty: any kind.

    A tenant's reader never shows them.
    """
    if caller_of(request).tenant or kind not in {"", *KINDS_OUTSIDE}:
        return NOTHING_OUTSIDE
    state = request.app.state
    receivers = cast("WebhookGateway | None", state.receivers)
    checks = cast("CheckGateway | None", state.checks)
    replicas = cast("ClusterGateway | None", state.replicas)
    rows: Outside = NOTHING_OUTSIDE
    # A service that does not answer still explains what is stored.
    with contextlib.suppress(ForewarnError):
        health = await cast("OperatorGateway", state.gateway).health()
        rows = Outside(unreachable=health.unreachable)
        if kind in {"host", "vm"}:
            return rows
        view = await replicas.cluster() if replicas else None
        rows = replace(
            rows,
            checks=await checks.checks() if checks else (),
            webhooks=await receivers.webhooks() if receivers else (),
            replicas=replicas_report(view)["replicas"],
        )
    return rows
