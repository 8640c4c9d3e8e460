"""Sentences about problems, for operators, and with redacted values for tenants."""

from collections.abc import Collection

from forewarn.instants import Micros, describe_duration
from forewarn.problems import listed
from forewarn.protocol.operations import Operation
from forewarn.protocol.verbs import TargetKind
from forewarn.wording import operators


def down(operation: Operation) -> str:
    """Return the VMs or the host that a failure keeps down."""
    if operation.target_kind is TargetKind.VM or not operation.target:
        return f"VM {listed(operation.vms)} is down"
    count = len(operation.vms)
    if not count:
        return f"host {operation.target} is down, with no VMs on it"
    vms = f"VM{'' if count == 1 else 's'} {listed(operation.vms)}"
    return f"host {operation.target} is down, and {vms} with it"


def outcome_unknown(operation: Operation) -> str:
    """Return that the outcome of an operation's call is unknown."""
    why = operators.note(operation.note)
    return f"the outcome of {operators.task(operation)} is unknown" + (
        f": {why}" if why else ""
    )


def driver_failing(operation: Operation, *, now: Micros) -> str:
    """Return that the driver failed and will be called again."""
    left = describe_duration(max(0, operation.due_at - now))
    why = operators.note(operation.note) or "a VM has no destination"
    return (
        f"{operators.task(operation)} failed {operation.attempts} times ({why}); the "
        f"next attempt is in {left}"
    )


def approval_late(
    operation: Operation, tenants: Collection[str], *, now: Micros
) -> str:
    """Return a sentence with the tenants whose approval is missing shortly before
    NotBefore."""
    left = describe_duration(max(0, operation.not_before - now))
    have = "has" if len(tenants) == 1 else "have"
    return (
        f"{listed(tenants)} {have} not approved {operators.task(operation)}, which "
        f"starts in {left}"
    )


def held(operation: Operation, why: str) -> str:
    """Return the reason that holds a ready operation."""
    return f"{operators.task(operation)} is ready and held: {why}"


def webhook_late(name: str, pending: int, error: str) -> str:
    """Return that a receiver does not accept its messages."""
    why = f" (last error: {error})" if error else ""
    return f"webhook {name} has {pending} pending messages{why}"
