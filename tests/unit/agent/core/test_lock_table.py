"""The states of the lock: every one is asked about everything that can be given."""

from __future__ import annotations

import itertools

import pytest

from deploy import agent_states
from forewarn.agent.core import table
from forewarn.agent.core.permits import LockState
from forewarn.agent.core.table import IllegalStepError, LockInput

ARROWS = {
    ("unknown", "need"): "wanted",
    ("unknown", "spare"): "releasing",
    ("unknown", "move"): "unknown",
    ("free", "need"): "wanted",
    ("free", "move"): "unknown",
    ("wanted", "taken"): "held",
    ("wanted", "refused"): "wanted",
    ("wanted", "trouble"): "wanted",
    ("wanted", "released"): "wanted",
    ("wanted", "spare"): "releasing",
    ("wanted", "move"): "unknown",
    ("held", "taken"): "held",
    ("held", "refused"): "wanted",
    ("held", "trouble"): "held",
    ("held", "expire"): "wanted",
    ("held", "spare"): "pausing",
    ("held", "move"): "unknown",
    ("pausing", "need"): "held",
    ("pausing", "taken"): "pausing",
    ("pausing", "refused"): "free",
    ("pausing", "trouble"): "pausing",
    ("pausing", "expire"): "releasing",
    ("pausing", "due"): "releasing",
    ("pausing", "move"): "unknown",
    ("releasing", "need"): "wanted",
    ("releasing", "taken"): "releasing",
    ("releasing", "refused"): "releasing",
    ("releasing", "trouble"): "releasing",
    ("releasing", "released"): "free",
    ("releasing", "move"): "unknown",
}


@pytest.mark.parametrize(
    ("state", "given"),
    list(itertools.product(LockState, LockInput)),
    ids=lambda value: value.value,
)
def test_every_lock_state_handles_or_rejects_every_input(
    state: LockState, given: LockInput
) -> None:
    wanted = ARROWS.get((state.value, given.value))
    if wanted is None:
        with pytest.raises(IllegalStepError) as refused:
            table.lock_step(state, given)
        assert str(refused.value) == (
            f"a lock that is {state.value} cannot meet {given.value}"
        )
    else:
        assert table.lock_step(state, given).value == wanted


def test_diagram_shows_every_transition() -> None:
    text = agent_states.page().partition(f"## {agent_states.LOCK.title}")[2]
    for (state, given), target in ARROWS.items():
        (line,) = (
            line
            for line in text.splitlines()
            if line.startswith(f"    {state} --> {target}: ")
        )
        assert given in line.split(": ")[1].split(" / ")
