"""Documents that list an event, and of which something cannot be read: bytes in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forewarn.agent.core.model import Consent, Memory, Polled, Presence, Stage
from forewarn.agent.core.policy import Approver, Handler, Policy, Rule
from forewarn.instants import HOUR, SECOND
from forewarn.protocol.decoder import decode
from tests.unit.agent.core.support import DRAIN, PREPARE, Life, policy, prepare

ID = "A0000000-0000-4000-8000-000000000001"
EVENT = {
    "EventId": ID,
    "EventStatus": "Scheduled",
    "EventType": "Reboot",
    "ResourceType": "VirtualMachine",
    "Resources": ["vm1"],
    "NotBefore": "Mon, 02 Mar 2026 12:15:00 GMT",
    "Description": "",
    "EventSource": "Platform",
    "DurationInSeconds": -1,
}
BEGUN = {**EVENT, "EventStatus": "Started", "NotBefore": ""}
PATIENCE = 40
"""Documents, one a second: more than make an event gone that has started."""


def without(event: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key not in keys}


class Documents:
    """An agent that reads documents, with the next incarnation each."""

    def __init__(self, settings: Policy | None = None) -> None:
        self.life = Life(settings or policy(DRAIN), is_patient=True)
        self.incarnation = 0
        self.name = "vm1"

    def show(self, *events: object, times: int = 1) -> Life:
        for _ in range(times):
            self.incarnation += 1
            whole = {"DocumentIncarnation": self.incarnation, "Events": events}
            reading = decode(json.dumps(whole).encode())
            polled = Polled(
                notices=reading.notices,
                name=self.name,
                incarnation=reading.incarnation,
                is_partial=reading.is_partial,
                vague=reading.vague,
                heard=self.life.heard,
            )
            self.life.give(polled)
            self.life.sleep(SECOND)
        return self.life


def prepared_and_started() -> Documents:
    shown = Documents()
    shown.show(EVENT).end("drain")
    shown.life.answer(event_id=ID)
    shown.show(BEGUN)
    assert shown.life.task(ID).started
    return shown


@pytest.mark.clause("8.1")
@pytest.mark.parametrize(
    "event",
    [
        pytest.param(without(BEGUN, "Resources"), id="no-resources"),
        pytest.param({**BEGUN, "Resources": []}, id="empty-resources"),
        pytest.param({**BEGUN, "Resources": None}, id="null-resources"),
        pytest.param({**BEGUN, "Resources": {"vm1": 1}}, id="resources-an-object"),
        pytest.param({**BEGUN, "Resources": ["vm2", 7]}, id="a-name-that-is-none"),
        pytest.param({"EventId": ID}, id="nothing-but-the-id"),
        pytest.param(without(BEGUN, "EventId"), id="no-id"),
        pytest.param({**BEGUN, "EventId": ""}, id="an-empty-id"),
        pytest.param({**BEGUN, "EventId": 7}, id="an-id-that-is-a-number"),
        pytest.param(None, id="an-entry-that-is-null"),
        pytest.param(ID, id="an-entry-that-is-a-text"),
    ],
)
def test_partly_unreadable_event_still_counts_as_listed(event: object) -> None:
    shown = prepared_and_started()
    life = shown.show(event, times=PATIENCE)
    task = life.task(ID)
    assert task.is_live
    assert task.presence is Presence.LISTED
    assert task.notice.resources == ("vm1",)
    assert task.notice.event_type == "Reboot"
    assert task.notice.has_started
    assert [step[1] for step in life.begun()] == [PREPARE]
    # It goes when documents say so that can be read.
    shown.show(times=PATIENCE)
    assert life.stage(ID) is Stage.RECOVERING


@pytest.mark.clause("4.6")
def test_event_that_names_only_other_vms_is_over_for_this_vm() -> None:
    life = prepared_and_started().show({**BEGUN, "Resources": ["vm2"]}, times=PATIENCE)
    assert life.stage(ID) is Stage.RECOVERING


def test_vm_with_another_name_keeps_its_event_and_does_not_approve() -> None:
    """The journal may have come to another VM with its disk."""
    shown = Documents()
    life = shown.show(EVENT)
    shown.name = "db_5"
    shown.show(EVENT).end("drain")
    shown.show(EVENT, times=PATIENCE)
    assert life.task(ID).presence is Presence.LISTED
    assert life.stage(ID) is Stage.PREPARED
    assert life.sent == []
    assert life.waits == {ID: "it names vm1, and this VM is called db_5 now"}
    # When it goes, what was prepared is recovered.
    shown.show(times=PATIENCE)
    assert life.stage(ID) is Stage.RECOVERING


@pytest.mark.clause("4.6")
def test_event_listed_for_other_vms_is_not_reported_as_unlisted() -> None:
    life = prepared_and_started().show({**BEGUN, "Resources": ["vm2"]})
    [doubt] = life.doubts.values()
    assert doubt.startswith("no document lists it for this VM since ")


def test_presence_does_not_change_while_an_entry_is_unreadable() -> None:
    shown = prepared_and_started()
    life = shown.show()
    assert life.task(ID).presence is Presence.MISSING
    life = shown.show({"EventId": None}, times=PATIENCE)
    assert life.task(ID).presence is Presence.MISSING
    life = shown.show(BEGUN)
    assert life.task(ID).presence is Presence.LISTED


def test_new_event_next_to_an_unreadable_one_is_prepared() -> None:
    life = Documents().show(None, EVENT)
    assert [step[0] for step in life.begun()] == [ID]


def test_event_that_loses_its_names_keeps_its_known_vms() -> None:
    """The first of several VMs approves, and this VM is not the first."""
    rule = prepare(("drain",), approver=Approver.LEADER, takeover=HOUR)
    shown = Documents(policy(DRAIN, rules=(rule,)))
    shown.show({**EVENT, "Resources": ["vm0", "vm1"]}).end("drain")
    life = shown.show(without(EVENT, "Resources"), times=3)
    assert life.sent == []
    assert life.task(ID).notice.resources == ("vm0", "vm1")


def test_unreadable_event_keeps_its_last_readable_values() -> None:
    shown = Documents(policy(DRAIN))
    shown.show(EVENT)
    before = shown.life.task(ID).notice
    odd = without(EVENT, "EventType", "EventStatus", "EventSource", "NotBefore")
    life = shown.show(odd)
    assert life.task(ID).notice == before
    # A NotBefore that is there no longer belongs to a start, which stays.
    life = shown.show(BEGUN)
    assert life.task(ID).notice.not_before is None
    life = shown.show(without(BEGUN, "EventStatus"))
    assert life.task(ID).notice.has_started


def test_event_without_names_delays_restore_after_a_lost_journal() -> None:
    drain = Handler(name="drain", always=True)
    shown = Documents(Policy(handlers=(drain,), rules=(Rule(name="none"),)))
    shown.life.memory = Memory(lost_journal=True)
    life = shown.show(without(BEGUN, "Resources"), times=2 * PATIENCE)
    assert life.runs == []
    life = shown.show(times=2 * PATIENCE)
    assert [step[2] for step in life.begun()] == ["drain"]


def test_approval_of_an_unreadable_event_stays_given() -> None:
    life = prepared_and_started().show({"EventId": ID}, times=3)
    assert life.task(ID).consent is Consent.GIVEN
    assert len(life.sent) == 1
