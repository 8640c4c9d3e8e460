"""A call with the input of its programs, and its form on the disk."""

from dataclasses import dataclass
from typing import Any

from forewarn.drivers.port import Call, CallVm
from forewarn.protocol.operations import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The program of one VM."""

    vm: str
    to_host: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A call as it was accepted, with the input of its programs."""

    call: Call
    runs: tuple[Run, ...]
    timeout: float | None
    """Maximum seconds for each program; None: no limit."""
    grace: float
    """Seconds between SIGTERM and SIGKILL."""


def note_of(plan: Plan) -> dict[str, Any]:
    """Return the call in the form that its directory keeps and its shims read."""
    call = plan.call
    said = {
        "action": call.action.value,
        "operation": call.operation_id,
        "generation": call.generation,
        "host": call.host,
        "seconds": call.duration_seconds,
    }
    runs = [
        {
            "vm": run.vm,
            "to_host": run.to_host,
            "words": run.words,
            "input": {**said, "vm": run.vm, "to_host": run.to_host or None},
        }
        for run in plan.runs
    ]
    return {**said, "timeout": plan.timeout, "grace": plan.grace, "runs": runs}


def plan_from(note: dict[str, Any]) -> Plan:
    """Return the call of a note; raises KeyError, ValueError, TypeError."""
    runs = tuple(
        Run(vm=run["vm"], to_host=run["to_host"], words=tuple(run["words"]))
        for run in note["runs"]
    )
    return Plan(
        call=Call(
            operation_id=note["operation"],
            generation=note["generation"],
            action=Action(note["action"]),
            host=note["host"],
            vms=tuple(CallVm(vm=run.vm, to_host=run.to_host) for run in runs),
            duration_seconds=note["seconds"],
        ),
        runs=runs,
        timeout=note["timeout"],
        grace=note["grace"],
    )
