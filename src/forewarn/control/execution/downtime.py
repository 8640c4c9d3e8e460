"""When VMs were there and when they did not run, written as it happens.

A span is written in the transaction that changes the VM, so a crash leaves both or
neither. Each VM of the fleet has one open existence. At most one interruption of it
is open, and one is whenever it is down or a call that stops it is under way:

* An impact counts from the driver's call until its report; after a call that failed
  and left the VM down, until a later one, or its failure, has ended.
* A freeze or a migration counts as long as the driver says that it lasted, where it
  says so; a migration that nobody measured is no longer than its call, and noted
  as such.
* A failure counts from its report until the VM runs again. What befalls a VM that
  is down already is part of that.
"""

from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Span, SpanKind, Vm, VmState
from forewarn.instants import Micros
from forewarn.protocol.frozen import changed
from forewarn.protocol.operations import Action, Operation
from forewarn.store import kinds
from forewarn.store.port import every

_KINDS = {
    Action.FREEZE: SpanKind.FREEZE,
    Action.LIVE_MIGRATE: SpanKind.LIVE_MIGRATE,
    Action.REBOOT: SpanKind.REBOOT,
    Action.REDEPLOY: SpanKind.REDEPLOY,
    Action.REIMAGE: SpanKind.REIMAGE,
}
"""What an action is to its VMs; a deletion ends them, and is no interruption."""


def appear(work: Work, vm: Vm) -> None:
    """Note that a VM is in the fleet, in its scope, from now on."""
    _open(work, vm, SpanKind.EXISTENCE)


def vanish(work: Work, name: str) -> None:
    """Note that a VM is no more."""
    for span in _open_spans(work, name):
        _close(work, span)


def change_scope(work: Work, vm: Vm) -> None:
    """Note that a VM is in another scope, or its scope another tenant's."""
    vanish(work, vm.name)
    appear(work, vm)
    if vm.state is VmState.DOWN:
        _open(work, vm, SpanKind.FAILURE)


def impact_begins(work: Work, operation: Operation, vms: tuple[str, ...]) -> None:
    """Note that a call stops these VMs, unless something has stopped them before."""
    kind = _KINDS.get(operation.action)
    if kind is None:
        return
    for name in vms:
        vm = work.tx.get(Vm, name)
        if vm is None or vm.state is VmState.DELETED:
            continue
        if _is_untouched(operation, vm) or not _outage(work, vm):
            # How long a migration's pause is, only its driver can tell.
            _open(
                work,
                vm,
                kind,
                operation=operation.operation_id,
                is_exact=kind is not SpanKind.LIVE_MIGRATE,
            )


def _is_untouched(operation: Operation, vm: Vm) -> bool:
    """Tell whether nothing can have stopped a VM before the operation's first call.

    A VM that runs is interrupted only by an operation that has started on it.
    """
    return (
        vm.state is VmState.RUNNING
        and vm.started == (operation.operation_id,)
        and operation.generation == 1
    )


def impact_over(work: Work, vm: Vm, *, paused: Micros | None) -> None:
    """Note that a call has let go of a VM that runs.

    `paused` is how long it stood still, where the driver measured it.
    """
    outage = _outage(work, vm)
    if outage is None or vm.state is not VmState.RUNNING:
        return
    if paused is not None:
        measured = max(outage.began, work.now - paused)
        outage = work.tx.replace(outage, changed(outage, began=measured, is_exact=True))
    _close(work, outage)


def taken_off(work: Work, operation: Operation, vm: Vm) -> None:
    """Note that an operation, or a call of it that failed, has let go of a VM."""
    outage = _outage(work, vm)
    if (
        outage is not None
        and outage.operation == operation.operation_id
        and vm.state is VmState.RUNNING
    ):
        _close(work, outage)


def left_down(work: Work, operation: Operation) -> tuple[str, ...]:
    """Return the VMs that the last call of an operation failed for and left down."""
    vms = (work.tx.get(Vm, name) for name in operation.vms)
    return tuple(
        vm.name
        for vm in vms
        if vm is not None
        and (outage := _outage(work, vm)) is not None
        and outage.operation == operation.operation_id
    )


def failed(work: Work, operation: Operation) -> None:
    """Note that the VMs of a failure are down; those that were, go on to be."""
    for name in operation.vms:
        vm = work.vm(name)
        outage = _outage(work, vm)
        if outage is not None and outage.kind is not SpanKind.FAILURE:
            _close(work, outage)
            outage = None
        if outage is None:
            _open(work, vm, SpanKind.FAILURE, operation=operation.operation_id)


def runs_again(work: Work, vm: Vm) -> None:
    """Note that a VM that was down runs."""
    outage = _outage(work, vm)
    if outage is not None:
        _close(work, outage)


def forget(work: Work, span: Span) -> None:
    """Delete a time that is over: what was before its end is unknown from now on.

    Otherwise a VM would seem never to have been down while it is not known.
    """
    work.tx.remove(span)
    if not span.is_outage:
        return
    for life in every(work.tx, kinds.SPANS_OF_VM, span.vm):
        # An existence keeps its id, and so stands before all its interruptions.
        has_it = life.began <= span.began and (life.is_open or span.ended <= life.ended)
        if has_it and not life.is_outage:
            work.tx.replace(life, changed(life, began=span.ended, is_exact=False))
            return


def _open(
    work: Work, vm: Vm, kind: SpanKind, *, operation: str = "", is_exact: bool = True
) -> None:
    work.tx.add(
        Span(
            span_id=f"{vm.name}/{work.span_id(work.now)}",
            vm=vm.name,
            scope=vm.scope,
            tenant=vm.tenant,
            fault_domain=vm.fault_domain,
            kind=kind,
            operation=operation,
            began=work.now,
            is_exact=is_exact,
        )
    )


def _close(work: Work, span: Span) -> None:
    # A step of the wall clock back makes it short, never shorter than nothing.
    work.tx.replace(span, changed(span, ended=max(span.began, work.now)))


def _open_spans(work: Work, name: str) -> list[Span]:
    return work.tx.select(kinds.OPEN_SPANS_OF_VM, name)


def _outage(work: Work, vm: Vm) -> Span | None:
    for span in _open_spans(work, vm.name):
        if span.is_outage:
            return span
    return None
