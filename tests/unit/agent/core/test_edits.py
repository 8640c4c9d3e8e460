"""Settings that are edited, and starts, during a preparation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarn.agent.core.model import Phase, Stage, StepState
from forewarn.agent.core.policy import Approve, Handler, Policy, Rule, Window
from forewarn.instants import HOUR, MINUTE
from tests.unit.agent.core.support import (
    DRAIN,
    FLUSH,
    START,
    Life,
    notice,
    policy,
    prepare,
)

NOON = Window(days=frozenset(range(7)), begins=12 * 60, ends=13 * 60)

SHORT = Rule(name="rule 1", types=frozenset({"Freeze"}), approve=Approve.AT_ONCE)


def edited(*rules: Rule, handlers: tuple[Handler, ...] = (DRAIN, FLUSH)) -> Policy:
    """Return the settings after an edit; rules are called by their places."""
    named = (
        replace(rule, name=f"rule {number}")
        for number, rule in enumerate(rules, start=1)
    )
    return Policy(handlers=handlers, rules=tuple(named))


BOTH = prepare(("drain",), ("flush",))


@pytest.mark.clause("8.4")
def test_rule_inserted_above_does_not_affect_a_running_event() -> None:
    life = Life(edited(BOTH))
    life.poll(notice())
    life.restart(edited(SHORT, BOTH))
    life.poll(notice())
    life.end("drain", StepState.FAILED, "not drained")
    assert life.runs[-1].handler == "flush"
    life.end("flush")
    assert life.stage() is Stage.WITHHELD
    assert life.task().withheld == "drain failed: not drained"
    assert life.sent == []


@pytest.mark.clause("8.4")
def test_rule_inserted_above_does_not_withhold_approval() -> None:
    life = Life(edited(BOTH))
    life.poll(notice())
    life.restart(edited(SHORT, BOTH))
    life.poll(notice())
    life.end("drain")
    life.end("flush")
    assert life.sent == ["E1"]


LEFT_OUT = "the settings want drain no longer, and it has not run"


@pytest.mark.clause("8.4")
@pytest.mark.parametrize(
    "settings",
    [
        edited(SHORT),
        edited(replace(SHORT, types=frozenset())),
        edited(prepare(("flush",))),
        edited(BOTH, handlers=(FLUSH,)),
        Policy(),
    ],
    ids=["no rule", "at once", "another rule", "no handler", "nothing at all"],
)
def test_settings_change_does_not_excuse_a_handler_required_at_start(
    settings: Policy,
) -> None:
    for state, why in (
        (StepState.FAILED, "drain failed: not drained"),
        (StepState.LOST, "drain failed: not drained"),
        (None, LEFT_OUT),
    ):
        life = Life(edited(BOTH if state else prepare(("flush",), ("drain",))))
        life.poll(notice())
        life.restart(settings)
        life.poll(notice())
        if state is None:
            life.end("flush")
        else:
            life.end("drain", state, "not drained")
        for run in list(life.running.values()):
            life.end(run.handler)
        life.sleep(MINUTE)
        assert life.stage() is Stage.WITHHELD
        assert why in life.task().withheld
        assert life.sent == []


def test_handler_required_at_start_stays_required() -> None:
    life = Life(policy(DRAIN))
    life.poll(notice())
    life.restart(policy(replace(DRAIN, required=False)))
    life.poll(notice())
    life.end("drain", StepState.FAILED, "not drained")
    assert life.stage() is Stage.WITHHELD


def test_matching_rule_after_an_edit_decides() -> None:
    life = Life(edited(prepare(("drain",))))
    life.poll(notice())
    life.restart(edited(SHORT, prepare(("drain",), ("flush",))))
    life.poll(notice())
    life.end("drain")
    assert life.sent == []
    life.end("flush")
    assert life.sent == ["E1"]


def test_waiting_approval_is_withdrawn_by_an_edit() -> None:
    at_once = replace(SHORT, types=frozenset())
    life = Life(replace(edited(at_once), blackouts=(NOON,)))
    life.poll(notice(not_before=START + 3 * HOUR))
    assert life.stage() is Stage.PREPARED
    never = replace(at_once, approve=Approve.NEVER)
    life.restart(replace(edited(never), blackouts=(NOON,)))
    life.poll(notice(not_before=START + 3 * HOUR))
    life.sleep(2 * HOUR)
    assert life.sent == []
    assert life.waits == {"E1": "rule 1 never approves"}


# After a start nothing is begun from memory.


@pytest.mark.clause("8.8")
def test_delayed_preparation_is_skipped_if_event_ended_during_restart() -> None:
    begin_late = prepare(("drain",), start_before=5 * MINUTE)
    life = Life(policy(DRAIN, rules=(begin_late,)))
    life.poll(notice())
    life.restart()
    life.give()
    life.sleep(12 * MINUTE)
    assert life.runs == []
    life.poll()
    assert life.runs == [], "the first document does not have it"
    life.poll()
    assert life.runs == []
    assert life.stage() is Stage.FINISHED


@pytest.mark.clause("8.8")
def test_nothing_starts_while_the_endpoint_is_down_after_a_restart() -> None:
    life = Life(policy(DRAIN, FLUSH))
    life.poll(notice())
    life.restart()
    life.give()
    # A run that has begun continues; no other is begun.
    life.end("drain")
    life.sleep(5 * MINUTE)
    assert life.begun() == [("E1", "prepare", "drain")]
    assert life.stage() is Stage.PREPARING
    life.poll(notice())
    assert life.begun()[1:] == [("E1", "prepare", "flush")]
    life.end("flush")
    assert life.sent == ["E1"]


@pytest.mark.clause("8.8")
def test_lost_run_is_repeated_only_if_its_event_is_still_listed() -> None:
    for shown in ((notice(),), ()):
        life = Life(policy(DRAIN))
        life.poll(notice())
        life.restart()
        life.end("drain", StepState.LOST)
        life.sleep(MINUTE)
        assert len(life.runs) == 1
        life.poll(*shown)
        assert [run.phase for run in life.runs[1:]] == [Phase.PREPARE] * len(shown)
    life.poll()
    assert life.runs[-1].phase is Phase.RECOVER
