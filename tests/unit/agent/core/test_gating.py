"""The gate on active alerts: what holds an approval back, and for how long."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from forewarn.agent.core import gating
from forewarn.agent.core.gating import TABLE, GateState, state_of
from forewarn.agent.core.model import Stage
from forewarn.agent.core.permits import NO_GATE, Gate, GateAnswer, GateResponse
from forewarn.agent.core.policy import (
    Approve,
    GateTerms,
    Rule,
)
from forewarn.instants import MINUTE, SECOND
from tests.unit.agent.core.gate_support import (
    ALERTS,
    CLEAR,
    FIRES,
    GATE,
    NOTHING,
    TROUBLE,
    gated,
    held,
    told,
)
from tests.unit.agent.core.support import (
    DRAIN,
    START,
    Life,
    notice,
    policy,
    started,
)

# The table

ROWS = {
    ("unasked", False): "ask",
    ("fresh", False): "pass",
    ("old", False): "ask",
    ("settling", False): "hold",
    ("firing", False): "hold",
    ("silent", False): "hold",
    ("unheard", False): "pass",
    ("unasked", True): "late",
    ("fresh", True): "pass",
    ("old", True): "late",
    ("settling", True): "late",
    ("firing", True): "late",
    ("silent", True): "late",
    ("unheard", True): "pass",
}


def test_table_covers_every_state_before_and_after_not_before() -> None:
    assert set(TABLE) == set(itertools.product(GateState, (False, True)))
    shown = {(state.value, late): to.value for (state, late), to in TABLE.items()}
    assert shown == ROWS


@pytest.mark.parametrize(
    ("gate", "terms", "state"),
    [
        (NO_GATE, GATE, GateState.UNASKED),
        (Gate(last=CLEAR, answered=START), GATE, GateState.FRESH),
        (Gate(last=CLEAR, answered=START - 9 * SECOND), GATE, GateState.FRESH),
        (Gate(last=CLEAR, answered=START - 10 * SECOND), GATE, GateState.OLD),
        (
            Gate(last=CLEAR, answered=START, since=START - 59 * SECOND, shut=1),
            GATE,
            GateState.SETTLING,
        ),
        (
            Gate(last=CLEAR, answered=START, since=START - MINUTE, shut=1),
            GATE,
            GateState.FRESH,
        ),
        (
            Gate(last=CLEAR, answered=START, since=START, shut=1),
            NOTHING,
            GateState.FRESH,
        ),
        (Gate(last=ALERTS, answered=START), GATE, GateState.FIRING),
        (Gate(last=TROUBLE, answered=START, failures=99), GATE, GateState.SILENT),
        (
            Gate(last=TROUBLE, answered=START, failures=2),
            replace(GATE, goes_unknown=True),
            GateState.SILENT,
        ),
        (
            Gate(last=TROUBLE, answered=START, failures=3),
            replace(GATE, goes_unknown=True),
            GateState.UNHEARD,
        ),
    ],
)
def test_answers_determine_the_gate_state(
    gate: Gate, terms: GateTerms, state: GateState
) -> None:
    assert state_of(gate, terms, START) is state


# Reasons to hold an approval back


def test_without_alerts_an_event_is_approved_at_the_first_answer() -> None:
    life = Life(gated())
    life.poll(notice())
    assert life.sent == []
    assert life.waits["E1"] == (
        "Prometheus at http://p has not answered yet; "
        "at 2026-03-02T12:15:00Z it starts without an approval"
    )
    life.gate_says(CLEAR)
    assert life.sent == ["E1"]
    assert told(life) == []
    life.answer()
    life.sleep(10 * MINUTE)
    assert len(life.gate_asked) == 1


def test_alert_delays_approval_until_the_clear_time_has_passed() -> None:
    life = held()
    assert life.sent == []
    assert life.waits["E1"] == (
        "held back while 1 alert fires: DiskFull (Prometheus at http://p); "
        "at 2026-03-02T12:15:00Z it starts without an approval"
    )
    life.sleep(30 * SECOND)
    life.gate_says(CLEAR)
    assert life.sent == []
    assert life.waits["E1"].startswith(
        "held back until 2026-03-02T12:01:30Z if no alert fires"
    )
    life.sleep(30 * SECOND)
    life.gate_says(CLEAR)
    assert life.sent == []
    life.sleep(30 * SECOND)
    life.gate_says(CLEAR)
    assert life.sent == ["E1"]
    assert told(life) == [
        "1 alert fires: DiskFull (Prometheus at http://p)",
        "no alert fires any longer, after 30 s (Prometheus at http://p)",
    ]


def test_returning_alert_restarts_the_clear_time() -> None:
    life = held()
    for answer in (CLEAR, ALERTS, CLEAR, CLEAR):
        life.sleep(30 * SECOND)
        life.gate_says(answer, FIRES if answer is ALERTS else "")
        assert life.sent == []
    life.sleep(30 * SECOND)
    life.gate_says(CLEAR)
    assert life.sent == ["E1"]


def test_gate_is_queried_at_intervals_and_never_twice_at_once() -> None:
    life = held(replace(gated(), gate=replace(GATE, every=20 * SECOND)))
    for queries in range(2, 6):
        life.sleep(19 * SECOND)
        assert len(life.gate_asked) == queries - 1
        life.sleep(SECOND)
        assert len(life.gate_asked) == queries
        life.sleep(3 * SECOND)
        assert len(life.gate_asked) == queries
        life.gate_says(ALERTS, FIRES)


def test_missing_answer_is_reported_as_trouble_after_a_timeout() -> None:
    life = Life(gated())
    life.poll(notice())
    life.sleep(36 * SECOND)
    assert "gives no usable answer: no answer for 35 s" in life.waits["E1"]
    assert len(life.gate_asked) == 2
    late = life.gate_asked[0].number
    life.give(GateResponse(number=late, answer=CLEAR))
    assert life.sent == []


def test_several_events_share_one_gate_query() -> None:
    life = Life(gated())
    life.poll(notice("E1"), notice("E2"))
    assert len(life.gate_asked) == 1
    life.gate_says(ALERTS, FIRES)
    assert life.memory.gate.events == ("E1", "E2")
    life.sleep(30 * SECOND)
    life.gate_says(CLEAR)
    life.sleep(MINUTE)
    while life.memory.gate.is_asking:
        life.gate_says(CLEAR)
    life.sleep(MINUTE)
    assert sorted(life.sent[:2]) == ["E1", "E2"]


def test_alerts_of_an_earlier_event_do_not_delay_a_later_one() -> None:
    life = held()
    life.poll(started(notice()))
    assert life.memory.gate.is_wanted is False
    life.sleep(5 * MINUTE)
    life.poll(started(notice()), notice("E2"))
    life.gate_says(CLEAR)
    assert life.sent == ["E2"]


# Approvals that are never held back


def test_preparation_does_not_wait_for_the_gate() -> None:
    life = Life(policy(DRAIN, gate=GATE))
    life.poll(notice())
    assert [run.handler for run in life.runs] == ["drain"]
    assert life.gate_asked == []
    life.end("drain")
    assert len(life.gate_asked) == 1
    life.gate_says(ALERTS, FIRES)
    assert life.stage() is Stage.PREPARED
    assert life.sent == []


def test_recovery_does_not_wait_for_the_gate() -> None:
    life = Life(policy(DRAIN, gate=GATE))
    life.poll(notice())
    life.end("drain")
    life.gate_says(ALERTS, FIRES)
    life.poll(started(notice()))
    life.poll(times=2)
    life.end("drain")
    assert life.stage() is Stage.FINISHED
    assert life.sent == []


def test_operator_approval_is_not_delayed_by_the_gate() -> None:
    life = held()
    life.order()
    assert life.sent == ["E1"]
    assert life.memory.gate.is_wanted is False


def test_rule_may_skip_the_gate() -> None:
    life = Life(gated(rules=(Rule(name="r", approve=Approve.AT_ONCE, gate=False),)))
    life.poll(notice())
    assert life.sent == ["E1"]
    assert life.gate_asked == []


def test_observer_does_not_query_the_gate() -> None:
    life = Life(gated(is_observer=True))
    life.poll(notice())
    life.sleep(MINUTE)
    assert life.gate_asked == []
    assert life.memory.gate == NO_GATE


def test_sent_approval_is_retried_even_if_alerts_fire() -> None:
    life = Life(gated())
    life.poll(notice())
    life.gate_says(CLEAR)
    life.sleep(2 * MINUTE)
    assert len(life.sent) > 1
    assert len(life.gate_asked) == 1


# The deadline


def test_gated_approval_is_abandoned_at_not_before() -> None:
    life = held()
    while life.now < START + 15 * MINUTE:
        life.sleep(30 * SECOND)
        if life.memory.gate.is_asking:
            life.gate_says(ALERTS, FIRES)
    count_before = len(life.gate_asked)
    assert life.waits["E1"].endswith("NotBefore has come, so it is not approved")
    assert told(life)[-1] == (
        "not approved before NotBefore: 1 alert fires: DiskFull (Prometheus at http://p)"
    )
    life.sleep(10 * MINUTE)
    assert (life.sent, len(life.gate_asked)) == ([], count_before)
    life.poll(started(notice()))
    assert [text for text in told(life) if "not approved" in text] == told(life)[-1:]


def test_start_of_a_delayed_event_is_reported_once() -> None:
    life = held()
    life.poll(started(notice()))
    life.poll(started(notice()))
    assert [text for text in told(life) if "not approved" in text] == [
        f"not approved before it started: {FIRES} (Prometheus at http://p)"
    ]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        (
            (),
            "Prometheus at http://p has not answered yet",
        ),
        (
            (ALERTS, CLEAR),
            "no alert fires, but not for long enough (Prometheus at http://p)",
        ),
        ((TROUBLE,), "it answered 503 (Prometheus at http://p)"),
    ],
)
def test_start_of_an_unapproved_event_is_reported_with_the_reason(
    answers: tuple[GateAnswer, ...], why: str
) -> None:
    life = Life(gated())
    life.poll(notice())
    for answer in answers:
        life.gate_says(answer, "it answered 503")
        life.sleep(30 * SECOND)
    life.poll(started(notice()))
    given_up = [text for text in told(life) if "not approved" in text]
    assert given_up == [f"not approved before it started: {why}"]


def test_event_cancelled_while_delayed_is_not_reported() -> None:
    life = held()
    life.poll(times=2)
    assert told(life) == [f"{FIRES} (Prometheus at http://p)"]
    assert life.memory.gate.events == ()


def test_event_without_not_before_waits_for_the_gate_without_limit() -> None:
    life = Life(gated())
    life.poll(notice(not_before=None))
    life.gate_says(ALERTS, FIRES)
    assert life.waits["E1"] == f"held back while {FIRES} (Prometheus at http://p)"
    life.sleep(30 * SECOND)
    life.gate_says(CLEAR)
    life.sleep(30 * SECOND)
    life.gate_says(CLEAR)
    life.sleep(30 * SECOND)
    life.gate_says(CLEAR)
    assert life.sent == ["E1"]


# A server that gives no usable answer


def test_unknown_gate_delays_approval_and_is_soon_queried_again() -> None:
    life = Life(gated())
    life.poll(notice())
    times: list[int] = []
    for _ in range(8):
        life.gate_says(TROUBLE, "connection refused")
        before = life.now
        while not life.memory.gate.is_asking:
            life.sleep(SECOND)
        times.append((life.now - before) // SECOND)
    assert times == [1, 2, 4, 8, 16, 30, 30, 30]
    assert life.sent == []
    assert gating.problems(life.memory) == [
        "Prometheus at http://p gives no usable answer: connection refused"
    ]
    assert told(life) == [
        "Prometheus at http://p gives no usable answer: connection refused"
    ]
    life.gate_says(CLEAR)
    assert life.sent == []
    life.sleep(30 * SECOND)
    life.gate_says(CLEAR)
    life.sleep(30 * SECOND)
    life.gate_says(CLEAR)
    assert life.sent == ["E1"]


def test_unknown_gate_is_a_problem_while_an_event_waits() -> None:
    life = Life(gated())
    assert gating.problems(life.memory) == []
    life.poll(notice())
    life.gate_says(TROUBLE, "it answered 503")
    assert gating.problems(life.memory) == [
        "Prometheus at http://p gives no usable answer: it answered 503"
    ]
    life.poll(times=2)
    assert gating.problems(life.memory) == []


def test_unknown_gate_may_open_after_three_queries() -> None:
    life = Life(gated(replace(GATE, goes_unknown=True)))
    life.poll(notice())
    for pause in (1, 2):
        life.gate_says(TROUBLE, "502")
        assert life.sent == []
        life.sleep(pause * SECOND)
    life.gate_says(TROUBLE, "502")
    assert life.sent == ["E1"]
    assert (
        told(life)[-1] == "approved without an answer from Prometheus at http://p: 502"
    )


# The agent and the machine


def test_restarted_agent_queries_the_gate_again() -> None:
    life = held()
    life.restart()
    assert life.memory.gate.last is None
    life.poll(notice())
    assert len(life.gate_asked) == 2
    life.give(GateResponse(number=life.gate_asked[0].number, answer=CLEAR))
    assert life.sent == []
    life.gate_says(CLEAR)
    assert life.sent == ["E1"]


def test_changed_alert_server_is_queried_again() -> None:
    life = held()
    life.policy = replace(life.policy, gate=replace(GATE, label="Alertmanager"))
    life.give()
    assert life.memory.gate.last is None
    assert len(life.gate_asked) == 2


def test_removing_the_gate_setting_releases_the_approval() -> None:
    life = held()
    life.policy = replace(life.policy, gate=None)
    life.give()
    assert life.sent == ["E1"]
    assert life.memory.gate == NO_GATE


def test_clock_set_back_does_not_extend_an_answer() -> None:
    life = held()
    life.sleep(30 * SECOND)
    life.gate_says(CLEAR)
    life.now -= 10 * MINUTE
    life.give()
    for _ in range(5):
        life.sleep(30 * SECOND)
        if life.memory.gate.is_asking:
            life.gate_says(CLEAR)
    assert life.sent[:1] == ["E1"]
