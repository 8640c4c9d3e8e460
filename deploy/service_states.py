"""Describe the state tables of the protocol in docs/explanation/event-lifecycle.md.

The arrows come from the tables that decide, so the page cannot say otherwise. What
a state means is written here, a paragraph for each.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from forewarn.protocol.events import EventStatus
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.protocol.lifecycle import (
    EVENT_STEPS,
    OPERATION_STEPS,
    REQUEST_STEPS,
    VIEW_STEPS,
    ViewState,
)
from forewarn.protocol.operations import OperationState, RequestState

Table = Mapping[Any, Mapping[Any, Any]]


@frozen_dataclass
class Machine:
    """A table with what a reader must be told about it."""

    title: str
    intro: str
    table: Table
    first: enum.Enum
    states: Mapping[Any, str]
    """A paragraph for each state, in the order of the page."""


EVENT = Machine(
    title="Event",
    intro=(
        "What one scope sees of one operation. Documents show it while it is Scheduled "
        "or Started (clauses 2.6 and 4.1)."
    ),
    table=EVENT_STEPS,
    first=EventStatus.NEW,
    states={
        EventStatus.NEW: (
            "It has been made in this transaction and nobody has been told. No event is "
            "New when a transaction ends."
        ),
        EventStatus.SCHEDULED: (
            "It is announced. VMs prepare, and approve or let NotBefore come. It can "
            "still be cancelled, and then nothing happens to them."
        ),
        EventStatus.STARTED: (
            "The impact has begun, or is about to: this status is durable and served "
            "before a VM is touched. There is no way back. It lasts through the "
            "recovery time."
        ),
        EventStatus.REMOVED: (
            "No document shows it. It is kept for the retention time, so that late "
            "approvals are answered with 200 (3.2) and history can tell of it."
        ),
    },
)

OPERATION = Machine(
    title="Operation",
    intro=(
        "What is done at one time to one host or one VM. It is what the platform works "
        "on; its events follow it."
    ),
    table=OPERATION_STEPS,
    first=OperationState.PLANNED,
    states={
        OperationState.PLANNED: (
            "It has been decided and has no events yet: nobody has been told. A host of "
            "a rollout stays Planned until its turn comes; every other operation leaves "
            "this state in the transaction that made it."
        ),
        OperationState.ANNOUNCED: (
            "Its events are Scheduled. It waits until all of them are approved or "
            "NotBefore comes; deletions of one request wait for each other (3.6)."
        ),
        OperationState.READY: (
            "It has been let go and waits for what it must not collide with: the guard "
            "of 6.3, another operation that has one of its VMs in hand, or a host with "
            "room. `forewarn explain` says what it is."
        ),
        OperationState.IMPACTING: (
            "It is past the point of no return: Started is durable. The driver works, "
            "or is called again, or an operator must say what became of it; a failure "
            "stays here until its VMs run again."
        ),
        OperationState.RECOVERING: (
            "The impact is over. Its events stay Started for the recovery time, and its "
            "fault domain stays occupied."
        ),
        OperationState.DONE: "It went well and its events are gone.",
        OperationState.CANCELLED: (
            "It ended before it started, without an impact: by an operator, because its "
            "rollout stopped, because a failure overtook it, because all its VMs left, "
            "or because it was held too long and announced anew (4.2)."
        ),
        OperationState.FAILED: (
            "It started and could not be done. VMs that are down because of it have a "
            "failure's event by now (4.3)."
        ),
    },
)

REQUEST = Machine(
    title="Request",
    intro=(
        "One order, with the operations that it caused. A rollout is a request over "
        "several hosts or instances."
    ),
    table=REQUEST_STEPS,
    first=RequestState.OPEN,
    states={
        RequestState.OPEN: "Some of its operations have not ended.",
        RequestState.STOPPED: (
            "One of its operations failed. In a rollout those that had not started were "
            "cancelled (4.5); those that had go on to their end."
        ),
        RequestState.CANCELLED: (
            "An operator stopped what had not started; what had goes on to its end."
        ),
        RequestState.CLOSED: "All its operations have ended, and nothing stopped it.",
    },
)

VIEW = Machine(
    title="View",
    intro=(
        "The VMs that are served the same list of events. Views that are enabled "
        "together change together (7.2)."
    ),
    table=VIEW_STEPS,
    first=ViewState.DISABLED,
    states={
        ViewState.DISABLED: (
            "Nobody listens: there is no document, a user's order waits for nobody, and "
            "live events cannot be approved (7.4, 3.3)."
        ),
        ViewState.ENABLED: (
            "Somebody has asked within the last day. Each time it comes here its "
            "incarnation begins at 1 (2.10)."
        ),
    },
)

MACHINES = (EVENT, OPERATION, REQUEST, VIEW)


def mermaid(machine: Machine) -> str:
    """Return the table as a mermaid state diagram.

    Inputs that lead the same way share an arrow. A state that nothing leads out
    of is an end.
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
    """Return the part of the page about one table, from its heading on."""
    return "\n\n".join(
        [
            f"## {machine.title}",
            machine.intro,
            f"```mermaid\n{mermaid(machine)}\n```",
            *(f"**{state.value}.** {text}" for state, text in machine.states.items()),
        ]
    )


def page() -> str:
    """Return the part of `docs/explanation/event-lifecycle.md` about the service."""
    return "\n\n".join(map(section, MACHINES)) + "\n"
