"""What is not over yet, and why, in sentences."""

from collections.abc import Iterable

from forewarn.control.rules import obstacles
from forewarn.instants import Micros
from forewarn.protocol.operations import ENDED_STATES, Operation, Verb
from forewarn.reporting import explanations
from forewarn.store.port import Reader
from forewarn.wording import operators


def told(reader: Reader, operations: Iterable[Operation], *, now: Micros) -> list[str]:
    """Return a sentence for each operation that has not ended."""
    found: list[str] = []
    for operation in filter(_goes_on, operations):
        why = "; ".join(
            explanations.of_operation(reader, operation, now=now)["blocked_by"]
        )
        stands = f"is {operation.state.value}"
        found.append(f"{operators.task(operation)} {stands}{f': {why}' if why else ''}")
    return found


def hindered(reader: Reader, operations: Iterable[Operation]) -> str:
    """Return what keeps the first operation from its start that has not ended.

    Empty: all of them have ended.
    """
    for operation in filter(_goes_on, operations):
        blockers = obstacles.why_not_start(reader, operation)
        why = "; ".join(operators.reasons(blockers))
        return f"{operators.task(operation)}: {why or 'it does not come to its end'}"
    return ""


def _goes_on(operation: Operation) -> bool:
    """Tell whether it has to end by itself: a failure lasts until it is restored."""
    return operation.state not in ENDED_STATES and operation.verb is not Verb.FAIL
