"""The agent's tables of stages and presence for `docs/explanation/event-lifecycle.md`.

The arrows come from `table.TABLE` and `presence.TABLE`, which the agent uses for its
decisions, so the page cannot differ. The agent does not import this module. It is pure.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from deploy.service_states import Machine, section
from forewarn.agent.core import presence, table
from forewarn.agent.core.lock import LockState
from forewarn.agent.core.model import Presence, Stage
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
        "Approval is separate: an event is approved in *prepared*, never in *withheld*, "
        "and only once (clauses 8.4 and 8.5)."
    ),
    table=_rows(table.TABLE, Stage),
    first=Stage.SEEN,
    states={
        Stage.SEEN: (
            "Nothing has started. The event waits for its start time or for this VM's "
            "name, or no rule applies to it."
        ),
        Stage.PREPARING: "Handlers run or wait for earlier ones.",
        Stage.PREPARED: (
            "All required handlers have prepared, or there was nothing to prepare. The "
            "rule says who approves the event."
        ),
        Stage.WITHHELD: (
            "A required handler failed or had no time left. The agent does not approve "
            "the event, but an operator can."
        ),
        Stage.RECOVERING: (
            "The event is gone, as the second table defines. Prepared handlers recover "
            "when no other event of this VM needs them, and are tried until they succeed."
        ),
        Stage.FINISHED: (
            "No recovery is pending. The agent remembers the event for a day, since an "
            "old document can show it again."
        ),
    },
)


_USUAL = GoneAfter()

PRESENCE = Machine(
    title="Whether an event is still there",
    intro=(
        "The agent checks every response of the endpoint for each event. Errors, timeouts "
        "and invalid responses are not inputs, and their time does not count. "
        "*Long enough* is set in `[gone_after]`; the durations below are the defaults. If "
        "several apply, the longest counts."
    ),
    table=_rows(presence.TABLE, Presence),
    first=Presence.LISTED,
    states={
        Presence.LISTED: "The last response lists the event, and it names this VM.",
        Presence.MISSING: (
            "Documents do not list it, and their incarnation is higher than that of the "
            "last one that did. It is gone after "
            f"{describe_duration(_USUAL.scheduled)} of such responses, or after "
            f"{describe_duration(_USUAL.started)} if it has started or can have started: "
            "it was approved, or NotBefore has passed."
        ),
        Presence.EMPTY: (
            "The endpoint responds with 200 and an empty body. The event is gone after "
            f"{describe_duration(_USUAL.empty)} of such responses."
        ),
        Presence.RESET: (
            "Documents do not list it, and their incarnation is not higher: the "
            "metadata server was restarted, or another one responds. The event is gone "
            f"after {describe_duration(_USUAL.reset)} of such responses."
        ),
        Presence.GONE: "It is gone, and prepared handlers recover.",
        Presence.RETURNING: (
            "It was gone, and one document, which can be old, lists it again. The next "
            "response decides. If the recovery of a returned event had started, the agent "
            "prepares for it again."
        ),
    },
)

ANSWERS: Mapping[Answer, str] = {
    Answer.LISTED: (
        "a document lists the event, and does not say that it no longer names this VM. "
        "This holds even if other members of the event cannot be read"
    ),
    Answer.MISSING: (
        "a document with a higher incarnation than the last that listed it does not"
    ),
    Answer.RESET: "a document with no such incarnation does not list it",
    Answer.EMPTY: "status 200 and an empty body",
    Answer.UNREADABLE: (
        "a document does not list it, but has an entry with an unreadable EventId, which "
        "can be this event. Nothing changes, and the time does not count"
    ),
    Answer.RENAMED: (
        "a document does not list it, and lists an unknown event of the same type, "
        "source and resources that has started, or that waits for the same NotBefore"
    ),
    Answer.LONG_ENOUGH: "responses have said the same for long enough",
}
"""The meaning of each input of `PRESENCE`."""


LOCK = Machine(
    title="The lock that limits approvals",
    intro=(
        "[Approve at most N VMs at once](../how-to/agent/lock.md) describes its use. "
        "One VM has one slot in the lock, whatever the number of its events. An event "
        "is approved while the lock is *held* or *pausing*."
    ),
    table=_rows(table.LOCK_TABLE, LockState),
    first=LockState.UNKNOWN,
    states={
        LockState.UNKNOWN: (
            "The journal is new, or the settings name another lock. An earlier agent "
            "of this VM can hold it, so it is released once, unless an event is in "
            "progress."
        ),
        LockState.FREE: "This VM does not hold it.",
        LockState.WANTED: (
            "An event is ready for approval. The agent requests the lock repeatedly until "
            "it gets it, even after the deadline, because the VM will be unavailable and "
            "other VMs should wait."
        ),
        LockState.HELD: (
            "The server has confirmed that this VM holds it. If the lock expires, the agent "
            "renews it three times within that time."
        ),
        LockState.PAUSING: (
            "Every event that needed it is over, but the pause has not passed yet. A "
            "new event of this VM is approved at once."
        ),
        LockState.RELEASING: (
            "The agent releases it repeatedly until the server confirms the release."
        ),
    },
)


def page() -> str:
    """Return the part of `docs/explanation/event-lifecycle.md` about the agent."""
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
