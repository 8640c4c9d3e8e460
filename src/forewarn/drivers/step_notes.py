"""Host steps in the notes of drivers."""

from collections.abc import Mapping
from typing import Any

from forewarn.protocol.host_steps import HostStep, StepKind


def step_from(note: Mapping[str, Any]) -> HostStep | None:
    """Return the host step of a note; None: the call is none.

    Notes of 0.1.0 have no host steps.
    """
    if not note.get("step"):
        return None
    return HostStep(
        kind=StepKind(note["step"]),
        name=note["name"],
        arguments=tuple(sorted(note["arguments"].items())),
    )
