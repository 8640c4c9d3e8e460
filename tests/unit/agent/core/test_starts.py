"""Handlers of one event that begin at different times: cordon now, drain later."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.agent.core.model import NoteKind, Stage, StepState
from forewarn.agent.core.policy import Handler, Policy
from forewarn.instants import MINUTE, SECOND
from tests.unit.agent.core.support import (
    DRAIN,
    START,
    Life,
    gone,
    notice,
    policy,
    prepare,
    started,
)

CORDON = Handler(name="cordon")
LATER = (("drain", 5 * MINUTE),)


def settings(*groups: tuple[str, ...], **more: Any) -> Policy:
    rule = prepare(*(groups or (("cordon",), ("drain",))), starts=LATER)
    return policy(CORDON, DRAIN, rules=(rule,), **more)


def handlers(life: Life) -> list[str]:
    return [run.handler for run in life.runs]


def test_cordon_starts_immediately_and_drain_five_minutes_before_not_before() -> None:
    life = Life(settings())
    life.poll(notice())
    life.end("cordon")
    assert handlers(life) == ["cordon"]
    assert life.wake == START + 10 * MINUTE
    assert life.waits == {
        "E1": "it is being prepared: drain begins at 2026-03-02T12:10:00Z"
    }
    life.sleep(10 * MINUTE - 1)
    assert handlers(life) == ["cordon"]
    life.sleep(1)
    assert handlers(life) == ["cordon", "drain"]
    # It has all the time until NotBefore.
    assert life.runs[1].kill_at == START + 15 * MINUTE - 2 * SECOND
    assert life.waits == {"E1": "it is being prepared"}
    life.end("drain")
    assert life.stage() is Stage.PREPARED
    assert life.sent == ["E1"]


def test_only_the_later_handler_of_a_group_waits() -> None:
    life = Life(settings(("drain", "cordon")))
    life.poll(notice())
    assert handlers(life) == ["cordon"]
    life.sleep(10 * MINUTE)
    assert handlers(life) == ["cordon", "drain"]


def test_group_after_a_delayed_handler_starts_after_it() -> None:
    life = Life(settings(("drain",), ("cordon",)))
    life.poll(notice())
    assert handlers(life) == []
    life.sleep(10 * MINUTE)
    life.end("drain")
    assert handlers(life) == ["drain", "cordon"]


def test_slow_handler_only_delays_the_next_handler() -> None:
    life = Life(settings())
    life.poll(notice())
    life.sleep(12 * MINUTE)
    assert handlers(life) == ["cordon"]
    life.end("cordon")
    assert handlers(life) == ["cordon", "drain"]


@pytest.mark.parametrize(
    "values",
    [
        {"event_type": "Preempt", "not_before": START + 30 * SECOND},
        {"not_before": START + 4 * MINUTE},
        {"not_before": None},
    ],
)
def test_urgent_event_is_prepared_without_delay(values: dict[str, Any]) -> None:
    life = Life(settings(("cordon", "drain")))
    life.poll(notice(**values))
    assert set(handlers(life)) == {"cordon", "drain"}


def test_early_start_of_the_event_starts_the_handler_at_once() -> None:
    life = Life(settings())
    life.poll(notice())
    life.end("cordon")
    life.poll(started(notice()))
    assert handlers(life) == ["cordon", "drain"]


def test_requested_approval_starts_the_handler_at_once() -> None:
    life = Life(settings())
    life.poll(notice())
    life.end("cordon")
    life.order()
    assert handlers(life) == ["cordon", "drain"]
    assert life.sent == ["E1"]


def test_changed_not_before_moves_the_start() -> None:
    life = Life(settings())
    life.poll(notice())
    life.end("cordon")
    life.poll(notice(not_before=START + 60 * MINUTE))
    assert life.wake == START + 55 * MINUTE
    life.poll(notice(not_before=START + 6 * MINUTE))
    assert life.wake == START + MINUTE


def test_event_that_ends_early_is_recovered_only_by_started_handlers() -> None:
    life = Life(settings())
    life.poll(notice())
    life.end("cordon")
    gone(life)
    life.sleep(MINUTE)
    life.end("cordon")
    assert [run.phase.value for run in life.runs] == ["prepare", "recover"]
    assert handlers(life) == ["cordon", "cordon"]
    assert life.stage() is Stage.FINISHED


def test_restart_keeps_the_delay_of_the_next_handler() -> None:
    life = Life(settings())
    life.poll(notice())
    life.end("cordon")
    life.now += MINUTE
    life.restart()
    life.poll(notice())
    assert handlers(life) == ["cordon"]
    assert life.wake == START + 10 * MINUTE
    life.sleep(9 * MINUTE)
    assert handlers(life) == ["cordon", "drain"]


def test_earlier_failure_withholds_only_after_the_later_handler_ran() -> None:
    life = Life(settings())
    life.poll(notice())
    life.end("cordon", StepState.FAILED, "no")
    assert life.told(NoteKind.WITHHELD) == []
    life.sleep(10 * MINUTE)
    life.end("drain")
    assert life.stage() is Stage.WITHHELD
    assert life.sent == []


def test_clock_set_back_does_not_delay_an_immediate_start() -> None:
    """The event was seen before the VM's name was known, an hour from now."""
    life = Life(policy(DRAIN), name="")
    life.poll(notice())
    assert life.runs == []
    life.now -= 60 * MINUTE
    life.name = "vm1"
    life.poll(notice())
    assert handlers(life) == ["drain"]


def test_clock_set_back_delays_a_later_start_only_until_its_time() -> None:
    life = Life(settings())
    life.poll(notice())
    life.end("cordon")
    life.now -= 60 * MINUTE
    life.give()
    assert life.wake == START + 10 * MINUTE
    life.now = START + 10 * MINUTE
    life.give()
    assert handlers(life) == ["cordon", "drain"]
