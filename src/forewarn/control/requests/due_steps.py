"""The decisions about operations whose timers are due, for one transaction."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from forewarn.control.execution import ending
from forewarn.control.requests import again, outcome, rollouts
from forewarn.control.rules.together import count_apart
from forewarn.control.transactions.batch import Step
from forewarn.control.transactions.work import Work
from forewarn.protocol.operations import CallState, Operation, OperationState


def first_steps(due: Sequence[Operation]) -> list[Step]:
    """Return the decisions about the first operations of `due`.

    They end before an operation about which the driver must be asked, and before one that
    may not share their transaction (`rules.together`). A decision does
    nothing if an earlier one of the transaction has changed its operation: if that is
    still due then, the next iteration finds it.
    """
    return list(_first_steps(due[: count_apart(due)]))


def _first_steps(due: Sequence[Operation]) -> Iterator[Step]:
    for operation in due:
        decide = _decision(operation)
        if decide is None:
            return
        yield partial(_if_unchanged, operation, decide)


def _decision(operation: Operation) -> Callable[[Work, str], object] | None:
    """Return the decision about an operation; None: the driver must be asked."""
    state = operation.state
    if state is OperationState.PLANNED:
        return rollouts.waited_long
    if state in {OperationState.ANNOUNCED, OperationState.READY}:
        return again.recheck
    if state is OperationState.RECOVERING:
        return ending.recovered
    return outcome.call_again if operation.call_state is CallState.RETRY else None


def _if_unchanged(
    operation: Operation, decide: Callable[[Work, str], object], work: Work
) -> None:
    if work.tx.get(Operation, operation.key) == operation:
        decide(work, operation.key)
