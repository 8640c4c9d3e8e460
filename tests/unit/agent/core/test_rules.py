"""The first rule whose conditions all hold decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forewarn.agent.core import rules
from forewarn.agent.core.model import Task
from forewarn.agent.core.policy import Approve, Handler, Policy, Rule
from forewarn.instants import HOUR, MINUTE, SECOND
from forewarn.protocol.notices import STARTED
from tests.unit.agent.core.support import (
    DRAIN,
    FLUSH,
    START,
    Life,
    notice,
    policy,
    prepare,
)


def task_of(*, mine: bool = True, **values: Any) -> Task:
    return Task(event_id="E1", notice=notice(**values), mine=mine, seen=START)


CASES = [
    ({}, {}, True),
    ({"types": frozenset({"Reboot"})}, {}, True),
    ({"types": frozenset({"Freeze"})}, {}, False),
    ({"types": frozenset({"Freeze"})}, {"event_type": "Quake"}, False),
    ({"statuses": frozenset({"Started"})}, {}, False),
    ({"statuses": frozenset({"Started"})}, {"status": STARTED}, True),
    ({"statuses": frozenset({"Scheduled"})}, {"status": "Paused"}, True),
    ({"statuses": frozenset({"Scheduled"})}, {"status": ""}, True),
    ({"sources": frozenset({"User"})}, {}, False),
    ({"sources": frozenset({"User"})}, {"source": "User"}, True),
    ({"sources": frozenset({"User"})}, {"source": ""}, False),
    ({"max_duration": 8}, {"duration_seconds": 8}, True),
    ({"max_duration": 8}, {"duration_seconds": 9}, False),
    ({"max_duration": 8}, {"duration_seconds": 0}, True),
    ({"max_duration": 8}, {"duration_seconds": -1}, False),
    ({"min_duration": 9}, {"duration_seconds": 9}, True),
    ({"min_duration": 9}, {"duration_seconds": 8}, False),
    ({"min_duration": 9}, {"duration_seconds": -1}, True),
    ({"min_duration": 1}, {"duration_seconds": 0}, False),
    ({"description": "*live migration*"}, {"description": "A Live Migration."}, True),
    ({"description": "*LIVE*"}, {"description": "it is live"}, True),
    ({"description": "live"}, {"description": "it is live"}, False),
    ({"description": "*a*b"}, {"description": "a\nb"}, True),
    ({"min_lead": 15 * MINUTE}, {}, True),
    ({"min_lead": 15 * MINUTE + 1}, {}, False),
    ({"min_lead": 0}, {"not_before": None}, False),
    ({"max_lead": 15 * MINUTE}, {}, True),
    ({"max_lead": 15 * MINUTE - 1}, {}, False),
    ({"max_lead": 0}, {"not_before": None}, True),
    ({"max_lead": 0}, {"not_before": START - 1}, True),
    ({"min_resources": 2}, {}, False),
    ({"min_resources": 2}, {"resources": ("vm1", "vm2")}, True),
    ({"max_resources": 1}, {}, True),
    ({"max_resources": 1}, {"resources": ("vm1", "vm2")}, False),
    ({"description": "[planned] *"}, {"description": "[Planned] a reboot"}, True),
    ({"description": "[planned] *"}, {"description": "p a reboot"}, False),
    ({"description": "*[!x]*"}, {"description": "y"}, False),
    ({"description": "?]"}, {"description": "[]"}, True),
    ({"mine": False}, {}, False),
    ({"mine": False}, {"mine": False}, True),
    ({}, {"mine": False}, False),
]


@pytest.mark.parametrize(("conditions", "values", "wanted"), CASES)
def test_every_condition_must_hold(
    conditions: dict[str, Any], values: dict[str, Any], *, wanted: bool
) -> None:
    rule = Rule(name="it", **conditions)
    assert rules.matches(rule, task_of(**values), START) is wanted


def test_the_first_that_matches_decides() -> None:
    settings = Policy(
        rules=(
            Rule(name="freezes", types=frozenset({"Freeze"})),
            Rule(name="reboots", types=frozenset({"Reboot"})),
            Rule(name="all"),
        )
    )
    assert rules.rule_for(settings, task_of(), START).name == "reboots"
    assert rules.rule_for(settings, task_of(event_type="X"), START).name == "all"
    assert rules.rule_for(Policy(), task_of(), START) is rules.NO_RULE


def test_rule_that_started_the_event_still_decides() -> None:
    first = prepare(
        ("drain",), name="early", min_lead=10 * MINUTE, approve=Approve.NEVER
    )
    life = Life(policy(DRAIN, rules=(first, prepare(("drain",), name="late"))))
    life.poll(notice())
    life.end("drain")
    life.now += 10 * MINUTE
    life.poll(notice())
    assert life.sent == []
    assert life.waits == {"E1": "early never approves"}


def test_rule_checksum_depends_on_content_and_not_on_name() -> None:
    freeze = frozenset({"Freeze", "Reboot", "Redeploy"})
    rule = Rule(name="rule 1", types=freeze, groups=(("drain",),))
    same = Rule(name="rule 2", types=frozenset(sorted(freeze)), groups=(("drain",),))
    others = [
        replace(rule, types=frozenset({"Freeze"})),
        replace(rule, groups=(("drain", "flush"),)),
        replace(rule, approve=Approve.NEVER),
        replace(rule, start_before=MINUTE),
        Rule(name="rule 1"),
    ]
    assert rules.sum_of(rule) == rules.sum_of(same)
    assert len({rules.sum_of(rule_) for rule_ in (rule, *others)}) == 1 + len(others)
    # The journal has it: it must be the same in every version.
    assert rules.sum_of(rule) == 2_624_476_256


def test_an_observer_has_one_rule() -> None:
    settings = policy(DRAIN, is_observer=True)
    assert rules.rule_for(settings, task_of(), START) is rules.OBSERVER
    assert rules.rule_kept(settings, task_of(), START) is rules.OBSERVER


def test_rule_may_match_as_not_before_approaches() -> None:
    settings = Policy(
        rules=(
            Rule(name="far", min_lead=10 * MINUTE, approve=Approve.NEVER),
            Rule(name="near", max_lead=MINUTE),
            Rule(name="any", approve=Approve.NEVER),
        )
    )
    far, near = START + 5 * MINUTE + 1, START + 14 * MINUTE
    assert rules.next_change(settings, task_of(), START) == far
    assert rules.next_change(settings, task_of(), far) == near
    assert rules.next_change(settings, task_of(), near) is None
    assert rules.next_change(settings, task_of(not_before=None), START) is None
    assert rules.rule_for(settings, task_of(), far - 1).name == "far"
    assert rules.rule_for(settings, task_of(), far).name == "any"
    assert rules.rule_for(settings, task_of(), near).name == "near"
    life = Life(settings)
    life.poll(notice())
    assert life.waits == {"E1": "far never approves"}
    life.sleep(14 * MINUTE - 1)
    assert life.sent == []
    assert life.waits == {"E1": "any never approves"}
    life.sleep(SECOND)
    assert life.sent == ["E1"]


DEFAULTS = [
    ({"status": STARTED}, "default: Started", "default: Started"),
    ({"status": STARTED, "source": "User"}, "default: Started", "default: Started"),
    ({"source": "User"}, "default: User", "default: prepare"),
    ({}, "default: log", "default: prepare"),
    ({"event_type": "Preempt"}, "default: log", "default: prepare"),
    ({"event_type": "Freeze"}, "default: log", "default: prepare"),
    (
        {"event_type": "Freeze", "duration_seconds": 9},
        "default: log",
        "default: prepare",
    ),
    (
        {"event_type": "Freeze", "duration_seconds": 8},
        "default: short Freeze",
        "default: prepare",
    ),
    (
        {"event_type": "Freeze", "duration_seconds": 0},
        "default: short Freeze",
        "default: prepare",
    ),
]


@pytest.mark.clause("8.4")
@pytest.mark.parametrize(("values", "bare", "with_handlers"), DEFAULTS)
def test_default_rules_match_the_documented_policy(
    values: dict[str, Any], bare: str, with_handlers: str
) -> None:
    for handlers, wanted in (((), bare), ((DRAIN, FLUSH), with_handlers)):
        settings = Policy(handlers=handlers, rules=rules.default_rules(handlers))
        assert rules.rule_for(settings, task_of(**values), START).name == wanted


@pytest.mark.clause("8.4")
def test_without_handlers_user_events_and_short_freezes_are_approved() -> None:
    life = Life(Policy(rules=rules.default_rules(())))
    life.poll(
        notice("USER", source="User"),
        notice("SHORT", event_type="Freeze", duration_seconds=8),
        notice("LONG", event_type="Freeze", duration_seconds=9),
        notice("UNKNOWN", event_type="Freeze", duration_seconds=-1),
        notice("REBOOT"),
        notice("BEGUN", status=STARTED, source="User"),
        notice("END", event_type="Terminate", source="User"),
    )
    assert life.sent == ["USER", "SHORT"]
    assert life.waits["END"] == "a Terminate is never approved unprepared"


@pytest.mark.clause("8.4", "8.6")
def test_an_event_of_several_vms_is_not_approved_for_the_others() -> None:
    """One approval covers them all, and what they are at is not known here."""
    settings = Policy(handlers=(DRAIN,), rules=rules.default_rules((DRAIN,)))
    life = Life(settings)
    life.poll(notice(resources=("vm1", "vm2"), source="User"))
    life.end("drain")
    life.sleep(HOUR)
    assert life.sent == []
    assert life.waits["E1"] == "default: of several VMs never approves"


@pytest.mark.clause("8.4", "8.6")
def test_an_event_of_several_vms_is_approved_when_all_peers_are_prepared() -> None:
    default = rules.default_rules((DRAIN,), has_peers=True)
    life = Life(Policy(handlers=(DRAIN,), rules=default, has_peers=True))
    life.poll(notice(resources=("vm1", "vm2")))
    life.end("drain")
    assert life.sent == []
    life.hear("vm2", is_prepared=True)
    assert life.sent == ["E1"]


@pytest.mark.clause("8.4", "8.5")
@pytest.mark.parametrize("event_type", ["Freeze", "Reboot", "Redeploy", "Terminate"])
def test_with_handlers_preparation_comes_before_approval(event_type: str) -> None:
    handlers: tuple[Handler, ...] = (DRAIN, FLUSH)
    life = Life(Policy(handlers=handlers, rules=rules.default_rules(handlers)))
    life.poll(notice(event_type=event_type, source="User"))
    assert life.sent == []
    life.end("drain")
    assert life.sent == []
    life.end("flush")
    assert life.sent == ["E1"]
