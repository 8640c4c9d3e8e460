"""Faults in one line: parsing, meaning and problems."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.instants import MINUTE, SECOND
from forewarn.sim.faults import syntax
from forewarn.sim.faults.fault import (
    ALIASES,
    ANY,
    FAULTS,
    READS,
    Approval,
    Fault,
    FaultError,
    Where,
)

CASES = {
    "500": Fault(kind="500"),
    "500 x2": Fault(kind="500", times=2),
    "delay 3s": Fault(kind="delay", delay=3 * SECOND),
    "slow 10/s": Fault(kind="slow", size=10, pause=SECOND),
    "slow 10/100ms": Fault(kind="slow", size=10, pause=SECOND // 10),
    "429 retry-after 5": Fault(kind="429", retry_after=5),
    "reset": Fault(kind="reset"),
    "reset 20 lost": Fault(kind="reset", size=20, approval=Approval.LOST),
    "stale 2": Fault(kind="stale", count=2),
    "incarnation-reset 7": Fault(kind="incarnation-reset", count=7),
    "500 post taken": Fault(
        kind="500", methods=frozenset({"POST"}), approval=Approval.TAKEN
    ),
    "timeout any on all": Fault(kind="timeout", methods=ANY, where=Where.ALL),
    "empty flapping": Fault(kind="empty", flapping=True),
    "503 after 30s for 1m": Fault(kind="503", after=30 * SECOND, lasts=MINUTE),
    "time-out": Fault(kind="timeout"),
}

WRONG = {
    "": "a fault is missing",
    "501": '"501" is not a kind of fault (did you mean "50',
    "timout": '(did you mean "timeout"?)',
    "500 flaping": '"flaping" is not valid in a fault of kind 500 '
    '(did you mean "flapping"?)',
    "delay": '"delay": by is missing: use delay 3s',
    "delay soon": "'soon' is not a duration such as",
    "delay 2h": "must be at most an hour",
    "slow fast": 'must be bytes per time, such as 10/s, not "fast"',
    "slow 0/s": "must be 1 to 1048576, not 0",
    "500 x0": '"500 x0": times must be 1 to 1000000, not 0',
    "replace": '"replace" is only valid in a faults file',
    "500 x2 x3": '"x3" sets times a second time',
    "500 get post": '"post" sets method a second time',
    "500 retry-after 5": 'is not valid for "500"',
    "429 retry-after": '"retry-after" needs a value after it',
    "broken post": '"broken" is for GET only: a POST has no document',
    "broken lost": 'is not valid for "broken"',
    "delay 1s lost": 'of "delay" is always taken',
    "refuse taken": 'of "refuse" is always lost',
    "500 on fire": 'must be one of events, instance, all, not "fire"',
    "500 after 0": "must be longer than 0",
}


@pytest.mark.parametrize("text", CASES)
def test_fault_line_is_parsed(text: str) -> None:
    assert syntax.parse_fault(text) == CASES[text]


@pytest.mark.parametrize("text", WRONG)
def test_invalid_fault_line_is_explained(text: str) -> None:
    with pytest.raises(FaultError) as raised:
        syntax.parse_fault(text)
    assert WRONG[text] in raised.value.message
    assert raised.value.hint == "See the page 'Faults' for the syntax."


@st.composite
def lines(draw: st.DrawFn) -> str:
    written = [kind for kind in FAULTS.values() if kind.name != "replace"]
    kind = draw(st.sampled_from(written))
    parts = [kind.name]
    if kind.argument and (kind.argument.required or draw(st.booleans())):
        parts.append(kind.argument.example)
    if draw(st.booleans()):
        parts.append(f"x{draw(st.integers(1, 1_000_000))}")
    methods = ["get"] if kind.reads_only else ["get", "post", "any"]
    parts += draw(st.sampled_from([[], *([method] for method in methods)]))
    parts += draw(
        st.sampled_from([[], *([approval.value] for approval in kind.approvals)])
    )
    if kind.retry_after is not None and draw(st.booleans()):
        parts.append(f"retry-after {draw(st.integers(0, 86_400))}")
    parts += draw(st.sampled_from([[], ["on instance"], ["on all"], ["flapping"]]))
    parts += draw(st.sampled_from([[], ["after 30s"], ["for 5m"], ["after 1h for 2d"]]))
    return " ".join(parts)


@given(lines())
def test_formatted_fault_parses_back_to_itself(text: str) -> None:
    fault = syntax.parse_fault(text)
    assert syntax.parse_fault(syntax.words(fault)) == fault


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(FaultError):
        assert syntax.parse_playbook(text).steps


def test_single_fault_is_permanent_and_a_step_applies_once() -> None:
    (alone,) = syntax.parse_playbook("500").steps
    assert alone.times is None
    book = syntax.parse_playbook("500 x2, timeout, empty for 5s, ok")
    assert [step.times for step in book.steps] == [2, 1, None, 1]
    assert not book.loops


def test_loop_keyword_makes_a_playbook_loop() -> None:
    book = syntax.parse_playbook("500, ok, loop", vms=["web_0"])
    assert book.loops
    assert book.vms == ("web_0",)
    assert [step.kind for step in book.steps] == ["500", "ok"]


def test_too_long_playbook_is_refused() -> None:
    with pytest.raises(FaultError, match="at most 1000 steps"):
        syntax.playbook(["500"] * 1001)


@pytest.mark.parametrize("loops", [False, True])
def test_empty_playbook_is_refused(loops: bool) -> None:
    with pytest.raises(FaultError, match="at least one step"):
        syntax.playbook([], loops=loops)


def test_fault_kinds_match_their_methods() -> None:
    for name, kind in FAULTS.items():
        assert kind.name == name
        assert kind.methods == READS or kind.approvals, name
        if kind.reads_only:
            assert kind.methods == READS, name
    assert {*ALIASES.values()} <= {*FAULTS}
    assert not {*ALIASES} & {*FAULTS}
