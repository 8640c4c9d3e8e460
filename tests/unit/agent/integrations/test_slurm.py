"""A node of a Slurm cluster, with a fake of Slurm's commands."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.agent.handlers import run_context
from forewarn.agent.handlers.run_context import HandlerError, StoppedError
from forewarn.agent.integrations.slurm import own_node
from forewarn.agent.integrations.slurm.client import Undo, jobs_of, node_of, undo_of
from forewarn.agent.settings import AgentSettingsError
from tests.support.agent_journals import START, notice_of
from tests.support.fake_slurm import DENIED, FakeSlurm
from tests.support.handled import JOB, Turned
from tests.support.jobs import PATIENT_SECONDS

pytestmark = pytest.mark.slow

OURS = "forewarn: Reboot E1"
REBOOTED = "Node unexpectedly rebooted"


class Story:
    """A cluster, and handlers of its node."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.slurm = FakeSlurm(directory)

    def handler(self, settings: str = "", **environment: str) -> Turned:
        environ = {**self.slurm.environment, **environment}
        return Turned("slurm", settings, self.directory, environ)


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Story:
    # Four looks fit into a run.
    monkeypatch.setattr(run_context, "LOOK_SECONDS_MIN", PATIENT_SECONDS / 4)
    monkeypatch.setattr(run_context, "LOOK_SECONDS_MAX", PATIENT_SECONDS / 4)
    return Story(tmp_path)


# Draining


def test_node_is_drained_and_resumed(story: Story) -> None:
    story.slurm.job("12", looks=2)
    handler = story.handler()
    assert handler.prepare() == "n1 is drained, and no job is left"
    assert story.slurm.shown == "IDLE+DRAIN"
    assert story.slurm.read()["reason"] == "forewarn: an event"
    assert json.loads(handler.memo.read_text()) == {"node": "n1"}
    assert handler.recover() == "n1 accepts jobs again"
    assert story.slurm.shown == "IDLE"
    assert not handler.memo.exists()
    assert story.slurm.orders() == [
        "scontrol update nodename=n1 state=drain reason=forewarn: an event",
        "scontrol update nodename=n1 state=resume",
    ]


def test_reason_contains_the_event_in_safe_characters(story: Story) -> None:
    handler = story.handler()
    notice = replace(notice_of(), event_type="Reboot", event_id='E1" state=idle\n')
    handler.worker.prepare(replace(JOB, notice=notice), handler.context())
    assert story.slurm.read()["reason"] == "forewarn: Reboot E1 stateidle"


def test_prepare_and_recover_are_idempotent(story: Story) -> None:
    handler = story.handler()
    handler.prepare()
    handler.again()
    assert handler.prepare() == "n1 is drained, and no job is left"
    assert len(story.slurm.orders()) == 1
    handler.recover()
    handler.again()
    assert handler.recover() == "n1 was not drained by forewarn"
    assert len(story.slurm.orders()) == 2


def test_jobs_that_are_left_are_named(story: Story) -> None:
    story.slurm.job("12")
    story.slurm.job("13_4", user="bob", state="SUSPENDED")
    handler = story.handler()
    assert handler.fails("prepare") == (
        "timed out while waiting for 2 jobs, 12 (alice), 13_4 (bob), on n1"
    )
    assert story.slurm.shown == "MIXED+DRAIN"


def test_number_of_named_jobs_is_limited(story: Story) -> None:
    for number in range(10):
        story.slurm.job(str(number))
    message = story.handler().fails("prepare")
    assert "for 10 jobs, 0 (alice), " in message
    assert "7 (alice) and 2 more, on n1" in message


def test_completing_node_is_waited_for(story: Story) -> None:
    story.slurm.then({}, {"flags": ["COMPLETING", "DRAIN"]}, {"flags": ["DRAIN"]})
    assert story.handler().prepare() == "n1 is drained, and no job is left"
    story.slurm.set(flags=["COMPLETING", "DRAIN"])
    message = story.handler().fails("prepare")
    assert message.endswith("waiting for n1, which is IDLE+COMPLETING+DRAIN")


def test_node_resumed_meanwhile_is_drained_again(story: Story) -> None:
    story.slurm.job("12", looks=2)
    story.slurm.then({}, {}, {"flags": [], "reason": ""})
    story.handler().prepare()
    assert len(story.slurm.orders()) == 2
    assert story.slurm.shown == "IDLE+DRAIN"


def test_removed_event_ends_the_wait(story: Story) -> None:
    story.slurm.job("12")
    handler = story.handler()
    context = handler.context()
    pause = context.sleep

    def stopped_meanwhile(seconds: float) -> bool:
        context.stop(START)
        return pause(seconds)

    context.sleep = stopped_meanwhile  # type: ignore[method-assign]
    with pytest.raises(StoppedError, match=r"waiting for 1 job, 12 \(alice\), on n1"):
        handler.worker.prepare(JOB, context)


# Requeuing


def test_jobs_are_requeued_at_once(story: Story) -> None:
    story.slurm.job("12")
    story.slurm.job("13_4")
    story.slurm.job("9", state="COMPLETING", looks=1)
    handler = story.handler('jobs = "requeue"')
    assert handler.prepare() == "n1 is drained, and no job is left"
    assert story.slurm.orders()[1:] == ["scontrol requeue 12", "scontrol requeue 13_4"]


def test_failed_requeue_is_not_repeated_and_the_job_is_awaited(story: Story) -> None:
    story.slurm.job("12", requeue="Requested operation is presently disabled", looks=2)
    handler = story.handler('jobs = "requeue"')
    assert handler.prepare() == "n1 is drained, and no job is left"
    assert story.slurm.orders()[1:] == ["scontrol requeue 12"]


def test_reason_for_a_failed_requeue_is_reported(story: Story) -> None:
    for job in ("12", "13"):
        story.slurm.job(job, requeue="Requested operation is presently disabled")
    message = story.handler('jobs = "requeue"').fails("prepare")
    assert message.endswith(
        "waiting for 2 jobs, 12 (alice), 13 (alice), on n1; 12 and 1 more could not be "
        "requeued: Requested operation is presently disabled for job 12"
    )


def test_jobs_are_requeued_when_the_configured_time_is_left(story: Story) -> None:
    story.slurm.job("12", looks=2)
    early = story.handler('jobs = "wait then requeue"\nrequeue_before = "2s"')
    early.prepare()
    assert len(story.slurm.orders()) == 1
    early.recover()
    story.slurm.job("13")
    # As much as it would leave is no more than there is.
    story.handler('jobs = "wait then requeue"').prepare()
    assert story.slurm.orders()[-1] == "scontrol requeue 13"


# Nodes that others hold stay


@pytest.mark.parametrize(
    "held",
    [
        {"flags": ["DRAIN"], "reason": "bad disk"},
        {"base": "DOWN", "reason": "bad disk"},
        {"base": "DOWN", "reason": REBOOTED},
        {"flags": ["FAIL"], "reason": "bad disk"},
    ],
)
def test_node_drained_by_others_stays_drained(
    story: Story, held: dict[str, object]
) -> None:
    story.slurm.set(**held)
    before = story.slurm.shown
    handler = story.handler()
    assert handler.prepare() == (
        f"n1 was already {before}: {held['reason']}; no job is left"
    )
    assert handler.recover() == "n1 was not drained by forewarn"
    assert story.slurm.orders() == []
    assert story.slurm.shown == before


def test_changed_reason_hands_the_node_to_the_operator(story: Story) -> None:
    handler = story.handler()
    handler.prepare()
    story.slurm.set(reason="bad disk")
    assert handler.recover() == "n1 stays IDLE+DRAIN: bad disk"
    assert not handler.memo.exists()
    assert story.slurm.shown == "IDLE+DRAIN"


def test_node_already_resumed_by_an_operator_is_accepted(story: Story) -> None:
    handler = story.handler()
    handler.prepare()
    story.slurm.set(flags=[], reason="")
    assert handler.recover() == "n1 accepts jobs again"
    assert len(story.slurm.orders()) == 1


def test_node_powered_down_by_slurm_is_not_changed(story: Story) -> None:
    story.slurm.set(flags=["POWERING_DOWN"])
    handler = story.handler()
    assert handler.prepare() == "Slurm is powering n1 down, and no job is left"
    assert handler.recover() == "n1 was not drained by forewarn"


# Afterwards


def test_reason_is_sufficient_for_recovery_without_the_memo(story: Story) -> None:
    story.slurm.set(flags=["DRAIN"], reason=OURS)
    assert story.handler().recover() == "n1 accepts jobs again"


def test_rebooted_node_is_resumed(story: Story) -> None:
    """Down while it booted, resumed, and then set down by Slurm for its reboot."""
    handler = story.handler()
    handler.prepare()
    story.slurm.set(base="DOWN", flags=["DRAIN", "NOT_RESPONDING"])
    away = {"flags": ["NOT_RESPONDING"]}
    story.slurm.then({}, away, {"base": "DOWN", "flags": [], "reason": REBOOTED})
    assert handler.recover() == "n1 accepts jobs again"
    assert story.slurm.orders()[1:] == 2 * ["scontrol update nodename=n1 state=resume"]
    assert not handler.memo.exists()


def test_recovery_of_an_unresponsive_node_stays_pending(story: Story) -> None:
    handler = story.handler()
    handler.prepare()
    story.slurm.set(flags=["DRAIN", "NOT_RESPONDING"])
    message = handler.fails("recover")
    # The fake's node answers by being resumed no more than a real one.
    assert message.endswith("waiting for n1, which is IDLE+NOT_RESPONDING")
    # Slurm has forgotten the reason; the memory has not.
    story.slurm.set(base="DOWN", reason=REBOOTED, flags=[])
    handler.again()
    assert handler.recover() == "n1 accepts jobs again"


def test_rebooted_node_stays_down_if_configured(story: Story) -> None:
    handler = story.handler("return_after_reboot = false")
    handler.prepare()
    story.slurm.set(base="DOWN")
    assert handler.recover() == "n1 stays DOWN: forewarn: an event"
    assert story.slurm.orders()[1:] == ["scontrol update nodename=n1 state=undrain"]


def test_lost_memo_is_restored_before_the_reason_is_cleared(story: Story) -> None:
    story.slurm.set(flags=["DRAIN", "NOT_RESPONDING"], reason=OURS)
    handler = story.handler()
    handler.fails("recover")
    assert handler.memo.exists()


@pytest.mark.parametrize(
    ("state", "reason", "remembered", "returns", "undo"),
    [
        ("IDLE", "", True, True, Undo.DONE),
        ("MIXED+PLANNED", OURS, True, True, Undo.DONE),
        ("IDLE*", "", True, True, Undo.WAIT),
        ("UNKNOWN", "", True, True, Undo.WAIT),
        ("UNKNOWN+DRAIN", OURS, True, True, Undo.WAIT),
        ("IDLE+DRAIN", OURS, False, True, Undo.RESUME),
        ("DOWN*+DRAIN", OURS, True, True, Undo.RESUME),
        ("DOWN+DRAIN", OURS, True, False, Undo.UNDRAIN),
        ("DOWN+DRAIN", REBOOTED, True, True, Undo.RESUME),
        ("DOWN+DRAIN", REBOOTED, False, True, Undo.LEAVE),
        ("IDLE+DRAIN", "bad disk", True, True, Undo.LEAVE),
        ("DOWN", REBOOTED, True, True, Undo.RESUME),
        ("DOWN", REBOOTED, True, False, Undo.DONE),
        ("DOWN*", "Not responding", True, True, Undo.RESUME),
        ("DOWN", "bad disk", True, True, Undo.LEAVE),
        ("FUTURE", "", True, True, Undo.LEAVE),
    ],
)
def test_node_state_determines_the_recovery_action(
    state: str,
    reason: str,
    remembered: bool,
    returns: bool,
    undo: Undo,
) -> None:
    why = f" Reason={reason} [root@2026-11-21T22:00:00]" if reason else ""
    node = node_of(f"NodeName=n1 Boards=1 State={state} Weight=1{why}\n", "n1")
    assert undo_of(node, is_remembered=remembered, returns=returns) is undo


# What Slurm says


@pytest.mark.parametrize(
    ("shown", "states"),
    [
        ("idle*", {"IDLE", "NOT_RESPONDING"}),
        ("mix-", {"MIXED", "PLANNED"}),
        ("drained$", {"DRAIN", "MAINT"}),
        ("IDLE+CLOUD+POWERED_DOWN", {"IDLE", "CLOUD", "POWERED_DOWN"}),
        ("ALLOCATED#", {"ALLOCATED", "POWERING_UP"}),
        ("DOWN*+DRAIN@", {"DOWN", "NOT_RESPONDING", "DRAIN", "REBOOT_REQUESTED"}),
    ],
)
def test_states_and_flag_suffixes_are_parsed(shown: str, states: set[str]) -> None:
    assert node_of(f"NodeName=n1 X=1 State={shown} Y=2", "n1").states == states


def test_reason_may_contain_any_text() -> None:
    line = (
        "NodeName=n1 A=1 State=IDLE+DRAIN B=2 Reason={} [root@2026-11-21T22:00:00] C=3"
    )
    for reason in ("a [b] c=d", "State=IDLE", "bad\n   disk"):
        node = node_of(line.format(reason), "n1")
        assert node.reason == " ".join(reason.split())
        assert node.states == {"IDLE", "DRAIN"}


@pytest.mark.parametrize("text", ["", "NodeName=n1", "NodeName=n10 State=IDLE X=1"])
def test_malformed_output_is_reported(text: str) -> None:
    with pytest.raises(
        HandlerError, match="cannot parse scontrol's output for node n1"
    ):
        node_of(text, "n1")
    with pytest.raises(HandlerError, match="cannot parse squeue's output"):
        jobs_of("slurm has a new format")


def test_unavailable_controller_is_retried(story: Story) -> None:
    story.slurm.set(away=2)
    assert story.handler().prepare() == "n1 is drained, and no job is left"
    story.slurm.set(away=1000)
    for phase in ("prepare", "recover"):
        message = story.handler().fails(phase)
        assert message.startswith("timed out while asking Slurm about node")
        assert message.endswith("Unable to contact slurm controller (connect failure)")


def test_error_names_remaining_jobs_if_the_controller_is_lost(story: Story) -> None:
    story.slurm.job("12")
    story.slurm.then({}, {}, {"away": 1000})
    message = story.handler().fails("prepare")
    assert "waiting for 1 job, 12 (alice), on n1: slurm_load_node error" in message


def test_unanswered_drain_is_remembered(story: Story) -> None:
    """The command may have taken effect."""
    story.slurm.then({"away": 1000})
    handler = story.handler()
    assert "while asking Slurm to drain node n1: " in handler.fails("prepare")
    assert handler.memo.exists()
    story.slurm.set(away=0)
    assert handler.recover() == "n1 accepts jobs again"
    assert story.slurm.orders()[-1].endswith("state=drain reason=forewarn: an event")


def test_refusal_is_reported_at_once_and_leaves_no_memo(story: Story) -> None:
    story.slurm.set(denied=True)
    handler = story.handler()
    assert handler.fails("prepare") == (
        f"Slurm refused to drain node n1: slurm_update error: {DENIED}"
    )
    assert not handler.memo.exists()


def test_unknown_node_is_an_error(story: Story) -> None:
    handler = story.handler('node = "n2"')
    assert handler.fails("prepare") == (
        "Slurm has no node n2: set `node` to its name (Node n2 not found)"
    )


def test_environment_variables_do_not_affect_slurm_output(story: Story) -> None:
    story.slurm.job("12", looks=1)
    handler = story.handler(SQUEUE_FORMAT="%Z", SLURM_TIME_FORMAT="relative")
    worker: Any = handler.worker
    environment = worker._slurm.commands._environment
    assert "SQUEUE_FORMAT" not in environment
    assert environment["SLURM_TIME_FORMAT"] == "standard"


def test_node_name_comes_from_the_environment_or_host() -> None:
    assert own_node({"SLURMD_NODENAME": "n7"}) == "n7"
    assert "." not in own_node({})


# Settings and check


def test_requeue_time_without_requeue_is_rejected(story: Story) -> None:
    with pytest.raises(AgentSettingsError, match="requires jobs"):
        story.handler('requeue_before = "2m"')


def test_check_reports_missing_programs_and_nodes(story: Story) -> None:
    assert story.handler().check() == []
    assert story.handler(PATH="/nowhere").check() == [
        "there is no program scontrol: it comes with Slurm (slurm-client)",
        "there is no program squeue: it comes with Slurm (slurm-client)",
    ]
    assert story.handler('node = "n2"').check() == [
        "Slurm has no node n2: set `node` to its name (Node n2 not found)"
    ]


def test_check_reports_a_user_without_permission(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user ID decides or, if there is one, the accounting's entry."""
    monkeypatch.setattr(os, "geteuid", lambda: 64030)
    assert story.handler().check() == []
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    [problem] = story.handler().check()
    assert "run it as root or slurm, or make root an operator of Slurm" in problem
    sacctmgr = story.slurm.path / "sacctmgr"
    sacctmgr.write_text("#!/bin/sh\necho Operator\n")
    sacctmgr.chmod(0o755)
    assert story.handler().check() == []
