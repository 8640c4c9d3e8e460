"""`/v1/cluster`: who leads, and how far each replica is behind. For operators only."""

from fastapi import APIRouter
from starlette.responses import Response

from forewarn.admin.answers import answer, documented
from forewarn.admin.context import v1_router
from forewarn.admin.gateways import ClusterGateway
from forewarn.admin.shapes import list_of, shape
from forewarn.reporting.replicas import report

_ROLES = (
    "`leads`, `follows`, `unsure` (it holds the lease and cannot renew it), `refuses` (the "
    "database has lost transactions that it has seen, so it neither leads nor answers VMs), `stopped`, or "
    "`unknown`."
)

ReplicaShape = shape(
    "ReplicaShape",
    "A replica, as the one that answers sees it.",
    name=str,
    url=(str | None, "Its operator API; null: other machines cannot reach it."),
    version=str,
    lease_seconds=(
        float | None,
        "Its `cluster.lease`; null: its version does not tell it.",
    ),
    role=(
        str,
        _ROLES,
    ),
    behind_entries=(
        int | None,
        "Transactions that its documents lack; null: unknown.",
    ),
    behind_seconds=(
        float | None,
        "For how long its documents lack a transaction; null: unknown.",
    ),
    silent_for_seconds=(float, "Time since its last sign of life: usually below 1."),
)

ClusterShape = shape(
    "ClusterShape",
    "The replicas of the service.",
    replicated=(bool, "False: this service runs alone, and the rest is empty."),
    answered_by=(str | None, "The name of the replica that answers."),
    asked_ago_seconds=(
        float | None,
        "Time since the database has answered; null: not since this replica started.",
    ),
    leader=(str | None, "The name of the replica that leads; null: none, or unknown."),
    led_for_seconds=(
        float | None,
        "Time since it took the lease, by its monotonic clock; null: unknown.",
    ),
    term=(int | None, "It goes up with each takeover; null: unknown."),
    takeovers=(int, "Takeovers of the last 15 minutes that this replica has seen."),
    synchronous_standby=(
        str | None,
        (
            "`streaming`, `missing` (set, and none streams), `not set`, or `unknown` (the "
            "service may not see it); null: the database does not answer."
        ),
    ),
    leases_differ=(
        bool,
        "Whether running replicas have different leases: a takeover can take the longest.",
    ),
    replicas=list_of(ReplicaShape),
)


def router(gateway: ClusterGateway) -> APIRouter:
    """Return the route of /v1/cluster."""
    routes = v1_router(tags=["cluster"])

    @routes.get("/cluster", responses=documented(ClusterShape))
    async def cluster() -> Response:
        """Show who leads, and how far each replica is behind. Every replica answers."""
        return answer(report(await gateway.cluster()))

    return routes
