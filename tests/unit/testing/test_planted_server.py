"""Tests that the server for planted defects follows the protocol without a defect."""

import http.client
import itertools
import json
import re
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from forewarn.instants import MINUTE, SECOND, Micros, parse_http_date
from forewarn.protocol.decoder import decode
from tests.support import planted
from tests.support.planted.endpoint import EVENTS, NEWEST, PREVIEW, VERSIONS
from tests.support.planted.playing import (
    MARK,
    UNSEEN,
    Exchange,
    Visit,
    approval,
    post,
    request,
)

BOTH = f"{EVENTS}?api-version={PREVIEW}"

GUID = re.compile(r"[0-9A-F]{8}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{12}")

MEMBERS = [
    *("EventId", "EventStatus", "EventType"),
    *("ResourceType", "Resources", "NotBefore"),
]
LATER_MEMBERS = {
    "2019-04-01": ["Description"],
    "2019-08-01": ["Description", "EventSource"],
    "2020-07-01": ["Description", "EventSource", "DurationInSeconds"],
}

LEAST_MINUTES = {
    "Freeze": 15.0,
    "Reboot": 15.0,
    "Redeploy": 10.0,
    "Preempt": 0.5,
    "Terminate": 5.0,
}


@pytest.fixture(scope="module")
def quick() -> list[Exchange]:
    """A visit to the healthy server."""
    return list(Visit(pace=planted.QUICK).play())


@pytest.fixture(scope="module")
def at_once() -> list[Exchange]:
    """A visit to the healthy server where everything is there at once."""
    return list(Visit(pace=planted.AT_ONCE).play())


@pytest.fixture(scope="module")
def healthy(quick: list[Exchange], at_once: list[Exchange]) -> list[Exchange]:
    """All exchanges with a healthy server."""
    return [*quick, *at_once]


def documents(exchanges: list[Exchange]) -> Iterator[tuple[Exchange, dict[str, Any]]]:
    """Yield the documents of requests with only a version."""
    for exchange in exchanges:
        is_get = exchange.sent.startswith(b"GET ") and exchange.version in VERSIONS
        if is_get and exchange.status == 200:
            yield exchange, json.loads(exchange.body)


def newest(exchanges: list[Exchange], vm: str) -> list[tuple[Micros, dict[str, Any]]]:
    """Return the documents of a VM in the newest version, with their times."""
    return [
        (exchange.at, document)
        for exchange, document in documents(exchanges)
        if (exchange.vm, exchange.version) == (vm, NEWEST)
    ]


def date_of(instant: Micros) -> str:
    return f"{datetime.fromtimestamp(instant / SECOND, tz=UTC):%a, %d %b %Y %H:%M:%S}"


# -- the healthy server ----------------------------------------------------------------


def test_strict_decoder_reports_no_warnings(healthy: list[Exchange]) -> None:
    count = 0
    for exchange, document in documents(healthy):
        reading = decode(exchange.body, underscored=exchange.version == PREVIEW)
        assert not reading.warnings
        assert all(notice.id_on_wire == notice.event_id for notice in reading.notices)
        assert len(reading.notices) == len(document["Events"])
        count += len(reading.notices)
    assert count > 1_000


def test_documents_are_compact_and_have_the_members_of_their_version(
    healthy: list[Exchange],
) -> None:
    for exchange, document in documents(healthy):
        assert list(document) == ["DocumentIncarnation", "Events"]
        compact = json.dumps(document, separators=(",", ":")).encode()
        assert exchange.body == compact
        assert exchange.headers["content-type"] == "application/json; charset=utf-8"
        assert exchange.headers["etag"] == f'"{document["DocumentIncarnation"]}"'
        expected = MEMBERS + LATER_MEMBERS.get(exchange.version, [])
        for event in document["Events"]:
            assert list(event) == expected


def test_document_values_match_the_protocol(healthy: list[Exchange]) -> None:
    types: dict[str, set[str]] = defaultdict(set)
    for exchange, document in documents(healthy):
        for event in document["Events"]:
            types[exchange.version].add(event["EventType"])
            assert GUID.fullmatch(event["EventId"])
            assert event["ResourceType"] == "VirtualMachine"
            marks = {name.startswith("_") for name in event["Resources"]}
            assert marks == {exchange.version == PREVIEW}
            by_user = event["EventType"] == "Terminate" or (
                "authorized user" in event.get("Description", "")
            )
            source = "User" if by_user else "Platform"
            assert event.get("EventSource", source) == source
            assert isinstance(event.get("Description", ""), str)
            assert event.get("DurationInSeconds", -1) in {-1, 5, 9}
            if event["EventStatus"] == "Started":
                assert event["NotBefore"] == ""
                continue
            assert event["EventStatus"] == "Scheduled"
            instant = parse_http_date(event["NotBefore"])
            assert event["NotBefore"] == f"{date_of(instant)} GMT"
    first = {"Freeze", "Reboot", "Redeploy"}
    assert types["2017-08-01"] == first
    assert types["2017-11-01"] == first | {"Preempt"}
    assert types["2019-01-01"] == types[NEWEST] == set(LEAST_MINUTES)


@pytest.mark.parametrize("vm", ["web_0", "web_2", "db_0", "gpu_0", "gpu_1"])
def test_incarnation_increases_exactly_with_each_change(
    quick: list[Exchange], vm: str
) -> None:
    all_documents = [exchange for _, exchange in newest(quick, vm) if exchange]
    before_the_day = all_documents[:-1] if vm == "web_0" else all_documents
    for one, other in pairwise(before_the_day):
        rise = other["DocumentIncarnation"] - one["DocumentIncarnation"]
        assert rise >= 0
        assert (rise > 0) == (one["Events"] != other["Events"])
    assert len({document["DocumentIncarnation"] for document in all_documents}) > (
        vm != "gpu_1"
    )


def test_scope_starts_with_an_empty_document_and_restarts_after_a_day(
    quick: list[Exchange],
) -> None:
    exchanges = newest(quick, "web_0")
    assert exchanges[0][1] == {"DocumentIncarnation": 1, "Events": []}
    assert exchanges[-2][1]["DocumentIncarnation"] > 30
    assert exchanges[-1][1] == {"DocumentIncarnation": 1, "Events": []}


def test_events_only_move_forward_and_never_return(quick: list[Exchange]) -> None:
    lives: dict[str, list[str]] = defaultdict(list)
    ended: set[str] = set()
    for _, document in newest(quick, "web_0"):
        there = {event["EventId"]: event["EventStatus"] for event in document["Events"]}
        assert not ended & there.keys()
        ended |= lives.keys() - there.keys()
        for event_id, status in there.items():
            lives[event_id].append(status)
    paths = {
        tuple(status for status, _ in itertools.groupby(life))
        for life in lives.values()
    }
    assert paths == {("Scheduled", "Started"), ("Started",), ("Scheduled",)}
    assert len(lives) > 20


def test_only_status_and_not_before_of_an_event_change(quick: list[Exchange]) -> None:
    first: dict[str, dict[str, Any]] = {}
    for _, document in newest(quick, "web_0"):
        for event in document["Events"]:
            fixed = {**event, "EventStatus": "", "NotBefore": ""}
            assert first.setdefault(event["EventId"], fixed) == fixed


def test_without_approval_nothing_starts_before_its_time(
    quick: list[Exchange],
) -> None:
    watched = [exchange for exchange in quick if b"POST" not in exchange.sent]
    ends = next(
        exchange.at
        for exchange in quick
        if exchange.vm == "web_2" and b"POST" in exchange.sent
    )
    times: dict[str, Micros] = {}
    started: set[str] = set()
    for at, document in newest([e for e in watched if e.at < ends], "web_0"):
        for event in document["Events"]:
            if event["EventStatus"] == "Scheduled":
                times[event["EventId"]] = parse_http_date(event["NotBefore"])
                held_for = at - times[event["EventId"]]
                assert held_for <= planted.QUICK.started + SECOND // 10
            elif event["EventId"] in times:
                started.add(event["EventId"])
                assert at >= times[event["EventId"]]
    assert len(started) >= 6


def test_notices_are_complete_if_all_events_exist_at_once(
    at_once: list[Exchange],
) -> None:
    at, document = newest(at_once, "web_0")[0]
    assert document["DocumentIncarnation"] == 2
    kinds = {(event["EventType"], event["EventStatus"]) for event in document["Events"]}
    assert kinds == {(kind, "Scheduled") for kind in LEAST_MINUTES} | {
        ("Reboot", "Started")
    }
    for event in document["Events"]:
        if event["EventStatus"] == "Scheduled":
            notice = parse_http_date(event["NotBefore"]) - at
            least = LEAST_MINUTES[event["EventType"]] * MINUTE
            assert least <= notice <= least + SECOND


def test_routine_work_is_announced_in_one_fault_domain_at_a_time(
    healthy: list[Exchange],
) -> None:
    for _, document in newest(healthy, "web_0"):
        routine = [
            event for event in document["Events"] if event["EventType"] == "Freeze"
        ]
        assert len(routine) <= 1


def test_scopes_see_their_own_events_only(healthy: list[Exchange]) -> None:
    named: dict[str, set[str]] = defaultdict(set)
    for vm in ("web_0", "db_0", "gpu_0", "gpu_1"):
        for _, document in newest(healthy, vm):
            for event in document["Events"]:
                named[vm] |= {name[:-2] for name in event["Resources"]}
    assert {"web", "spot"} <= named["web_0"]
    assert not named["web_0"] & {"db", "gp"}
    assert named["db_0"] == {"db"}
    assert named["gpu_0"] == {"gpu"}
    assert not named["gpu_1"]


def test_routine_start_is_held_while_another_fault_domain_is_down(
    quick: list[Exchange],
) -> None:
    held = 0
    for at, document in newest(quick, "web_0"):
        down = {
            (event["EventType"], *event["Resources"])
            for event in document["Events"]
            if event["EventStatus"] == "Started"
        }
        if ("Reboot", "web_0") not in down:
            continue
        for event in document["Events"]:
            if event["Resources"] == ["web_2"] and event["NotBefore"]:
                held += parse_http_date(event["NotBefore"]) <= at
    assert held


@pytest.mark.parametrize(
    ("sent", "status", "text"),
    [
        (request(target=f"/Metadata/ScheduledEvents?API={0}"), 400, "newest-versions"),
        (request(target=f"/METADATA/ScheduledEvents?api-version={NEWEST}"), 200, "Ev"),
        (request(target=f"{EVENTS}/?api-version={NEWEST}"), 404, "error"),
        (request(target="/"), 404, "error"),
        (request(target="/", headers=()), 400, "Required metadata header"),
        (request("PUT"), 405, "error"),
        (request("HEAD"), 405, ""),
        (request("PUT", headers=()), 400, "Required metadata header"),
        (request("PUT", target=EVENTS), 405, "error"),
        (request("POST", target=EVENTS), 400, "newest-versions"),
        (request(headers=(MARK, ("X-Forwarded-For", "1"))), 400, "error"),
        (request(headers=(("X-Forwarded-For", "1"),)), 400, "Forwarded"),
        (request(headers=(("METADATA", "TRUE"),)), 200, "Events"),
        (request(headers=(("Metadata", "false"),)), 400, "Required metadata header"),
        (request(headers=(MARK, MARK)), 400, "Required metadata header"),
        (request(target=f"{EVENTS}?api-version={PREVIEW}", headers=()), 200, "Events"),
        (request(target=f"{EVENTS}?api-version={NEWEST}&x=1"), 200, "Events"),
        (request(target=f"{EVENTS}?api-version={{latest}}"), 400, "newest-versions"),
        (request("OPTIONS"), 405, "error"),
        (request("POST", headers=(), body=b"{}"), 400, "Required metadata header"),
        (request(target=f"{EVENTS}?api-version=1999-01-01"), 400, "newest-versions"),
        (request(target=f"{BOTH}&api-version={NEWEST}"), 400, "newest-versions"),
        (request("POST"), 400, "not JSON"),
        (request("POST", body=b"{"), 400, "not JSON"),
        (request("POST", body=b"[]"), 400, "not an object"),
        (request("POST", body=b"{}"), 400, "StartRequests"),
        (request("POST", body=b'{"StartRequests":{}}'), 400, "not a list"),
        (request("POST", body=b'{"StartRequests":[]}'), 400, "not a list"),
        (request("POST", body=b'{"StartRequests":[{}]}'), 400, "no EventId"),
        (post(UNSEEN), 400, "not in this VM's document"),
        (post("evt-1"), 400, "not a GUID"),
        (request(target="/metadata/versions"), 200, '"apiVersions"'),
        (request(target=f"/metadata/instance?api-version={NEWEST}"), 400, "2025-04-07"),
        (request(target="/metadata/instance?api-version=2021-02-01"), 200, '"vmId"'),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "error"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400, "error"),
        (b"GET /" + b"x" * 20_000, 431, "error"),
    ],
)
def test_each_request_gets_its_answer(sent: bytes, status: int, text: str) -> None:
    visit = Visit()
    visit.ask(request())
    answer = visit.ask(sent)
    assert answer.status == status
    assert text in answer.body.decode()
    if answer.body:
        assert int(answer.headers["content-length"]) == len(answer.body)
        json.loads(answer.body)


def test_error_texts_match_the_published_ones() -> None:
    visit = Visit()
    without = visit.ask(request(headers=()))
    assert without.body == (
        b'{ "error": "Bad request: . Required metadata header not specified" }'
    )
    wrong = json.loads(visit.ask(request(target=EVENTS)).body)
    assert wrong["newest-versions"] == ["2020-07-01", "2019-08-01", "2019-04-01"]
    assert "api-version is invalid or was not specified" in wrong["error"]


def test_vm_name_in_instance_metadata_matches_resources() -> None:
    visit = Visit(pace=planted.AT_ONCE)
    leaf = "/metadata/instance/compute/name?api-version=2019-06-01&format=text"
    name = visit.ask(request(target=leaf)).body.decode()
    document = json.loads(visit.ask(request()).body)
    assert name == "web_0"
    assert any(name in event["Resources"] for event in document["Events"])


def test_matching_etag_gets_304_until_the_document_changes() -> None:
    visit = Visit()
    tagged = request(headers=(MARK, ("If-None-Match", '"1"')))
    assert visit.ask(tagged).status == 200  # the first answer is always whole
    for tag in ('"1"', "1"):
        unchanged = visit.ask(request(headers=(MARK, ("If-None-Match", tag))))
        assert (unchanged.status, unchanged.body) == (304, b"")
    visit.wait(SECOND)
    assert visit.ask(tagged).status == 200


def test_one_connection_carries_answers_and_refusals_of_all_kinds() -> None:
    visit = Visit()
    connection = visit.backend.connection("web_0")
    refused = request("POST", headers=(), body=b"GET / HTTP/1.1\r\n\r\n")
    sent = [request(), request("HEAD"), request("PUT"), refused, request()]
    got = connection.receive(b"".join(sent))
    assert not connection.is_closing
    assert re.findall(rb"HTTP/1\.1 (\d+) ", got) == [
        *(b"200", b"405", b"405", b"400", b"200")
    ]
    empty = b'\r\n\r\n{"DocumentIncarnation":1,"Events":[]}'
    assert got.count(empty) == 2
    assert got.count(b"Method not allowed") == 1  # the answer to HEAD has no body
    assert b"Connection" not in got
    assert b"Access-Control" not in got
    last = connection.receive(request(headers=(MARK, ("Connection", "close"))))
    assert b"\r\nConnection: close\r\n" in last
    assert connection.is_closing


def test_query_parameter_does_not_select_another_vm() -> None:
    visit = Visit(pace=planted.AT_ONCE)
    target = f"{EVENTS}?api-version={NEWEST}&vm=db_0"
    assert visit.ask(request(target=target)).body == visit.ask(request()).body


def test_too_many_requests_are_refused_for_a_while() -> None:
    visit = Visit()
    statuses = [visit.ask(request(), pause=0).status for _ in range(51)]
    assert statuses == [200] * 50 + [429]
    assert visit.ask(request(), pause=0).headers["retry-after"] == "1"
    assert visit.ask(request(), vm="db_0", pause=0).status == 200
    assert visit.ask(request(), pause=SECOND).status == 200


# -- on loopback -----------------------------------------------------------------------


def asked(url: str) -> dict[str, Any]:
    """Return the document at a URL, in the newest version."""
    sent = urllib.request.Request(f"{url}?api-version={NEWEST}")
    sent.add_header("Metadata", "true")
    with urllib.request.urlopen(sent, timeout=30) as answer:
        return json.load(answer)


def test_a_connection_carries_many_requests_and_each_vm_has_its_port() -> None:
    with planted.serving(pace=planted.AT_ONCE) as served:
        address = served.url.removeprefix("http://")
        target = f"{EVENTS}?api-version={NEWEST}"
        connection = http.client.HTTPConnection(address, timeout=30)
        connection.request("GET", target, headers=dict([MARK]))
        events = json.load(connection.getresponse())["Events"]
        body = approval(events[0]["EventId"])
        connection.request("POST", target, body, dict([MARK]))
        assert connection.getresponse().read() == b""
        connection.request("GET", target, headers=dict([MARK]))
        after = json.load(connection.getresponse())
        connection.close()
        assert after["DocumentIncarnation"] == 3
        theirs = asked(served.urls["db_0"] + EVENTS)
        assert [event["Resources"] for event in theirs["Events"]] == [["db_0"]]


def test_server_can_start_healthy_or_with_a_defect() -> None:
    with planted.server() as url:
        assert asked(url) == {"DocumentIncarnation": 1, "Events": []}
    with planted.server(planted.DEFECTS["events-null"]) as url:
        assert asked(url) == {"DocumentIncarnation": 1, "Events": None}


def test_server_ends_with_its_block_despite_an_open_connection() -> None:
    with planted.serving() as served:
        connection = http.client.HTTPConnection(
            served.url.removeprefix("http://"), timeout=30
        )
        connection.connect()
    with pytest.raises(OSError):
        asked(served.events_url)
    connection.close()
