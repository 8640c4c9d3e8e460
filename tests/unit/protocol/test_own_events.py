"""The document of the extension, member by member, as docs/reference/extensions.md has it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from forewarn.instants import MINUTE, SECOND, parse_instant
from forewarn.protocol.events import EventStatus, EventType, Outcome
from forewarn.protocol.own_events import (
    EndedEvent,
    OwnEvent,
    OwnEvents,
    Wait,
    Waiting,
)
from forewarn.wording.vms import render

AT = parse_instant("2026-11-21T10:15:00Z")
ID = "7D39F51C-DA10-48EB-B945-EDC98DC94C2D"
LIVE = OwnEvent(
    event_id=ID,
    event_type=EventType.REBOOT,
    status=EventStatus.SCHEDULED,
    is_affected=True,
    is_approved=False,
    waiting=(
        Waiting(what=Wait.NOT_BEFORE, at=AT),
        Waiting(what=Wait.OTHER_VM, vms=("web_1",)),
    ),
)
ENDED = EndedEvent(
    event_id=ID,
    event_type=EventType.FREEZE,
    outcome=Outcome.COMPLETED,
    ended_at=AT + MINUTE,
    down=5 * SECOND // 2,
    is_exact=False,
)


def told(*live: OwnEvent, ended: tuple[EndedEvent, ...] = ()) -> Any:
    return json.loads(render(OwnEvents(live=live, ended=ended)))


def test_no_events_are_rendered_as_two_empty_lists() -> None:
    assert render(OwnEvents(live=(), ended=())) == b'{"Events":[],"Ended":[]}'


def test_live_event_lists_what_it_waits_for() -> None:
    assert told(LIVE) == {
        "Events": [
            {
                "EventId": ID,
                "EventType": "Reboot",
                "EventStatus": "Scheduled",
                "Affected": True,
                "Approved": False,
                "WaitsFor": [
                    {
                        "Reason": "NotBefore",
                        "At": "Sat, 21 Nov 2026 10:15:00 GMT",
                        "Message": "It starts at NotBefore, or earlier if all approve.",
                    },
                    {
                        "Reason": "OtherVm",
                        "Resources": ["web_1"],
                        "Message": "It starts together with other events of this "
                        "document, which are not approved.",
                    },
                ],
            }
        ],
        "Ended": [],
    }


def test_unknown_values_are_omitted() -> None:
    waiting = Waiting(what=Wait.OWN_GUARD)
    assert told(replace(LIVE, waiting=(waiting,)))["Events"][0]["WaitsFor"] == [
        {
            "Reason": "Guard",
            "Message": "It is held while another part of your scope is down or being "
            "moved.",
        }
    ]


def test_each_reason_to_wait_has_a_name_and_a_message() -> None:
    every = replace(LIVE, waiting=tuple(Waiting(what=wait) for wait in Wait))
    shown = told(every)["Events"][0]["WaitsFor"]
    assert {wait["Reason"] for wait in shown} == {
        *(
            "OwnApproval",
            "OtherVm",
            "OtherScope",
            "OtherTenant",
            "NotBefore",
            "Guard",
            "Window",
        ),
        *("Room", "Driver", "Operator", "Recovery"),
    }
    assert len({wait["Message"] for wait in shown}) == len(Wait)


def test_ended_event_reports_its_outcome_and_downtime() -> None:
    assert told(ended=(ENDED,)) == {
        "Events": [],
        "Ended": [
            {
                "EventId": ID,
                "EventType": "Freeze",
                "Outcome": ENDED.outcome.value,
                "EndedAt": "Sat, 21 Nov 2026 10:16:00 GMT",
                "DownSeconds": 2,
                "IsUpperBound": True,
            }
        ],
    }
