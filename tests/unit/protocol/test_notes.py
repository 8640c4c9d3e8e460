"""The notes of operations: which of them mean that the work is only planned again."""

from __future__ import annotations

import pytest

from forewarn.protocol.actors import operator
from forewarn.protocol.notes import (
    AnyNote,
    Postponed,
    VmArrived,
    WithdrawnByBrake,
    WithdrawnForBlackout,
    is_planned_again,
)


@pytest.mark.parametrize(
    ("note", "is_again"),
    [
        (None, False),
        (Postponed(by=operator("a"), until=1), True),
        (WithdrawnByBrake(successor="op-2"), True),
        (WithdrawnByBrake(), False),
        (WithdrawnForBlackout(blackout="fair", successor="op-2"), True),
        (VmArrived(vm="web_0"), False),
    ],
)
def test_work_is_planned_again_if_another_operation_has_the_host(
    note: AnyNote | None, *, is_again: bool
) -> None:
    assert is_planned_again(note) is is_again
