"""Cordon and open one host, by its name in the path."""

from typing import Any

from starlette.responses import Response

from forewarn.admin import bodies, host_shapes
from forewarn.admin.answers import documented
from forewarn.admin.context import v1_router
from forewarn.admin.orders import Giver, Giving
from forewarn.control.transactions.named import need
from forewarn.fleet.model import Host
from forewarn.reporting import reports

router = v1_router(tags=["orders"])


@router.post(
    "/hosts/{name}/cordon", responses=documented(host_shapes.HostShape, 400, 404, 409)
)
async def cordon(name: str, body: bodies.HostCordoning, giver: Giving) -> Response:
    """Cordon the host, so that it takes no new VM."""
    return await _give(
        giver, "host-cordon", name, reason=body.reason, dry_run=body.dry_run
    )


@router.post(
    "/hosts/{name}/open", responses=documented(host_shapes.HostShape, 400, 404, 409)
)
async def open_host(name: str, body: bodies.HostOpening, giver: Giving) -> Response:
    """Remove the caller's cordon from the host, or all cordons."""
    return await _give(
        giver,
        "host-open",
        name,
        reason=body.reason,
        all_owners=body.all_owners,
        dry_run=body.dry_run,
    )


async def _give(giver: Giver, verb: str, name: str, **members: Any) -> Response:
    body = bodies.BODIES[verb].model_validate({"hosts": [name], **members})
    await giver.give(verb, body)
    return giver.answer(
        await giver.gateway.read(
            lambda reader: reports.host_report(reader, need(reader, Host, name))
        )
    )
