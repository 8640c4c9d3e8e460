"""Render the tables of the agent for `docs/explanation/event-lifecycle.md`.

The transitions come from `table.TABLE` and `presence.TABLE`, which decide. The agent does
not import this module.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from deploy.state_pages import Machine, section
from forewarn.agent.core import presence, table
from forewarn.agent.core.model import Presence, Stage
from forewarn.agent.core.permits import LockState
from forewarn.agent.core.policy import GoneAfter
from forewarn.agent.core.presence import Answer
from forewarn.instants import describe_duration


def _rows(
    arrows: Mapping[tuple[Any, Any], Any], states: type[enum.Enum]
) -> Mapping[Any, Mapping[Any, Any]]:
    return {
        state: {given: target for (at, given), target in arrows.items() if at is state}
        for state in states
    }


TASK = Machine(
    title="Stages of an event in the agent",
    intro=(
        "Approval is separate from the stage: an event is approved in the stage "
        "*prepared*, never in *withheld*, and only once (clauses 8.4 and 8.5)."
    ),
    table=_rows(table.TABLE, Stage),
    first=Stage.SEEN,
    states={
        Stage.SEEN: (
            "No work has started. The event waits for its time, or for a document that "
            "names this VM, or no rule requires any work."
        ),
        Stage.PREPARING: "Handlers run or wait.",
        Stage.PREPARED: (
            "All required handlers succeeded, or no preparation was needed. The rule "
            "decides who approves the event."
        ),
        Stage.WITHHELD: (
            "A required handler failed or had no time left. The agent does not approve "
            "the event, but an operator can."
        ),
        Stage.RECOVERING: (
            "The event is gone, as defined in the second table. Each preparation is "
            "recovered when no other event of this VM needs it. A failed recovery is "
            "repeated until it succeeds."
        ),
        Stage.FINISHED: (
            "No recovery is pending. The event is stored for one day, because an old "
            "document can show it again."
        ),
    },
)


_USUAL = GoneAfter()

PRESENCE = Machine(
    title="Presence of an event",
    intro=(
        "Every response of the endpoint is an input for each event. Errors, timeouts and "
        "unreadable responses are not inputs, and their time does not count. "
        "`[gone_after]` sets *long enough*. The times below are the defaults; if several "
        "apply, the longest one counts."
    ),
    table=_rows(presence.TABLE, Presence),
    first=Presence.LISTED,
    states={
        Presence.LISTED: "The last response lists the event, and the event names this VM.",
        Presence.MISSING: (
            "Documents do not list it, and their incarnation is higher than that of the "
            "last document that did. It is gone after "
            f"{describe_duration(_USUAL.scheduled)} of such responses. If it has "
            "started, or may have started because it was approved or NotBefore has "
            f"passed, it is gone after {describe_duration(_USUAL.started)}."
        ),
        Presence.EMPTY: (
            "The endpoint returns 200 with an empty body. The event is gone after "
            f"{describe_duration(_USUAL.empty)} of such responses."
        ),
        Presence.RESET: (
            "Documents do not list it, and their incarnation is not higher: the "
            "metadata server was restarted, or another server responds. It is gone after "
            f"{describe_duration(_USUAL.reset)} of such responses."
        ),
        Presence.GONE: "The event is gone, and its preparations are recovered.",
        Presence.RETURNING: (
            "It was gone, and one document lists it again. This can be an old document, so "
            "the next response decides. If the event is back and its recovery had "
            "started, it is prepared again."
        ),
    },
)

ANSWERS: Mapping[Answer, str] = {
    Answer.LISTED: (
        "a document lists the event, and nothing shows that it no longer names this VM. "
        "Unreadable members of the event do not matter"
    ),
    Answer.MISSING: (
        "a document does not list it, and has a higher incarnation than the last one "
        "that did"
    ),
    Answer.RESET: "a document without a higher incarnation does not list it",
    Answer.EMPTY: "status 200 and an empty body",
    Answer.UNREADABLE: (
        "a document does not list it, and has an entry whose EventId cannot be read. "
        "The entry can be this event, so nothing changes, and the time does not count"
    ),
    Answer.RENAMED: (
        "a document does not list it, but lists an unknown event of the same type, "
        "source and resources that has started or has the same NotBefore"
    ),
    Answer.LONG_ENOUGH: "the responses have been the same for long enough",
}
"""Meaning of each input of `PRESENCE`."""


LOCK = Machine(
    title="The lock that limits approvals",
    intro=(
        "[Approve at most N VMs at once](../how-to/agent/lock.md) describes its purpose. "
        "A VM has one slot in the lock for all its events. An event is approved while "
        "the lock is *held* or *pausing*."
    ),
    table=_rows(table.LOCK_TABLE, LockState),
    first=LockState.UNKNOWN,
    states={
        LockState.UNKNOWN: (
            "The journal is new, or the settings name another lock. An earlier agent of "
            "this VM can hold the lock, so it is released once, unless an event is being "
            "handled."
        ),
        LockState.FREE: "This VM does not hold it.",
        LockState.WANTED: (
            "An event can be approved. The agent requests the lock until it gets it, even "
            "after the deadline: the VM will be down, and other VMs should wait for it."
        ),
        LockState.HELD: (
            "The server has confirmed that this VM holds it. If the lock expires, the agent "
            "renews it three times within that time."
        ),
        LockState.PAUSING: (
            "All events that needed it have ended, and the pause has not passed yet. A new "
            "event of this VM can be approved at once."
        ),
        LockState.RELEASING: (
            "The agent releases it, and repeats this until the server confirms."
        ),
    },
)


def page() -> str:
    """Return the agent sections of `docs/explanation/event-lifecycle.md`."""
    inputs = [f"- *{answer.value}*: {text}." for answer, text in ANSWERS.items()]
    return (
        "\n\n".join(
            [
                section(TASK),
                section(PRESENCE),
                "The inputs:",
                "\n".join(inputs),
                section(LOCK),
            ]
        )
        + "\n"
    )
