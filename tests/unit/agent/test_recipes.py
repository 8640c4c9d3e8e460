"""The cookbook of docs/how-to/agent/rule-recipes.md: each recipe works as described."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.core.model import Memory, StepState
from forewarn.agent.core.permits import (
    Lock,
    LockAnswer,
    LockState,
    ReleaseLock,
    TakeLock,
)
from forewarn.agent.core.policy import Policy
from forewarn.agent.core.rules import default_rules
from forewarn.instants import HOUR, MINUTE, SECOND, parse_instant
from forewarn.protocol.notices import STARTED
from tests.support.recipes import DECISIONS_PAGE, recipe
from tests.unit.agent.core.support import DRAIN, START, Life, gone, notice

Cook = Callable[[str], Policy]


@pytest.fixture
def cook(tmp_path: Path) -> Cook:
    return lambda heading: recipe(heading, tmp_path)


def started_by(life: Life) -> list[str]:
    return [run.handler for run in life.runs]


DEFAULTS: dict[str, dict[str, Any]] = {
    "Started when it is first seen": {"status": STARTED, "not_before": None},
    "names other VMs too": {"resources": ("vm1", "vm2")},
    "Freeze of 0 to 8 s": {"event_type": "Freeze", "duration_seconds": 8},
    "requested by a user": {"source": "User"},
    "Preempt, Terminate": {"event_type": "Terminate", "source": "User"},
    "any other": {"event_type": "Freeze", "duration_seconds": -1},
}


@pytest.mark.clause("8.4")
def test_table_of_default_rules_matches_the_behavior() -> None:
    text = DECISIONS_PAGE.read_text(encoding="utf-8")
    section = text.partition("## Default rules")[2].partition("\n## ")[0]
    shown = {
        cells[0]: cells[1:]
        for line in section.splitlines()
        if line.startswith("| ") and (cells := line[2:-2].split(" | "))
    }
    shown.pop("event")
    assert list(shown) == list(DEFAULTS)
    for row, (bare, with_handlers) in shown.items():
        event = notice(**DEFAULTS[row])
        alone = Life(Policy(rules=default_rules(())))
        alone.poll(event)
        assert bool(alone.sent) is bare.startswith("approved"), row
        life = Life(Policy(handlers=(DRAIN,), rules=default_rules((DRAIN,))))
        life.poll(event)
        assert life.sent == [], row
        assert bool(life.runs) is with_handlers.startswith("prepared"), row
        if life.runs:
            life.end("drain")
            assert bool(life.sent) is with_handlers.endswith("then approved"), row


def test_short_freeze_is_approved_without_handlers(cook: Cook) -> None:
    life = Life(cook("Let short freezes pass"))
    life.poll(
        notice("SHORT", event_type="Freeze", duration_seconds=8),
        notice("UNKNOWN", event_type="Freeze", duration_seconds=-1),
    )
    assert life.sent == ["SHORT"]
    assert started_by(life) == ["pool"]
    life.end("pool")
    life.end("checkpoint")
    assert life.sent == ["SHORT", "UNKNOWN"]


def test_handlers_run_in_parallel_then_in_order(cook: Cook) -> None:
    life = Life(cook("Run handlers in parallel, then in order"))
    life.poll(notice())
    assert started_by(life) == ["pool", "checkpoint"]
    life.end("pool")
    life.end("checkpoint", StepState.FAILED)
    assert started_by(life) == ["pool", "checkpoint", "stop"]


def test_started_event_is_ignored(cook: Cook) -> None:
    life = Life(cook("Ignore events that have started"))
    life.poll(notice(status=STARTED, not_before=None))
    assert (life.runs, life.sent) == ([], [])
    life.poll(notice("E2"))
    assert started_by(life) == ["pool"]


def test_preparation_starts_shortly_before_it_is_due(cook: Cook) -> None:
    life = Life(cook("Begin shortly before it is due"))
    life.poll(notice())
    life.sleep(10 * MINUTE - SECOND)
    assert life.runs == []
    life.sleep(SECOND)
    assert started_by(life) == ["pool"]

    near = Life(life.policy)
    near.poll(notice(not_before=START + MINUTE))
    assert started_by(near) == ["pool"]


def test_slow_handler_runs_only_if_there_is_time(cook: Cook) -> None:
    policy = cook("Only if there is time")
    for minutes, wanted in ((1, "checkpoint"), (2, "pool")):
        life = Life(policy)
        life.poll(notice(not_before=START + minutes * MINUTE))
        assert started_by(life) == [wanted]


@pytest.mark.clause("8.6")
def test_one_vm_approves_for_all(cook: Cook) -> None:
    event = notice(resources=("vm0", "vm1", "vm2"))
    for name, seconds in (("vm0", 0), ("vm1", 20), ("vm2", 40)):
        life = Life(cook("One approves for all"), name=name)
        life.poll(event)
        life.end("pool")
        life.end("checkpoint")
        life.sleep(seconds * SECOND - 1 if seconds else 0)
        assert bool(life.sent) is not bool(seconds)
        life.sleep(SECOND)
        assert life.sent == ["E1"]


@pytest.mark.clause("8.6")
def test_approval_waits_until_all_vms_are_prepared(cook: Cook) -> None:
    policy = cook("All must be prepared")
    life = Life(policy, name="vm0")
    life.poll(notice(resources=("vm0", "vm1")))
    life.end("pool")
    life.end("checkpoint")
    assert [approval.names for approval in life.asked][:1] == [("vm1",)]
    assert life.sent == []
    life.hear("vm1", is_prepared=True)
    assert life.sent == ["E1"]

    alone = Life(policy, name="vm0")
    alone.poll(notice(resources=("vm0",)))
    alone.end("pool")
    alone.end("checkpoint")
    assert alone.sent == ["E1"]


def test_one_vm_is_prepared_at_a_time(cook: Cook) -> None:
    policy = cook("One VM at a time")
    free = Memory(lock=Lock(state=LockState.FREE))
    first, second = (Life(policy, name=name, memory=free) for name in ("vm1", "vm2"))
    slot: list[str] = []
    for life in (first, second):
        event = notice(f"OF-{life.name}", resources=(life.name,))
        freeze = notice(
            f"FREEZE-{life.name}",
            resources=(life.name,),
            event_type="Freeze",
            duration_seconds=5,
        )
        life.poll(event, freeze)
        assert life.sent == [freeze.event_id]
        life.end("pool")
        life.end("checkpoint")
        request = life.lock_asked[-1]
        assert isinstance(request, TakeLock)
        is_free = not slot
        slot.append(request.holder)
        life.lock_says(LockAnswer.TAKEN if is_free else LockAnswer.REFUSED)
        assert (event.event_id in life.sent) is is_free
    gone(first)
    first.end("checkpoint")
    first.end("pool")
    first.sleep(5 * MINUTE - SECOND)
    assert len(first.lock_asked) == 1
    first.sleep(SECOND)
    assert isinstance(first.lock_asked[-1], ReleaseLock)
    second.sleep(15 * MINUTE - 10 * SECOND)
    assert second.sent[-1] == "OF-vm2"


@pytest.mark.parametrize(
    ("at", "is_allowed"),
    [
        ("2026-11-20T20:59:59Z", False),  # Friday, 21:59:59 in Berlin
        ("2026-11-20T21:00:00Z", True),
        ("2026-11-21T04:59:59Z", True),  # Friday's night goes on
        ("2026-11-22T16:59:00Z", True),  # Sunday
        ("2026-11-22T17:00:00Z", False),  # the blackout
        ("2026-11-23T11:00:00Z", False),  # Monday noon
    ],
)
def test_event_is_not_approved_during_the_day(
    cook: Cook, at: str, is_allowed: bool
) -> None:
    now = parse_instant(at)
    life = Life(cook("Only at night and at weekends"), now=now)
    life.poll(notice(not_before=now + 20 * HOUR))
    life.end("pool")
    life.end("checkpoint")
    assert bool(life.sent) is is_allowed
    life.order()
    assert life.sent == ["E1"]


@pytest.mark.clause("8.3")
def test_standby_approves_on_behalf_of_a_silent_vm(cook: Cook) -> None:
    life = Life(cook("Approve for one that is silent"))
    theirs = notice(source="User", resources=("db_primary",))
    life.poll(
        theirs,
        replace(theirs, event_id="PLATFORM", source="Platform"),
        replace(theirs, event_id="END", event_type="Terminate"),
        replace(theirs, event_id="OTHER", resources=("db_3",)),
    )
    life.sleep(MINUTE - 1)
    assert life.sent == []
    life.sleep(HOUR)
    assert set(life.sent) == {"E1"}
    assert life.runs == []


def test_events_of_other_vms_run_handlers(cook: Cook) -> None:
    life = Life(cook("React to events of other VMs"))
    life.poll(notice("THEIRS", resources=("vm2",)))
    assert started_by(life) == ["warn"]
    life.end("warn")
    life.sleep(MINUTE)
    assert life.sent == []
    gone(life)
    assert life.owed() == ["warn"]
    assert life.memory.tasks[0].stage.value == "finished"


def test_rule_matches_the_description_or_the_source(cook: Cook) -> None:
    life = Life(cook("Match the description or the source"))
    life.poll(
        notice("KEPT", description="A Memory-Preserving update of the host"),
        notice("USER", source="User"),
    )
    assert life.sent == ["KEPT"]
    assert started_by(life) == ["checkpoint"]


def test_agent_does_not_approve_if_the_platform_starts_the_event(cook: Cook) -> None:
    life = Life(cook("Prepare, and let the platform start the event"))
    life.poll(notice())
    life.end("pool")
    life.end("checkpoint")
    life.sleep(14 * MINUTE)
    assert life.sent == []


def test_urgent_event_runs_handlers_by_priority(cook: Cook) -> None:
    policy = cook("Urgent events")
    calm = Life(policy)
    calm.poll(notice())
    assert started_by(calm) == ["pool"]
    life = Life(policy)
    life.poll(notice(event_type="Preempt", not_before=START + 30 * SECOND))
    assert started_by(life) == ["checkpoint"]
    assert life.runs[0].stop_at >= START + 26 * SECOND
