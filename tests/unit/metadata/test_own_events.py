"""The extension for event details: its route, its errors, and what it hides."""

import json
from typing import Any

import pytest

from forewarn.control.requests import approvals, failures, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.instants import DAY
from forewarn.metadata.endpoint import Endpoint, details
from forewarn.metadata.http import Request, Response
from forewarn.metadata.identity import Source
from forewarn.metadata.routes import OwnRead
from forewarn.protocol.notes import Said
from forewarn.protocol.operations import Action, Verb
from forewarn.reporting import event_details
from tests.unit.admin.gateway import FLEET, LocalGateway
from tests.unit.control.test_downtime import order
from tests.unit.metadata.support import NO_EVENTS, make_endpoint

PATH = "/metadata/forewarn/events"
QUERY = "api-version=2026-11-01"


def ask(
    endpoint: Endpoint,
    method: str = "GET",
    *,
    path: str = PATH,
    query: str = QUERY,
    vm: str = "w0",
    metadata: tuple[str, ...] = ("true",),
) -> object:
    request = Request(
        method=method,
        path=path,
        query=query,
        headers={"metadata": metadata} if metadata else {},
        body=b"",
    )
    return endpoint.handle(request, Source(address="", vm=vm), now=0, monotonic=0.0)


@pytest.fixture
def endpoint() -> Endpoint:
    new_endpoint = make_endpoint()
    new_endpoint._has_own_events = True
    return new_endpoint


def status(answer: object) -> int:
    assert isinstance(answer, Response), answer
    return answer.status


def test_event_details_request_is_passed_to_control(endpoint: Endpoint) -> None:
    assert ask(endpoint) == OwnRead()
    assert ask(endpoint, path="/Metadata/Forewarn/Events/") == OwnRead()


def test_errors_match_the_other_routes(endpoint: Endpoint) -> None:
    assert status(ask(endpoint, metadata=())) == 400
    assert status(ask(endpoint, "POST")) == 405
    assert status(ask(endpoint, "DELETE")) == 405
    assert status(ask(endpoint, vm="stranger")) == 404
    for query in ("", "api-version=2020-07-01", f"{QUERY}&{QUERY}"):
        answer = ask(endpoint, query=query)
        assert isinstance(answer, Response)
        assert answer.status == 400
        assert b'"newest-versions":["2026-11-01"]' in answer.payload
    assert status(ask(endpoint, path=f"{PATH}/more")) == 404


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "PUT"])
@pytest.mark.parametrize("metadata", [("true",), ()])
@pytest.mark.parametrize("query", ["", QUERY])
def test_disabled_route_answers_like_an_unknown_path(
    method: str, metadata: tuple[str, ...], query: str
) -> None:
    off = make_endpoint()
    there = ask(off, method, query=query, metadata=metadata)
    nowhere = ask(off, method, path="/metadata/nothing", query=query, metadata=metadata)
    assert there == nowhere


def test_event_details_are_rate_limited() -> None:
    limited = make_endpoint(rate_limit=1)
    limited._has_own_events = True
    answers = [ask(limited) for _ in range(20)]
    assert any(
        isinstance(answer, Response) and answer.status == 429 for answer in answers
    )


def test_event_details_of_a_deleted_vm_are_404() -> None:
    assert details(None).status == 404
    assert details(NO_EVENTS).status == 200


def told(gateway: LocalGateway, vm: str) -> Any:
    answer = details(
        gateway.store.read(
            lambda reader: event_details.own_events(reader, vm, now=gateway.now())
        )
    )
    assert answer.status == 200
    return json.loads(answer.payload.partition(b"\r\n\r\n")[2])


def waits(gateway: LocalGateway, vm: str) -> list[str]:
    return [
        wait["Reason"]
        for event in told(gateway, vm)["Events"]
        for wait in event["WaitsFor"]
    ]


def test_event_details_do_not_name_other_objects() -> None:
    """A reason to wait shows a VM no host, tenant, operation or foreign VM."""
    gateway = LocalGateway()
    for vm in ("web_0", "db_0"):
        gateway.enable(vm)
    order(gateway, lambda work: failures.fail_host(work, "h2"))
    order(
        gateway,
        lambda work: verbs.maintain(work, ["h1"], Action.REBOOT, OrderOptions()),
    )
    text = json.dumps(told(gateway, "web_0"))
    for name in ("h1", "h2", "bank", "shop", "db_0", "db_1", "op-", "rq-", "ro-"):
        assert name not in text, name
    assert sorted(waits(gateway, "web_0")) == [
        "Guard",
        "NotBefore",
        "Operator",
        "OtherTenant",
        "OwnApproval",
    ]
    gateway.advance("16m")
    assert sorted(waits(gateway, "web_0")) == ["Guard", "Operator"]


def test_joint_deletions_name_only_the_vms_in_the_document() -> None:
    gateway = LocalGateway(FLEET.replace("spot = true", ""))
    gateway.enable("db_0")
    order(
        gateway,
        lambda work: verbs.change_vms(
            work, ["db_0", "db_1"], Verb.TERMINATE, OrderOptions()
        ),
    )
    (first, *_) = told(gateway, "db_0")["Events"]
    others = [wait for wait in first["WaitsFor"] if wait["Reason"] == "OtherVm"]
    assert [len(wait["Resources"]) for wait in others] == [1]


def test_failure_is_shown_unapproved_and_approved_event_as_approved() -> None:
    gateway = LocalGateway()
    gateway.enable("web_0")
    order(gateway, lambda work: failures.fail_vm(work, "web_0"))
    gateway.advance("1s")
    order(
        gateway,
        lambda work: verbs.maintain(work, ["h2"], Action.REBOOT, OrderOptions()),
    )
    assert [
        (event["EventStatus"], event["Approved"])
        for event in told(gateway, "web_0")["Events"]
    ] == [("Started", False), ("Scheduled", False)]
    (_, waiting) = told(gateway, "web_0")["Events"]
    order(gateway, lambda work: approvals.approve_for(work, waiting["EventId"]))
    (_, waiting) = told(gateway, "web_0")["Events"]
    assert waiting["Approved"]


def test_ended_events_are_listed_for_a_day_and_up_to_a_limit() -> None:
    gateway = LocalGateway()
    gateway.enable("web_0")
    for _ in range(event_details.ENDED_MAX + 5):
        order(gateway, lambda work: failures.fail_vm(work, "web_0"))
        gateway.advance("10s")
        order(gateway, lambda work: failures.restore_vm(work, "web_0"))
        gateway.advance("1s")
    ended = told(gateway, "web_0")["Ended"]
    assert len(ended) == event_details.ENDED_MAX
    assert {event["DownSeconds"] for event in ended} == {10}
    assert told(gateway, "web_1")["Ended"] == []
    gateway.clock.advance_to(gateway.now() + DAY)
    assert told(gateway, "web_0")["Ended"] == []


def test_cancelled_event_has_no_downtime() -> None:
    gateway = LocalGateway()
    gateway.enable("web_0")
    order(
        gateway,
        lambda work: verbs.maintain(work, ["h1"], Action.REBOOT, OrderOptions()),
    )
    [operation] = gateway.store.read(
        lambda reader: reader.select(event_details.kinds.OPERATIONS_OF_VM, "web_0")
    )
    order(
        gateway,
        lambda work: verbs.cancel(work, operation.operation_id, note=Said(text="no")),
    )
    (ended,) = told(gateway, "web_0")["Ended"]
    assert (ended["Outcome"], ended["DownSeconds"]) == ("cancelled", 0)


def test_times_are_rounded_so_that_vms_cannot_be_correlated() -> None:
    gateway = LocalGateway()
    gateway.enable("web_0")
    order(gateway, lambda work: failures.fail_vm(work, "web_0"))
    gateway.clock.advance_to(gateway.now() + 2_345_678)
    order(gateway, lambda work: failures.restore_vm(work, "web_0"))
    (ended,) = told(gateway, "web_0")["Ended"]
    assert ended["DownSeconds"] in {2, 3}
