"""Record the existence and the interruptions of VMs as spans.

A span is stored in the transaction that changes the VM, so a crash leaves both or
neither. Each VM of the fleet has one open existence. A VM has one open interruption while
it is down, and while a driver call stops it:

* An impact counts from the driver call until its report. If the call failed and left the
  VM down, it counts until a later call, or the failure, ends.
* A freeze or a migration has the length that the driver reports. Without a report of the
  length, a migration counts as its whole call, marked as an upper bound.
* A failure counts from its report until the VM runs again. Anything that happens to a VM
  while it is down is part of the same interruption.
"""

from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Span, SpanKind, Vm, VmState
from forewarn.instants import Micros
from forewarn.protocol.frozen import changed, maker_of
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
"""Interruption by action. A deletion is not an interruption."""

_make_span = maker_of(
    Span,
    (
        *("span_id", "vm", "scope", "tenant", "fault_domain"),
        *("kind", "operation", "began", "ended", "is_exact", "revision"),
    ),
)
"""Returns a span of its values, in a part of the time of the constructor: a fleet file has
a million of them."""


def appear(work: Work, vm: Vm) -> None:
    """Record that a VM is in the fleet, in its scope, from now on."""
    _open(work, vm, SpanKind.EXISTENCE)


def vanish(work: Work, name: str) -> None:
    """Record that a VM has left the fleet."""
    for span in _open_spans(work, name):
        _close(work, span)


def change_scope(work: Work, vm: Vm) -> None:
    """Record that a VM has another scope or tenant."""
    vanish(work, vm.name)
    appear(work, vm)
    if vm.state is VmState.DOWN:
        _open(work, vm, SpanKind.FAILURE)


def impact_begins(work: Work, operation: Operation, vms: tuple[str, ...]) -> None:
    """Record that a call stops these VMs, unless they are already stopped."""
    kind = _KINDS.get(operation.action)
    if kind is None:
        return
    for name in vms:
        vm = work.tx.get(Vm, name)
        if vm is None or vm.state is VmState.DELETED:
            continue
        if _is_untouched(operation, vm) or not _outage(work, vm):
            # Only the driver can measure the pause of a migration.
            _open(
                work,
                vm,
                kind,
                operation=operation.operation_id,
                is_exact=kind is not SpanKind.LIVE_MIGRATE,
            )


def _is_untouched(operation: Operation, vm: Vm) -> bool:
    """Return whether no earlier work can have stopped a VM before the first call.

    A running VM is interrupted only by an operation that has started on it.
    """
    return (
        vm.state is VmState.RUNNING
        and vm.started == (operation.operation_id,)
        and operation.generation == 1
    )


def impact_over(work: Work, vm: Vm, *, paused: Micros | None) -> None:
    """Record that a call has ended for a VM that runs.

    `paused` is the length of its pause, if the driver measured it.
    """
    outage = _outage(work, vm)
    if outage is None or vm.state is not VmState.RUNNING:
        return
    if paused is not None:
        measured = max(outage.began, work.now - paused)
        outage = work.tx.replace(outage, changed(outage, began=measured, is_exact=True))
    _close(work, outage)


def taken_off(work: Work, operation: Operation, vm: Vm) -> None:
    """Record that an operation, or a failed call of it, has ended for a VM."""
    outage = _outage(work, vm)
    if (
        outage is not None
        and outage.operation == operation.operation_id
        and vm.state is VmState.RUNNING
    ):
        _close(work, outage)


def left_down(work: Work, operation: Operation) -> tuple[str, ...]:
    """Return the VMs that the last failed call of an operation left down."""
    vms = (work.tx.get(Vm, name) for name in operation.vms)
    return tuple(
        vm.name
        for vm in vms
        if vm is not None
        and (outage := _outage(work, vm)) is not None
        and outage.operation == operation.operation_id
    )


def failed(work: Work, operation: Operation) -> None:
    """Record that the VMs of a failure are down; an open failure continues."""
    for name in operation.vms:
        vm = work.vm(name)
        outage = _outage(work, vm)
        if outage is not None and outage.kind is not SpanKind.FAILURE:
            _close(work, outage)
            outage = None
        if outage is None:
            _open(work, vm, SpanKind.FAILURE, operation=operation.operation_id)


def runs_again(work: Work, vm: Vm) -> None:
    """Record that a VM runs again."""
    outage = _outage(work, vm)
    if outage is not None:
        _close(work, outage)


def forget(work: Work, span: Span) -> None:
    """Delete an ended span. The time up to its end becomes unknown.

    Without this, the VM would seem to have been up in the deleted time.
    """
    work.tx.remove(span)
    if not span.is_outage:
        return
    for life in every(work.tx, kinds.SPANS_OF_VM, span.vm):
        # The span of an existence keeps its ID, so it sorts before all interruptions of
        # the VM.
        has_it = life.began <= span.began and (life.is_open or span.ended <= life.ended)
        if has_it and not life.is_outage:
            work.tx.replace(life, changed(life, began=span.ended, is_exact=False))
            return


def _open(
    work: Work, vm: Vm, kind: SpanKind, *, operation: str = "", is_exact: bool = True
) -> None:
    values = (
        f"{vm.name}/{work.span_id(work.now)}",
        *(vm.name, vm.scope, vm.tenant, vm.fault_domain),
        *(kind, operation, work.now, 0, is_exact, 0),
    )
    work.tx.add(_make_span(values))


def _close(work: Work, span: Span) -> None:
    # After a clock step back, the length is at least zero.
    work.tx.replace(span, changed(span, ended=max(span.began, work.now)))


def _open_spans(work: Work, name: str) -> list[Span]:
    return work.tx.select(kinds.OPEN_SPANS_OF_VM, name)


def _outage(work: Work, vm: Vm) -> Span | None:
    for span in _open_spans(work, vm.name):
        if span.is_outage:
            return span
    return None
