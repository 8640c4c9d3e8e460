"""Settings and commands: modes, windows, orders, a second agent, notifications."""

import json
import sqlite3
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from forewarn.agent.core.model import Consent, Stage
from tests.support.agents import (
    DRAIN,
    WHOLE_LIFE,
    AgentProcess,
    Ground,
    approved_first,
    handler,
)
from tests.support.processes import eventually
from tests.support.receivers import Receiver, receiving

pytestmark = [pytest.mark.system, pytest.mark.slow]

NEVER = """
[[blackout]]
begins = "00:00"
ends = "24:00"
"""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


# Modes


def test_dry_run_logs_everything_and_does_nothing(place: Ground) -> None:
    agent = place.agent(top="dry_run = true\n", pages=True)

    def approval() -> list[str]:
        try:
            return [event["approval"] for event in agent.status()["events"]]
        except OSError:
            return []

    event = place.event(notice="3s")
    eventually(approval, lambda found: "given" in found)
    assert agent.status()["mode"] == "dry run"
    eventually(place.world.events, lambda events: not events)
    eventually(agent.log, lambda log: "Reboot recovered" in log)
    assert "dry run: drain would prepare now" in agent.log()
    assert "dry run: the approval would be sent now" in agent.log()
    assert "Reboot approved: dry run: the approval was not sent" in agent.log()
    assert agent.did() == []
    assert place.posts(event) == []
    left = {file.name for file in agent.directory.iterdir()}
    assert left == {"agent.toml", "act", "log"}


def test_observer_logs_and_does_nothing(still_place: Ground) -> None:
    agent = still_place.agent(top="observe = true\n").wait_ready()
    event = still_place.event(notice="2s")
    still_place.finish(event, agent)
    assert agent.told() == ["seen", "started", "gone"]
    assert agent.did() == []
    assert still_place.posts() == []


# A second agent, and settings that are wrong


def test_second_agent_on_the_same_journal_exits_and_names_the_first(
    place: Ground,
) -> None:
    """It could not start: status 1. Nothing is wrong with the settings."""
    first = place.agent().wait_ready()
    second = first.command("run")
    assert second.returncode == 1
    assert f"process {first.process.pid}\n" in second.stderr
    assert "hint: Stop the other agent first." in second.stderr
    assert "Traceback" not in second.stderr
    event = place.event()
    place.wait_approved(event, "web_0")
    # As soon as the first has ended, however, another may begin.
    first.kill()
    first.again()
    first.wait_stage(event, Stage.FINISHED)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has abstract names")
def test_second_agent_at_the_same_endpoint_exits_and_names_the_first(
    place: Ground,
) -> None:
    first = place.agent().wait_ready()
    arguments = ("run", "--state", f"{place.directory}/other.db")
    second = first.command(*arguments)
    assert second.returncode == 1
    assert f"already handles events from {place.world.url('web_0')}" in second.stderr
    assert f"another agent (process {first.process.pid}) already" in second.stderr
    assert "Traceback" not in second.stderr
    # Its running handler outlives it, and another agent can take it over.
    first.hold("drain.prepare")
    event = place.event()
    first.wait_did("begun prepare drain")
    first.kill()
    first.again()
    first.release("drain.prepare")
    place.wait_approved(event, "web_0")
    first.wait_stage(event, Stage.FINISHED)
    assert [run.what for run in first.did() if run.phase == "prepare"] == [
        "begun",
        "done",
    ]


def test_missing_token_file_is_a_settings_error(
    place: Ground,
) -> None:
    peers = '[peers]\nlisten = "127.0.0.1:0"\ntoken_file = "none"\n'
    agent = place.agent(settings=peers + DRAIN)
    assert agent.process.wait(120) == 2
    assert "peers.token_file: none cannot be read: No such file" in agent.log()


# Orders


def test_operator_approval_overrides_a_blackout(place: Ground) -> None:
    agent = place.agent(settings=DRAIN + NEVER).wait_ready()
    event = place.event()
    agent.wait_stage(event, Stage.PREPARED)
    assert place.posts() == []
    done = agent.command("approve", event.lower())
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"ordered: Reboot {event} is approved within a second\n"
    place.wait_approved(event, "web_0")
    agent.wait_stage(event, Stage.FINISHED)


def test_approve_command_overrides_a_withheld_approval(place: Ground) -> None:
    agent = place.agent(pages=True).wait_ready()
    agent.fail("drain.prepare")
    event = place.event()
    agent.wait_stage(event, Stage.WITHHELD)
    [shown] = agent.status()["events"]
    why = "drain failed: exit status 1: it was made to fail"
    assert shown["waits_for"] == f"withheld: {why}"
    assert place.posts() == []
    assert agent.command("approve", event).returncode == 0
    place.wait_approved(event, "web_0")
    agent.wait_stage(event, Stage.FINISHED)
    # A partial preparation is undone too.
    assert agent.did("done")[-1].phase == "recover"


def test_approval_ordered_while_the_agent_is_down_is_sent_after_restart(
    place: Ground,
) -> None:
    agent = place.agent(settings=DRAIN + NEVER).wait_ready()
    event = place.event()
    agent.wait_stage(event, Stage.PREPARED)
    agent.kill()
    assert agent.command("approve", event).returncode == 0
    agent.again()
    place.wait_approved(event, "web_0")


def test_approval_of_an_unknown_event_is_refused(place: Ground) -> None:
    agent = place.agent().wait_ready()
    done = agent.command("approve", "E1")
    assert done.returncode == 1
    assert "the agent has no current event with ID E1" in done.stderr


def test_failed_handler_withholds_the_approval_with_a_warning(place: Ground) -> None:
    """As a client does not that approves although its drain has failed."""
    agent = place.agent().wait_ready()
    agent.fail("drain.prepare")
    event = place.event(notice="2s")
    agent.wait_stage(event, Stage.FINISHED)
    assert place.posts() == []
    loud = [line["message"] for line in agent.lines() if line["level"] == "warning"]
    why = "drain failed: exit status 1: it was made to fail"
    assert f"Reboot withheld: {why}" in loud


def test_failed_optional_handler_does_not_withhold_the_approval(place: Ground) -> None:
    settings = handler("drain", required="-").replace('"-"', "false")
    agent = place.agent(settings=settings).wait_ready()
    agent.fail("drain.prepare")
    event = place.event()
    place.wait_approved(event, "web_0")
    agent.wait_stage(event, Stage.FINISHED)


def test_event_approved_elsewhere_is_reported_as_such(place: Ground) -> None:
    agent = place.agent(settings=DRAIN + NEVER).wait_ready()
    event = place.event()
    agent.wait_stage(event, Stage.PREPARED)
    assert place.world.approve(event) == 200
    agent.wait_stage(event, Stage.FINISHED)
    assert "Reboot started: it was approved elsewhere" in agent.log()
    task = agent.task(event)
    assert task is not None
    assert task.consent is Consent.NONE


# Notifications


def notified(agent: AgentProcess) -> list[dict[str, Any]]:
    file = agent.directory / "told.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


def sinks(receiver: Receiver) -> str:
    return (
        '[[notify]]\nkind = "file"\npath = "told.jsonl"\n'
        f'[[notify]]\nkind = "webhook"\nurl = "{receiver.url}/hook"\n'
    )


def test_notifications_reach_a_file_and_a_webhook_in_order(
    still_place: Ground, receiver: Receiver
) -> None:
    agent = still_place.agent(settings=sinks(receiver) + DRAIN).wait_ready()
    event = still_place.event()
    still_place.finish(event, agent)
    eventually(lambda: notified(agent), lambda values: len(values) == len(WHOLE_LIFE))
    eventually(lambda: receiver.came, lambda came: len(came) == len(WHOLE_LIFE))
    for notifications in (
        notified(agent),
        [json.loads(request.body) for request in receiver.came],
    ):
        assert (
            approved_first([notification["kind"] for notification in notifications])
            == WHOLE_LIFE
        )
        assert {notification["event"]["EventId"] for notification in notifications} == {
            event
        }
        assert {notification["vm"] for notification in notifications} == {"web_0"}
        numbers = [notification["id"] for notification in notifications]
        assert numbers == sorted(set(numbers))


def test_notifications_wait_for_their_receiver_across_a_restart(
    still_place: Ground, receiver: Receiver
) -> None:
    """They delay nothing, are in order, and one that was cut off has its number."""
    receiver.usual = 503
    agent = still_place.agent(settings=sinks(receiver) + DRAIN).wait_ready()
    event = still_place.event()
    still_place.finish(event, agent)
    agent.kill()
    receiver.usual = 200
    refused = len(receiver.came)
    agent.again()
    eventually(
        lambda: receiver.came[refused:], lambda came: len(came) == len(WHOLE_LIFE)
    )
    documents = [json.loads(request.body) for request in receiver.came[refused:]]
    assert approved_first([document["kind"] for document in documents]) == WHOLE_LIFE
    assert {json.loads(request.body)["id"] for request in receiver.came[:refused]} == {
        documents[0]["id"]
    }
    assert (
        approved_first([notification["kind"] for notification in notified(agent)])
        == WHOLE_LIFE
    )


# A journal that cannot be written for a while


def test_agent_continues_while_the_journal_is_locked(
    place: Ground,
) -> None:
    agent = place.agent(pages=True).wait_ready()
    held = sqlite3.connect(agent.directory / "agent.db", isolation_level=None)
    held.execute("BEGIN IMMEDIATE")
    event = place.event()
    place.wait_approved(event, "web_0")
    assert agent.task(event) is None
    status, sentence = agent.sentence("/readyz")
    assert (status, sentence[:28]) == (503, "the journal cannot be used: ")
    assert agent.sentence("/healthz") == (200, "ok\n")
    held.execute("ROLLBACK")
    held.close()
    agent.wait_stage(event, Stage.FINISHED)
    eventually(lambda: agent.sentence("/readyz")[0], (200).__eq__)
    assert agent.told(event)[:4] == ["seen", "preparing", "prepared", "approved"]
    assert "the agent continues without it" in agent.log()
    assert "the journal can be written again" in agent.log()
