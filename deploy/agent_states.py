"""The tables of stages and presence as text for people: `docs/explanation/event-lifecycle.md`.

The arrows come from `table.TABLE` and `presence.TABLE`, which decide, so the page
cannot say otherwise.
Nothing that runs in a VM imports this. Pure.
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
    title="An event, as the agent in a VM remembers it",
    intro=(
        "Approval stands beside it: an event is approved from *prepared*, never from "
        "*withheld*, and only once (clauses 8.4 and 8.5)."
    ),
    table=_rows(table.TABLE, Stage),
    first=Stage.SEEN,
    states={
        Stage.SEEN: (
            "Nothing was begun. It waits for its time, for this VM's name, or for "
            "ever, since no rule wants anything done about it."
        ),
        Stage.PREPARING: "Handlers run, or wait for their turn.",
        Stage.PREPARED: (
            "All that is required was prepared, or there was nothing to prepare. The "
            "rule says who approves it now."
        ),
        Stage.WITHHELD: (
            "A required handler failed, or there was no time left for it. Nobody here "
            "approves it, but an operator may."
        ),
        Stage.RECOVERING: (
            "The event is gone, as the second table says. What was prepared is recovered, "
            "once no other event of this VM needs it, and is tried until it "
            "works."
        ),
        Stage.FINISHED: (
            "Nothing is owed. It is remembered for a day, since an old document may "
            "show it again."
        ),
    },
)


_USUAL = GoneAfter()

PRESENCE = Machine(
    title="Whether an event is still there",
    intro=(
        "Every answer of the endpoint is judged for each event. An error, a timeout and "
        "an answer that cannot be read are no input: they say nothing, and no time "
        "passes during them. *Long enough* is set in `[gone_after]`; the lengths below "
        "are the defaults, and of those that apply the longest counts."
    ),
    table=_rows(presence.TABLE, Presence),
    first=Presence.LISTED,
    states={
        Presence.LISTED: "The last answer lists the event, and it names this VM.",
        Presence.MISSING: (
            "Documents do not list it, and their incarnation is higher than that of the "
            "last one that did. It is gone after "
            f"{describe_duration(_USUAL.scheduled)} of such answers; after "
            f"{describe_duration(_USUAL.started)} where it has started, or may have: it "
            "was approved, or NotBefore has passed."
        ),
        Presence.EMPTY: (
            "The endpoint answers 200 with an empty body. It is gone after "
            f"{describe_duration(_USUAL.empty)} of such answers."
        ),
        Presence.RESET: (
            "Documents do not list it, and their incarnation is not higher: the "
            "metadata server was restarted, or another one answers. It is gone after "
            f"{describe_duration(_USUAL.reset)} of such answers."
        ),
        Presence.GONE: "It is gone: what was prepared is recovered.",
        Presence.RETURNING: (
            "It was gone, and one document lists it, which may be an old one. The next "
            "answer decides. An event that is back is prepared for again if its "
            "recovery had begun."
        ),
    },
)

ANSWERS: Mapping[Answer, str] = {
    Answer.LISTED: (
        "a document lists the event, and does not say that it no longer names this VM; "
        "whatever else of it cannot be read, it is there"
    ),
    Answer.MISSING: (
        "a document with a higher incarnation than the last that listed it does not"
    ),
    Answer.RESET: "a document with no such incarnation does not list it",
    Answer.EMPTY: "status 200 and an empty body",
    Answer.UNREADABLE: (
        "a document does not list it, and has an entry whose EventId cannot be read. It "
        "may be this event, so nothing changes, and the time does not count"
    ),
    Answer.RENAMED: (
        "a document does not list it, and lists an unknown event of the same type, "
        "source and resources that has started, or that waits for the same NotBefore"
    ),
    Answer.LONG_ENOUGH: "answers have said the same for long enough",
}
"""What each input of `PRESENCE` means."""


LOCK = Machine(
    title="The lock that limits approvals",
    intro=(
        "[Approve at most N VMs at once](../how-to/agent/lock.md) says what it is for. "
        "One VM has one slot in the lock, whatever the number of its events. An event "
        "is approved while the lock is *held* or *pausing*."
    ),
    table=_rows(table.LOCK_TABLE, LockState),
    first=LockState.UNKNOWN,
    states={
        LockState.UNKNOWN: (
            "The journal is new, or the settings name another lock. An earlier agent "
            "of this VM may hold it, so it is released once, unless an event is under "
            "way."
        ),
        LockState.FREE: "This VM does not hold it.",
        LockState.WANTED: (
            "An event is ready to be approved. The agent asks for the lock again and "
            "again until it is taken, also after the deadline: the VM will be away, and "
            "other VMs should wait for it."
        ),
        LockState.HELD: (
            "The server has said that this VM holds it. A lock that expires is "
            "confirmed three times within that time."
        ),
        LockState.PAUSING: (
            "Every event that needed it is over, and the pause has not passed yet. A "
            "new event of this VM is approved with it at once."
        ),
        LockState.RELEASING: (
            "The agent releases it, again and again until the server confirms that."
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
