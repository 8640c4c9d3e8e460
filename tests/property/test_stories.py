"""The stories that are killed everywhere leave nothing out.

A crash is tried only at what a story does. If you add an arrow to a table, a
verb, or something that can be done to a fleet, add a story too.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from forewarn.drivers.tasks import FaultKind
from forewarn.protocol import lifecycle, views
from forewarn.protocol.lifecycle import EventInput
from forewarn.protocol.operations import HALVES, Action, CallPart, Verb
from tests.property.stories import STORIES
from tests.property.story_fleet import FLEET
from tests.property.story_policies import POLICIES
from tests.property.test_crashes import PLACES
from tests.support.lives import FAULTS, Life, Step
from tests.support.ordering import Ordering

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "verification.md"
"""It says how many stories there are, and how many deaths."""

TABLES: tuple[Mapping[Any, Mapping[Any, Any]], ...] = (
    lifecycle.EVENT_STEPS,
    lifecycle.OPERATION_STEPS,
    lifecycle.REQUEST_STEPS,
    lifecycle.VIEW_STEPS,
    lifecycle.VISIT_STEPS,
)

NO_STEPS = frozenset(
    {
        *("order", "do", "crash", "restart_service", "blockers", "end", "close"),
        # A killed service knows nothing of a step: the end is another one then.
        "step_clock",
        # It dies by itself.
        "repeat",
    }
)
"""Steps that only a life has: those that drive it, crash it or end it."""

SHORTER = frozenset(
    {
        *("approve_all", "advance_to_next", "fail_host_of", "restore_host_of"),
        *("clear_windows", "clear_blackouts"),
    }
)
"""Other ways to say what `approve`, `advance`, `fail_host`, `restore_host`, `set_window`
and `remove_blackout` do."""


@dataclass(slots=True)
class Lived:
    """The counts of all stories together."""

    arrows: set[str] = field(default_factory=set[str])
    verbs: set[Verb] = field(default_factory=set[Verb])
    actions: set[Action] = field(default_factory=set[Action])
    deaths: int = 0


def _arrow(state: Enum, given: Enum) -> str:
    return f"{state} takes {given}"


class ApprovingLife(Life):
    """A life that notes what became of the events that VMs approved.

    A late approval is answered before any table is asked: it changes nothing.
    """

    def __init__(self, lived: Lived, name: str) -> None:
        self.lived = lived
        super().__init__(FLEET, policy=POLICIES.get(name))

    def _post(self, name: str, ids: list[str], version: str) -> None:
        status = [self.mirror.events[event_id].status for event_id in ids]
        super()._post(name, ids, version)
        # Those that were answered 200.
        if set(ids) <= self._acknowledged:
            self.lived.arrows |= {
                _arrow(event_id, EventInput.APPROVE) for event_id in status
            }


@pytest.fixture(scope="module")
def lived() -> Lived:
    lived, look_up = Lived(), lifecycle.look_up

    def noting(table: Mapping[Any, Mapping[Any, Any]], state: Any, given: Any) -> Any:
        after = look_up(table, state, given)
        lived.arrows.add(_arrow(state, given))
        return after

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lifecycle, "look_up", noting)
        patch.setattr(views, "look_up", noting)
        for name, story in STORIES.items():
            _live(ApprovingLife(lived, name), story)
    return lived


def _live(life: ApprovingLife, story: list[Step]) -> None:
    lived, passed = life.lived, life.world.passed
    before = sum(passed[place] for place in PLACES)
    for step in story:
        life.do(step)
    lived.deaths += sum(passed[place] for place in PLACES) - before
    for operation in life.mirror.operations.values():
        lived.verbs.add(operation.verb)
        lived.actions.add(operation.action)
        if operation.part is not CallPart.WHOLE:
            lived.actions.update(HALVES[operation.action])
    life.close()


def test_every_transition_of_the_tables_is_in_a_story(lived: Lived) -> None:
    arrows = {
        _arrow(state, step_input)
        for table in TABLES
        for state, row in table.items()
        for step_input in row
    }
    assert arrows - lived.arrows == set()


def test_every_verb_and_every_action_is_in_a_story(lived: Lived) -> None:
    assert lived.verbs == set(Verb)
    assert lived.actions == set(Action)


def test_every_fleet_step_is_in_a_story() -> None:
    done = {step.name for story in STORIES.values() for step in story}
    own = {*vars(Life), *vars(Ordering)}
    steps = {name for name in own if not name.startswith("_")}
    assert done == steps - NO_STEPS - SHORTER


def test_each_step_is_in_a_story_with_and_without_each_of_its_flags() -> None:
    flags = set[tuple[str, str, bool]]()
    for step in (step for story in STORIES.values() for step in story):
        bound = inspect.signature(getattr(Life, step.name)).bind(None, **step.args)
        bound.apply_defaults()
        flags |= {
            (step.name, name, value)
            for name, value in bound.arguments.items()
            if isinstance(value, bool)
        }
    for name, flag, value in flags:
        assert (name, flag, not value) in flags, f"{name} with {flag}={not value}"


def test_every_fault_of_a_driver_is_in_a_story() -> None:
    steps = (step for story in STORIES.values() for step in story)
    names = {"fault", "fault_step"}
    kinds = {FAULTS[step.args["kind"]] for step in steps if step.name in names}
    assert kinds == set(FaultKind)


def test_page_states_the_number_of_crashes(lived: Lived) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"{len(STORIES)} stories and {lived.deaths} crashes" in text
