"""The server for planted defects handles approvals as in the protocol."""

import json
from typing import Any

import pytest

from forewarn.instants import MINUTE, SECOND
from tests.support import planted
from tests.support.planted.endpoint import EVENTS
from tests.support.planted.playing import (
    BEGIN,
    MARK,
    UNSEEN,
    Visit,
    approval,
    post,
    request,
)


def events_of(visit: Visit, vm: str = "web_0") -> dict[str, dict[str, Any]]:
    """Return a VM's events by type and first resource."""
    document = json.loads(visit.ask(request(), vm).body)["Events"]
    return {
        f"{event['EventType']} {event['Resources'][0]}": event for event in document
    }


def test_approved_event_starts_at_once_and_is_removed_later() -> None:
    visit = Visit(pace=planted.AT_ONCE)
    event_id = events_of(visit)["Reboot web_0"]["EventId"]
    bad = visit.ask(post(event_id, UNSEEN))
    assert bad.status == 400
    assert events_of(visit)["Reboot web_0"]["EventStatus"] == "Scheduled"
    good = visit.ask(post(event_id.lower()), "web_2")
    assert (good.status, good.body) == (200, b"")
    assert events_of(visit)["Reboot web_0"]["EventStatus"] == "Started"
    assert visit.ask(post(event_id)).status == 200
    visit.wait(SECOND)
    assert "Reboot web_0" not in events_of(visit)
    assert visit.ask(post(event_id)).status == 200
    assert visit.ask(post(event_id), "db_0").status == 400


def test_old_client_can_approve_several_events_with_extra_members() -> None:
    visit = Visit(pace=planted.AT_ONCE)
    events = events_of(visit)
    names = ("Reboot web_0", "Redeploy web_1")
    entries = [{"EventId": events[name]["EventId"]} for name in names]
    body = json.dumps({"DocumentIncarnation": "2", "StartRequests": entries}).encode()
    target = f"{EVENTS}?api-version=2017-08-01"
    headers = (MARK, ("If-None-Match", "2"), ("Content-Type", "text/plain"))
    assert visit.ask(request("POST", target, headers, body)).status == 200
    later = events_of(visit)
    assert {later[name]["EventStatus"] for name in names} == {"Started"}


def test_deletions_of_one_request_wait_for_each_other() -> None:
    visit = Visit(pace=planted.AT_ONCE)
    events = events_of(visit)
    first, second = events["Terminate web_10"], events["Terminate web_11"]
    assert first["NotBefore"] == second["NotBefore"]
    visit.ask(post(first["EventId"]))
    assert events_of(visit)["Terminate web_10"]["EventStatus"] == "Scheduled"
    # The version hides the type, but the event can be approved.
    visit.ask(post(second["EventId"], version="2017-08-01"))
    later = events_of(visit)
    assert later["Terminate web_10"]["EventStatus"] == "Started"
    assert later["Terminate web_11"]["EventStatus"] == "Started"


@pytest.mark.parametrize("is_approved_by_both", [True, False])
def test_event_of_a_shared_host_waits_for_both_tenants(
    is_approved_by_both: bool,
) -> None:
    visit = Visit()
    visit.ask(request())
    visit.ask(request(), "db_0")
    while "Freeze db_0" not in events_of(visit, "db_0"):
        visit.wait(SECOND // 10)
    visit.ask(post(events_of(visit)["Freeze web_0"]["EventId"]))
    assert events_of(visit)["Freeze web_0"]["EventStatus"] == "Scheduled"
    if is_approved_by_both:
        visit.ask(post(events_of(visit, "db_0")["Freeze db_0"]["EventId"]), "db_0")
        assert events_of(visit)["Freeze web_0"]["EventStatus"] == "Started"
        return
    visit.wait(SECOND)
    assert "Freeze web_0" not in events_of(visit)


def test_one_approving_vm_sees_all_event_types() -> None:
    visit = Visit(pace=planted.APPROVED)
    approved: set[str] = set()
    types: set[str] = set()
    while len(types) < 5:
        assert visit.clock.now() < BEGIN + MINUTE
        for event in events_of(visit).values():
            types.add(event["EventType"])
            if event["EventId"] not in approved:
                approved.add(event["EventId"])
                visit.ask(post(event["EventId"]))


def test_body_can_be_chunked_or_sent_after_100_continue() -> None:
    visit = Visit(pace=planted.AT_ONCE)
    body = approval(events_of(visit)["Reboot web_0"]["EventId"])
    head = request("POST", headers=(MARK, ("Expect", "100-continue")), body=body)
    invited = visit.ask(head.removesuffix(body))
    assert (invited.status, invited.body) == (100, b"")
    assert visit.ask(body).status == 200
    coded = request(headers=(MARK, ("Transfer-Encoding", "chunked")))
    chunk = b"%x;a=b\r\n%s\r\n0\r\nTrailer: 1\r\n\r\n" % (len(body), body)
    sent = coded.replace(b"GET", b"POST", 1) + chunk
    for cut in range(len(sent) - 1):
        fresh = Visit(pace=planted.AT_ONCE)
        fresh.ask(request())
        assert not fresh.ask(sent[:cut]).got
        assert fresh.ask(sent[cut:]).status == 200
