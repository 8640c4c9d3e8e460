"""Render a table of states as a diagram and a section of a page."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from forewarn.protocol.frozen import frozen_dataclass

Table = Mapping[Any, Mapping[Any, Any]]


@frozen_dataclass
class Machine:
    """A table with its texts for the page."""

    title: str
    intro: str
    table: Table
    first: enum.Enum
    states: Mapping[Any, str]
    """A paragraph about each state, in the order of the page."""


def mermaid(machine: Machine) -> str:
    """Return the table as a mermaid state diagram.

    Inputs with the same transition share an arrow. A state without outgoing transitions
    is an end state.
    """
    lines = ["stateDiagram-v2", f"    [*] --> {machine.first.value}"]
    for state, steps in machine.table.items():
        arrows: dict[Any, list[str]] = {}
        for given, target in steps.items():
            arrows.setdefault(target, []).append(given.value)
        for target, inputs in arrows.items():
            label = " / ".join(inputs)
            lines.append(f"    {state.value} --> {target.value}: {label}")
        if not arrows.keys() - {state}:
            lines.append(f"    {state.value} --> [*]")
    return "\n".join(lines)


def section(machine: Machine) -> str:
    """Return the section of the page about one table."""
    return "\n\n".join(
        [
            f"## {machine.title}",
            machine.intro,
            f"```mermaid\n{mermaid(machine)}\n```",
            *(f"**{state.value}.** {text}" for state, text in machine.states.items()),
        ]
    )
