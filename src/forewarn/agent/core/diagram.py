"""The table of stages as text for people: `docs/agent-states.md`.

The arrows come from `table.TABLE`, which decides, so the page cannot say otherwise.
Nothing that runs in a VM imports this. Pure.
"""

from collections.abc import Mapping

from forewarn.agent.core.model import Stage
from forewarn.agent.core.table import TABLE, Given
from forewarn.protocol.diagrams import Machine, mermaid

_INTRO = """\
This page is generated from the table in `src/forewarn/agent/core/table.py`, which
decides; `pytest --rewrite tests/unit/agent/core` writes it anew. What a table lacks
cannot happen. `forewarn agent status` shows the stage of each event."""


def _rows() -> Mapping[Stage, Mapping[Given, Stage]]:
    return {
        stage: {given: target for (at, given), target in TABLE.items() if at is stage}
        for stage in Stage
    }


TASK = Machine(
    title="An event, as the agent in a VM remembers it",
    intro=(
        "Approval stands beside it: an event is approved from *prepared*, never from "
        "*withheld*, and only once (clauses 8.4 and 8.5)."
    ),
    table=_rows(),
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
        Stage.OWED: (
            "Two documents in a row do not have the event. What was prepared is "
            "recovered, once no other event of this VM needs it, and is tried until it "
            "works."
        ),
        Stage.OVER: (
            "Nothing is owed. It is remembered for a day, since an old document may "
            "show it again."
        ),
    },
)


def page() -> str:
    """Return the whole of `docs/agent-states.md`."""
    parts = [
        "# The stages of an event in the agent",
        _INTRO,
        f"## {TASK.title}",
        TASK.intro,
        f"```mermaid\n{mermaid(TASK)}\n```",
        *(f"**{stage.value}.** {text}" for stage, text in TASK.states.items()),
    ]
    return "\n\n".join(parts) + "\n"
