"""The orders: each is one verb of control, in one transaction."""

from collections.abc import Callable
from typing import TypeVar

from fastapi import APIRouter
from starlette.responses import Response

from forewarn.admin import bodies, limits, shapes
from forewarn.admin.access import Caller
from forewarn.admin.answers import answer, documented
from forewarn.admin.context import Actor, Asking, Desk
from forewarn.control import approvals, failures, outcome, reports, tenancy, verbs
from forewarn.control.desk import OperatorDesk
from forewarn.control.event_json import event_report
from forewarn.control.work import Who, Work, need
from forewarn.fleet.model import Host, Vm, VmState
from forewarn.protocol.errors import BadRequestError, NotFoundError, RefusedError
from forewarn.protocol.events import Event
from forewarn.protocol.operations import Action, Operation, Request, Verb

T = TypeVar("T")

router = APIRouter(tags=["orders"])

_MADE = documented(shapes.RequestShape, 400, 404, 409, status=201)


async def give(
    desk: OperatorDesk, actor: str, body: bodies.Order, decide: Callable[[Work], T]
) -> T:
    """Have an order carried out in the name of `actor`."""
    return await desk.order(Who(actor=actor, reason=body.reason), decide)


def check_texts(caller: Caller, **texts: str) -> None:
    """Raise BadRequestError for a text of a tenant that is too long for one."""
    most = limits.TENANT_TEXT_CHARACTERS_MAX
    for name, text in texts.items():
        if caller.tenant and len(text) > most:
            raise BadRequestError(
                f"{name}: a tenant's may have {most} characters, not {len(text)}"
            )


async def made(desk: OperatorDesk, request_id: str) -> Response:
    """Return the answer to an order that made a request."""
    report = await desk.read(
        lambda reader: reports.request_report(
            reader, need(reader, Request, request_id), now=desk.now()
        )
    )
    return answer(report, status=201)


@router.post("/maintain", status_code=201, responses=_MADE)
async def maintain(body: bodies.Maintain, desk: Desk, actor: Actor) -> Response:
    """Maintain hosts: one rollout, an operation for each host.

    Each starts when its tenants have approved or at NotBefore, as the guard of
    fault domains allows. A failed one stops those that have not started.
    """
    action = Action(body.impact)
    request = await give(
        desk,
        actor,
        body,
        lambda work: verbs.maintain(
            work, body.hosts, action, body.wishes(now=work.now)
        ),
    )
    return await made(desk, request.request_id)


async def _of_vms(
    desk: OperatorDesk,
    caller: Caller,
    body: bodies.OfVms,
    verb: Verb,
    decide: Callable[[Work, verbs.Wishes], Request],
) -> Response:
    check_texts(caller, reason=body.reason, description=body.description or "")

    def checked(work: Work) -> Request:
        if caller.tenant:
            tenancy.check_vms(work, caller.tenant, body.vms, verb)
        return decide(work, body.wishes(now=work.now))

    request = await give(desk, caller.name, body, checked)
    return await made(desk, request.request_id)


@router.post("/reboot", status_code=201, responses=_MADE)
async def reboot(body: bodies.OfVms, desk: Desk, caller: Asking) -> Response:
    """Restart VMs as their user would."""
    return await _of_vms(
        desk,
        caller,
        body,
        Verb.REBOOT,
        lambda work, wishes: verbs.restart(work, body.vms, Verb.REBOOT, wishes),
    )


@router.post("/redeploy", status_code=201, responses=_MADE)
async def redeploy(body: bodies.OfVms, desk: Desk, caller: Asking) -> Response:
    """Move VMs to other hosts as their user would; ephemeral disks are lost."""
    return await _of_vms(
        desk,
        caller,
        body,
        Verb.REDEPLOY,
        lambda work, wishes: verbs.restart(work, body.vms, Verb.REDEPLOY, wishes),
    )


@router.post("/evict", status_code=201, responses=_MADE)
async def evict(body: bodies.OfVms, desk: Desk, caller: Asking) -> Response:
    """Evict Spot VMs: they are deleted after a short notice."""
    return await _of_vms(
        desk,
        caller,
        body,
        Verb.EVICT,
        lambda work, wishes: verbs.evict(work, body.vms, wishes),
    )


@router.post("/terminate", status_code=201, responses=_MADE)
async def terminate(body: bodies.OfVms, desk: Desk, caller: Asking) -> Response:
    """Delete VMs: one request, one NotBefore, all of them together."""
    return await _of_vms(
        desk,
        caller,
        body,
        Verb.TERMINATE,
        lambda work, wishes: verbs.terminate(work, body.vms, wishes),
    )


@router.post("/upgrade-os", status_code=201, responses=_MADE)
async def upgrade_os(body: bodies.OfVms, desk: Desk, caller: Asking) -> Response:
    """Upgrade the guest OS of scale-set instances."""
    return await _of_vms(
        desk,
        caller,
        body,
        Verb.UPGRADE_OS,
        lambda work, wishes: verbs.renew_image(work, body.vms, Verb.UPGRADE_OS, wishes),
    )


@router.post("/reimage", status_code=201, responses=_MADE)
async def reimage(body: bodies.OfVms, desk: Desk, caller: Asking) -> Response:
    """Make the disks of scale-set instances anew from their image."""
    return await _of_vms(
        desk,
        caller,
        body,
        Verb.REIMAGE,
        lambda work, wishes: verbs.renew_image(work, body.vms, Verb.REIMAGE, wishes),
    )


@router.post("/predict-failure", status_code=201, responses=_MADE)
async def predict_failure(
    body: bodies.PredictFailure, desk: Desk, actor: Actor
) -> Response:
    """Announce that a host will fail: each of its VMs can leave early."""

    def decide(work: Work) -> Request:
        notice = body.ahead(now=work.now, usual=work.policy.failure_notice)
        return verbs.predict_failure(work, body.host, notice, body.wishes(now=work.now))

    request = await give(desk, actor, body, decide)
    return await made(desk, request.request_id)


@router.post("/fail", status_code=201, responses=_MADE)
async def fail(body: bodies.Target, desk: Desk, actor: Actor) -> Response:
    """Say that a host or a VM is down now: no notice, its VMs see Started."""

    def decide(work: Work) -> Operation:
        if _kind_of(work, body) == "host":
            return failures.fail_host(work, body.name)
        return failures.fail_vm(work, body.name)

    operation = await give(desk, actor, body, decide)
    return await made(desk, operation.request)


@router.post("/restore", responses=documented(shapes.RestoredShape, 400, 404, 409))
async def restore(body: bodies.Target, desk: Desk, actor: Actor) -> Response:
    """Say that a host or a VM is up again: the failure's event goes."""

    def decide(work: Work) -> Host | Vm:
        if _kind_of(work, body) == "host":
            return failures.restore_host(work, body.name)
        return failures.restore_vm(work, body.name)

    restored = await give(desk, actor, body, decide)
    return answer(
        {
            "kind": "host" if isinstance(restored, Host) else "vm",
            "name": restored.name,
            "state": restored.state.value,
        }
    )


def _kind_of(work: Work, body: bodies.Target) -> str:
    """Return what the name means; refuse what is neither, or both."""
    if body.kind is not None:
        return body.kind
    vm = work.tx.get(Vm, body.name)
    is_vm = vm is not None and vm.state is not VmState.DELETED
    is_host = work.tx.get(Host, body.name) is not None
    if is_vm and is_host:
        raise RefusedError(
            f"{body.name!r} is the name of a host and of a VM",
            hint="say which: --kind host or --kind vm",
        )
    if not is_vm and not is_host:
        raise NotFoundError(
            f"there is no host or vm {body.name!r}",
            hint="names are case-sensitive; `forewarn fleet show` lists them",
        )
    return "host" if is_host else "vm"


@router.post("/cancel", responses=documented(shapes.CancelledShape, 400, 404, 409))
async def cancel(body: bodies.Cancel, desk: Desk, caller: Asking) -> Response:
    """Cancel an operation, or all of a rollout or request that has not started.

    It is removed without any impact. Started is its point of no return.
    """
    check_texts(caller, reason=body.reason)
    note = f"cancelled by {caller.name}" + (f": {body.reason}" if body.reason else "")

    def decide(work: Work) -> list[Operation]:
        if caller.tenant:
            tenancy.check_cancel(work, caller.tenant, body.name)
        return verbs.cancel(work, body.name, note=note)

    cancelled = await give(desk, caller.name, body, decide)
    names = [operation.operation_id for operation in cancelled]
    report = await desk.read(
        lambda reader: [
            reports.operation_report(
                reader, need(reader, Operation, name), now=desk.now()
            )
            for name in names
        ]
    )
    return answer({"cancelled": report})


@router.post("/approve", responses=documented(shapes.EventShape, 400, 404, 409))
async def approve(body: bodies.Approve, desk: Desk, caller: Asking) -> Response:
    """Approve an event on your own word, or in the place of a VM that sees it."""
    check_texts(caller, reason=body.reason)

    def decide(work: Work) -> Event:
        if caller.tenant:
            tenancy.check_approval(work, caller.tenant, body.event_id, body.as_vm)
        return approvals.approve_for(work, body.event_id, as_vm=body.as_vm)

    approved = await give(desk, caller.name, body, decide)
    # Read again, as the asker may see it.
    event = await desk.read(lambda reader: need(reader, Event, approved.event_id))
    return answer(event_report(event))


@router.post("/resolve", responses=documented(shapes.OperationShape, 400, 404, 409))
async def resolve(body: bodies.Resolve, desk: Desk, actor: Actor) -> Response:
    """Say what became of an operation whose outcome nobody knows."""
    await give(
        desk,
        actor,
        body,
        lambda work: outcome.resolve(
            work,
            body.operation,
            done=body.outcome == "done",
            down=tuple(body.down),
        ),
    )
    report = await desk.read(
        lambda reader: reports.operation_report(
            reader, need(reader, Operation, body.operation), now=desk.now()
        )
    )
    return answer(report)
