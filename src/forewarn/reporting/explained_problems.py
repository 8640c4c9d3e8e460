"""Explanations of open problems, by the IDs that their list has."""

from typing import Any, TypeAlias

from forewarn.control.redaction import tenant_reader
from forewarn.instants import Micros
from forewarn.protocol.operations import Operation
from forewarn.reporting import attention
from forewarn.reporting.attention import ProblemKind, Surroundings
from forewarn.reporting.explanation import explanation, of_operations
from forewarn.store.port import Reader

Json: TypeAlias = dict[str, Any]

_KINDS = frozenset(kind.value for kind in ProblemKind)


def is_id(name: str) -> bool:
    """Return whether a name has the form of the ID of a problem: `vm-down:op-…`."""
    kind, _, rest = name.partition(":")
    return kind in _KINDS and bool(rest)


def explain(
    reader: Reader, name: str, around: Surroundings, *, now: Micros
) -> Json | None:
    """Return a problem with the reasons of its operation; None: it is not open."""
    reader = tenant_reader.remembered(reader)
    for problem in attention.problems(reader, around, now=now):
        if problem.problem_id != name:
            continue
        named = tenant_reader.real_id(reader, problem.operation)
        operation = reader.get(Operation, named) if named else None
        documents, reasons = of_operations(
            reader, [operation] if operation else [], now=now
        )
        return explanation(
            "problem",
            name,
            what=f"problem {name}",
            state="open",
            status=problem.text,
            blockers=reasons,
            operations=documents,
        )
    return None
