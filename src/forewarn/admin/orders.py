"""The orders: each is one verb of control, in one transaction."""

from fastapi import APIRouter
from starlette.responses import Response

from forewarn.admin import bodies, limits, shapes
from forewarn.admin.access import Caller
from forewarn.admin.answers import documented
from forewarn.admin.idempotency import Giver, Giving
from forewarn.control.transactions.event_json import event_report
from forewarn.control.transactions.work import need
from forewarn.protocol.errors import BadRequestError
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Operation, Request
from forewarn.reporting import reports

router = APIRouter(tags=["orders"])

_MADE = documented(shapes.RequestShape, 400, 404, 409, 422, status=201)


def check_texts(caller: Caller, **texts: str) -> None:
    """Raise BadRequestError for a text of a tenant that is too long for one."""
    most = limits.TENANT_TEXT_CHARACTERS_MAX
    for name, text in texts.items():
        if caller.tenant and len(text) > most:
            raise BadRequestError(
                f"{name}: a tenant's may have {most} characters, not {len(text)}"
            )


async def made(giver: Giver, request_id: str) -> Response:
    """Return the answer to an order that made a request."""
    gateway = giver.gateway
    report = await gateway.read(
        lambda reader: reports.request_report(
            reader, need(reader, Request, request_id), now=gateway.now()
        )
    )
    return giver.answer(report, status=201)


@router.post("/maintain", status_code=201, responses=_MADE)
async def maintain(body: bodies.Maintain, giver: Giving) -> Response:
    """Maintain hosts: one rollout, an operation for each host.

    The hosts are announced one after the other, at most `at_once` at a time, each with
    a full notice when its turn comes. Each starts when its tenants have approved or at
    NotBefore, as the guard of fault domains allows. A failed one stops the rollout
    before the next announcement.
    """
    return await made(giver, await giver.give("maintain", body))


async def _of_vms(giver: Giver, name: str, body: bodies.OfVms) -> Response:
    check_texts(giver.caller, reason=body.reason, description=body.description or "")
    return await made(giver, await giver.give(name, body))


@router.post("/reboot", status_code=201, responses=_MADE)
async def reboot(body: bodies.OfVms, giver: Giving) -> Response:
    """Restart VMs as their user would."""
    return await _of_vms(giver, "reboot", body)


@router.post("/redeploy", status_code=201, responses=_MADE)
async def redeploy(body: bodies.OfVms, giver: Giving) -> Response:
    """Move VMs to other hosts as their user would; ephemeral disks are lost."""
    return await _of_vms(giver, "redeploy", body)


@router.post("/evict", status_code=201, responses=_MADE)
async def evict(body: bodies.OfVms, giver: Giving) -> Response:
    """Evict Spot VMs: they are deleted after a short notice."""
    return await _of_vms(giver, "evict", body)


@router.post("/terminate", status_code=201, responses=_MADE)
async def terminate(body: bodies.OfVms, giver: Giving) -> Response:
    """Delete VMs: one request, one NotBefore, all of them together."""
    return await _of_vms(giver, "terminate", body)


@router.post("/upgrade-os", status_code=201, responses=_MADE)
async def upgrade_os(body: bodies.OfVms, giver: Giving) -> Response:
    """Upgrade the guest OS of scale-set instances."""
    return await _of_vms(giver, "upgrade-os", body)


@router.post("/reimage", status_code=201, responses=_MADE)
async def reimage(body: bodies.OfVms, giver: Giving) -> Response:
    """Make the disks of scale-set instances anew from their image."""
    return await _of_vms(giver, "reimage", body)


@router.post("/predict-failure", status_code=201, responses=_MADE)
async def predict_failure(body: bodies.PredictFailure, giver: Giving) -> Response:
    """Announce that a host will fail: each of its VMs can leave early."""
    return await made(giver, await giver.give("predict-failure", body))


@router.post("/fail", status_code=201, responses=_MADE)
async def fail(body: bodies.Target, giver: Giving) -> Response:
    """Say that a host or a VM is down now: no notice, its VMs see Started."""
    return await made(giver, await giver.give("fail", body))


@router.post("/restore", responses=documented(shapes.RestoredShape, 400, 404, 409, 422))
async def restore(body: bodies.Target, giver: Giving) -> Response:
    """Say that a host or a VM is up again: the failure's event goes."""
    return giver.answer(await giver.give("restore", body))


@router.post("/cancel", responses=documented(shapes.CancelledShape, 400, 404, 409, 422))
async def cancel(body: bodies.Cancel, giver: Giving) -> Response:
    """Cancel an operation, or all of a rollout or request that has not started.

    It is removed without any impact. Started is its point of no return.
    """
    gateway = giver.gateway
    check_texts(giver.caller, reason=body.reason)
    names = await giver.give("cancel", body)
    report = await gateway.read(
        lambda reader: [
            reports.operation_report(
                reader, need(reader, Operation, name), now=gateway.now()
            )
            for name in names
        ]
    )
    return giver.answer({"cancelled": report})


@router.post("/approve", responses=documented(shapes.EventShape, 400, 404, 409, 422))
async def approve(body: bodies.Approve, giver: Giving) -> Response:
    """Approve an event on your own word, or in the place of a VM that sees it."""
    check_texts(giver.caller, reason=body.reason)
    approved = await giver.give("approve", body)
    # Read again, as the asker may see it.
    event = await giver.gateway.read(lambda reader: need(reader, Event, approved))
    return giver.answer(event_report(event))


@router.post(
    "/resolve", responses=documented(shapes.OperationShape, 400, 404, 409, 422)
)
async def resolve(body: bodies.Resolve, giver: Giving) -> Response:
    """Say what became of an operation whose outcome nobody knows."""
    gateway = giver.gateway
    name = await giver.give("resolve", body)
    report = await gateway.read(
        lambda reader: reports.operation_report(
            reader, need(reader, Operation, name), now=gateway.now()
        )
    )
    return giver.answer(report)
