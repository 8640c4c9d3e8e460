"""The stages: every one is asked about everything that can be given."""

from __future__ import annotations

import itertools

import pytest

from deploy import agent_states
from forewarn.agent.core import table
from forewarn.agent.core.model import Presence, Stage, Task
from forewarn.agent.core.permits import LockState
from forewarn.agent.core.presence import Answer
from forewarn.agent.core.table import IllegalStepError, StageInput
from tests.support.pages import EXPLANATION, check_block
from tests.unit.agent.core.support import START, notice
from tests.unit.agent.core.test_presence import ARROWS as PRESENCES

PAGE = EXPLANATION / "event-lifecycle.md"

ARROWS = {
    ("seen", "begin"): "preparing",
    ("seen", "nothing to prepare"): "prepared",
    ("seen", "leave"): "recovering",
    ("preparing", "ready"): "prepared",
    ("preparing", "fall short"): "withheld",
    ("preparing", "leave"): "recovering",
    ("preparing", "concern"): "seen",
    ("prepared", "leave"): "recovering",
    ("prepared", "concern"): "seen",
    ("withheld", "leave"): "recovering",
    ("withheld", "concern"): "seen",
    ("recovering", "clear"): "finished",
    ("recovering", "reappear"): "preparing",
    ("recovering", "come back"): "seen",
    ("finished", "come back"): "seen",
}


@pytest.mark.clause("8.3")
@pytest.mark.parametrize(
    ("stage", "given"),
    list(itertools.product(Stage, StageInput)),
    ids=lambda value: value.value.replace(" ", "-"),
)
def test_every_stage_handles_or_rejects_every_input(
    stage: Stage, given: StageInput
) -> None:
    task = Task(event_id="E1", notice=notice(), mine=True, stage=stage, seen=START)
    wanted = ARROWS.get((stage.value, given.value))
    if wanted is None:
        with pytest.raises(IllegalStepError) as refused:
            table.step(task, given)
        assert str(refused.value) == (
            f"a task that is {stage.value} cannot {given.value}"
        )
    else:
        assert table.step(task, given).stage.value == wanted


def test_agent_states_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    rewrite = bool(request.config.getoption("--rewrite"))
    check_block(PAGE, "agent states", agent_states.page(), rewrite=rewrite)


def test_every_stage_and_presence_is_documented() -> None:
    assert (
        list(agent_states.TASK.states) == list(Stage) == list(agent_states.TASK.table)
    )
    known = list(Presence)
    assert (
        list(agent_states.PRESENCE.states) == known == list(agent_states.PRESENCE.table)
    )
    assert list(agent_states.ANSWERS) == list(Answer)
    assert (
        list(agent_states.LOCK.states)
        == list(LockState)
        == list(agent_states.LOCK.table)
    )


def test_diagram_shows_every_transition() -> None:
    text = agent_states.page()
    for (stage, given), target in (ARROWS | PRESENCES).items():
        (line,) = (
            line
            for line in text.splitlines()
            if line.startswith(f"    {stage} --> {target}: ")
        )
        assert given in line.split(": ")[1].split(" / ")
