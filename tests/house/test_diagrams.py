"""The page of the states says what the tables say."""

import pytest

from deploy import service_states as diagrams
from deploy.service_states import MACHINES
from deploy.state_pages import Machine, mermaid
from tests.support.pages import EXPLANATION, check_block

PAGE = EXPLANATION / "event-lifecycle.md"


def test_the_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    rewrite = bool(request.config.getoption("--rewrite"))
    check_block(PAGE, "service states", diagrams.page(), rewrite=rewrite)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.title)
def test_every_state_has_a_paragraph(machine: Machine) -> None:
    assert list(machine.states) == list(type(machine.first)) == list(machine.table)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.title)
def test_every_arrow_is_drawn_once(machine: Machine) -> None:
    text = mermaid(machine)
    for state, steps in machine.table.items():
        for trigger, target in steps.items():
            (line,) = (
                line
                for line in text.splitlines()
                if line.startswith(f"    {state.value} --> {target.value}: ")
            )
            assert trigger.value in line.split(": ")[1].split(" / ")


def test_final_states_are_drawn_as_ends() -> None:
    text = mermaid(diagrams.OPERATION)
    assert text.splitlines()[:2] == ["stateDiagram-v2", "    [*] --> Planned"]
    for state in ("Done", "Cancelled", "Failed"):
        assert f"    {state} --> [*]" in text
    assert text.count("--> [*]") == 3
    assert "    Removed --> [*]" in mermaid(diagrams.EVENT)
    assert "[*]" not in mermaid(diagrams.VIEW).split("Disabled", 1)[1]
