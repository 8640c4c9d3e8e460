"""What must not be under way at the same time, and where calls have moved VMs."""

from collections.abc import Iterator

from forewarn.fleet.model import VmState
from forewarn.protocol.operations import (
    Action,
    Operation,
    OperationState,
    Verb,
)
from forewarn.store.contents import Contents
from forewarn.store.token import Token


def calls(contents: Contents) -> Iterator[str]:
    """5.2: a VM is in one driver call at a time."""
    busy: dict[str, str] = {}
    for operation in contents.open_operations:
        if (
            operation.state is not OperationState.IMPACTING
            or operation.action is Action.NONE
        ):
            continue
        for vm in operation.vms:
            other = busy.setdefault(vm, operation.operation_id)
            if other != operation.operation_id:
                yield (
                    f"operations {other} and {operation.operation_id} have driver calls "
                    f"for vm {vm} at once"
                )


def moved(contents: Contents) -> Iterator[str]:
    """5.2: what a driver call has moved is recorded where it is."""
    for operation in contents.open_operations:
        if operation.state is not OperationState.IMPACTING:
            continue
        for move in operation.moves:
            vm = contents.vms.get(move.vm)
            if vm is None or vm.state is VmState.DELETED:
                continue
            if move.done and move.to_host and vm.host != move.to_host:
                yield (
                    f"operation {operation.operation_id} has moved vm {move.vm} to host "
                    f"{move.to_host}, and it is on host {vm.host}"
                )


def failures(contents: Contents) -> Iterator[str]:
    """5.5: a VM that is down has one failure, its own or that of its host."""
    failed: dict[str, str] = {}
    for operation in contents.open_operations:
        if operation.verb is not Verb.FAIL:
            continue
        for vm in operation.vms:
            other = failed.setdefault(vm, operation.operation_id)
            if other != operation.operation_id:
                yield f"vm {vm} has two failures, {other} and {operation.operation_id}"


def announced_domains(contents: Contents) -> Iterator[str]:
    """6.3: rollouts announce one fault domain of a scope at a time.

    Hosts that were announced otherwise are not counted: a single host, and a host
    whose event is a new one after a hold.
    """
    for scope, events in contents.live_events_of_scope.items():
        first: tuple[int, str] | None = None
        told: set[str] = set()
        for event in events:
            operation = contents.operations.get(event.operation)
            if operation is None or not _is_of_rollout(operation):
                continue
            told.add(operation.operation_id)
            for domain in sorted(event.excluding_domains):
                first = first or (domain, operation.operation_id)
                if domain != first[0] and len(told) > 1:
                    yield (
                        f"rollouts have announced two fault domains of scope {scope}: "
                        f"{first[0]} by {first[1]}, and {domain} by "
                        f"{operation.operation_id}"
                    )
                    break


def _is_of_rollout(operation: Operation) -> bool:
    return operation.position > 0


def wrong_name(token: Token, contents: Contents) -> str:
    """Return who else has the name of a token, or nothing.

    Of two tokens with one name, the later must have been made after the end of the
    other: the history tells their holders apart by it.
    """
    me = f"token {token.token_id}"
    same = contents.tokens.setdefault((token.tenant, token.name.casefold()), [])
    for other in same:
        if not (_ended_before(token, other) or _ended_before(other, token)):
            return f"{me} has the name of token {other.token_id}, {token.name}"
    same.append(token)
    return ""


def _ended_before(token: Token, other: Token) -> bool:
    return token.is_expired(now=other.created_at)
