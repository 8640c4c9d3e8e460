"""The tables of `lifecycle` by numbers, as the real `look_up` answers them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from forewarn.protocol.errors import IllegalTransitionError
from forewarn.protocol.lifecycle import (
    EVENT_STEPS,
    OPERATION_STEPS,
    REQUEST_STEPS,
    EventInput,
    OperationInput,
    RequestInput,
    look_up,
)

S = TypeVar("S", bound=Enum)
I = TypeVar("I", bound=Enum)  # noqa: E741 - it stands for an input


@dataclass(frozen=True, slots=True)
class Table:
    """A table of `lifecycle`, asked once about every state and input."""

    steps: Mapping[tuple[int, str], int]
    name: str

    def step(self, state: int, given: Enum) -> int:
        """Return the next state; raises IllegalTransitionError as the code does."""
        after = self.steps.get((state, given.name))
        if after is None:
            raise IllegalTransitionError(f"{self.name} {state} takes no {given.name}")
        return after


def table(steps: Mapping[S, Mapping[I, S]], inputs: type[I]) -> Table:
    """Return a table by numbers, as the real `look_up` answers it."""
    states = list(steps)
    answers: dict[tuple[int, str], int] = {}
    for number, state in enumerate(states):
        for step_input in inputs:
            try:
                after = look_up(steps, state, step_input)
            except IllegalTransitionError:
                continue
            answers[number, step_input.name] = states.index(after)
    return Table(answers, type(states[0]).__name__)


OPERATION_TABLE = table(OPERATION_STEPS, OperationInput)
EVENT_TABLE = table(EVENT_STEPS, EventInput)
REQUEST_TABLE = table(REQUEST_STEPS, RequestInput)
