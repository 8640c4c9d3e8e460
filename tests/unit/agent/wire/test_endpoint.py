"""The conversation with an endpoint: versions, tags, approvals, names, places."""

import json
import queue
from collections.abc import Callable

import pytest

from forewarn.agent import assembly
from forewarn.agent.core.model import ApprovalResult, Consent, Send
from forewarn.agent.outbound import Sender
from forewarn.agent.settings import load_settings
from forewarn.agent.wire.endpoint import Endpoint, PollResult, Result
from forewarn.clock import VirtualClock
from forewarn.instants import MINUTE, SECOND, Micros, parse_instant
from tests.support.scripted import Reply, Scripted, plain, scripted

pytestmark = pytest.mark.system

ID = "602D9444-D2CD-49C7-8624-8643E7171297"
EMPTY = b'{"DocumentIncarnation":1,"Events":[]}'
CLOCK = VirtualClock(parse_instant("2026-11-21T10:00:00Z"))
"""It stands still, so that nothing here depends on the machine's speed."""


def document(tag: str = "", body: bytes = EMPTY, *, more: str = "") -> bytes:
    return plain(body, more=(f"ETag: {tag}\r\n" if tag else "") + more)


def versions(*names: str) -> bytes:
    body = json.dumps({"error": "Bad request.", "newest-versions": names}).encode()
    return plain(body, status="400 Bad Request")


UNCHANGED = plain(b"", status="304 Not Modified")


def endpoint_of(*servers: Scripted, clock: VirtualClock = CLOCK) -> Endpoint:
    return Endpoint(lambda: [server.url for server in servers], clock=clock)


def line_of(request: bytes) -> str:
    return request.partition(b"\r\n")[0].decode()


def ask(endpoint: Endpoint, *, wait: Micros = 0, full: bool = False) -> PollResult:
    return endpoint.ask(timeout=5 * SECOND, wait=wait, full=full)


def talk(*replies: Reply, times: int) -> tuple[list[PollResult], list[str]]:
    """Return what so many polls gave, and the requests' heads."""
    with scripted(*replies) as server:
        endpoint = endpoint_of(server)
        poll_results = [ask(endpoint) for _ in range(times)]
        endpoint.interrupt()
        endpoint._client.close()
        return poll_results, [request.decode() for request in server.requests]


def test_newest_version_is_requested() -> None:
    (asked,), (request,) = talk(document(), times=1)
    assert asked.result is Result.OK
    assert request.startswith(
        "GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\n"
    )
    assert "Metadata: true\r\n" in request


@pytest.mark.clause("8.1")
def test_another_version_is_used_only_if_offered() -> None:
    offer = versions("2019-04-01", "2019-08-01", "2099-01-01")
    (asked, again), requests = talk(offer, document(), document(), times=2)
    assert (asked.result, again.is_changed) == (Result.OK, False)
    asked_for = [request.split("api-version=")[1][:10] for request in requests]
    assert asked_for == ["2020-07-01", "2019-08-01", "2019-08-01"]


@pytest.mark.clause("8.1")
@pytest.mark.parametrize(
    "offered", [(), ("2099-01-01",), ("2020-07-01",), ("x", "2019"), ("2021-02-01",)]
)
def test_400_without_offered_versions_is_a_failure(offered: tuple[str, ...]) -> None:
    (asked,), requests = talk(versions(*offered), times=1)
    assert asked == PollResult(result=Result.CLIENT_ERROR, detail="400: Bad request.")
    assert len(requests) == 1


def test_preview_names_lose_their_underscore() -> None:
    event = {"EventId": ID, "EventStatus": "Started", "Resources": ["_vm_0"]}
    body = json.dumps({"DocumentIncarnation": 1, "Events": [event]}).encode()
    (asked,), _ = talk(versions("2017-03-01"), document(body=body), times=1)
    assert asked.reading is not None
    assert asked.reading.notices[0].resources == ("vm_0",)


@pytest.mark.clause("8.1")
@pytest.mark.parametrize("body", [b"", b"\r\n", b"\xef\xbb\xbf \n"])
def test_empty_body_means_that_there_are_no_events(body: bytes) -> None:
    empty = document('"1"', body)
    found, requests = talk(
        document('"1"'), empty, empty, document('"1"'), document('"1"'), times=5
    )
    assert [asked.result.value for asked in found] == [
        *("ok", "empty", "empty", "ok", "ok")
    ]
    assert [asked.is_changed for asked in found] == [True, True, False, True, False]
    reading = found[1].reading
    assert reading is not None
    assert (reading.is_empty, reading.notices, reading.incarnation) == (True, (), None)
    # A tag of an empty body is none to ask with.
    assert ["If-None-Match" in request for request in requests] == [0, 1, 0, 0, 1]


def test_endpoint_with_empty_answers_is_selected() -> None:
    with scripted(*[document(body=b"")] * 2) as first, scripted(document()) as second:
        endpoint = endpoint_of(first, second)
        assert [ask(endpoint).result for _ in range(2)] == [Result.EMPTY] * 2
        assert endpoint.url == first.url
        assert second.requests == []
        endpoint._client.close()


class TestTags:
    def test_tags_are_returned_unchanged(self) -> None:
        found, requests = talk(document('W/"1"'), UNCHANGED, UNCHANGED, times=3)
        unchanged = PollResult(result=Result.UNCHANGED, reading=found[0].reading)
        assert found[1:] == [unchanged, unchanged]
        assert ["If-None-Match" in request for request in requests] == [0, 1, 1]
        assert 'If-None-Match: W/"1"\r\n' in requests[1]

    def test_tags_are_dropped_after_a_failure(self) -> None:
        error = plain(b"", status="500 Oops")
        found, requests = talk(document('"1"'), error, document('"1"'), times=3)
        assert [asked.is_changed for asked in found] == [True, False, False]
        assert ["If-None-Match" in request for request in requests] == [0, 1, 0]

    def test_tags_are_dropped_after_a_long_gap(self) -> None:
        clock = VirtualClock(CLOCK.now())
        with scripted(document('"1"'), document('"1"')) as server:
            endpoint = endpoint_of(server, clock=clock)
            ask(endpoint)
            clock.advance_to(clock.now() + 6 * MINUTE)
            assert ask(endpoint).is_changed
            assert b"If-None-Match" not in server.requests[1]
            endpoint._client.close()

    def test_tags_are_not_used_after_two_contents_shared_one(self) -> None:
        other = EMPTY.replace(b"1", b"2")
        _, requests = talk(
            document('"1"'), document('"1"', other), document('"1"'), times=3
        )
        assert ["If-None-Match" in request for request in requests] == [0, 1, 0]

    def test_tags_are_not_taken_from_a_document_with_warnings(self) -> None:
        odd = document('"1"', b'{"DocumentIncarnation":"1","Events":[]}')
        found, requests = talk(odd, document('"1"'), times=2)
        assert "If-None-Match" not in requests[1]
        assert found[1].is_changed

    def test_304_without_a_sent_tag_is_a_failure(self) -> None:
        (asked,), _ = talk(UNCHANGED, times=1)
        assert asked.result is Result.STRANGE


class TestPush:
    OURS = "Server: forewarn\r\n"

    def test_wait_is_never_sent_to_other_servers(self) -> None:
        other = document('"1"', more="Server: IIS\r\nForewarn-Wait: 60\r\n")
        with scripted(other, other) as server:
            endpoint = endpoint_of(server)
            ask(endpoint)
            assert endpoint.longest_wait == 0
            ask(endpoint, wait=MINUTE)
            assert not any(b"wait" in request for request in server.requests)
            endpoint._client.close()

    def test_wait_is_used_after_the_server_offers_it(self) -> None:
        offer = f"{self.OURS}Forewarn-Wait: 45\r\n"
        first, then = document('"1"', more=self.OURS), document('"1"', more=offer)
        with scripted(first, then, then) as server:
            endpoint = endpoint_of(server)
            ask(endpoint)
            assert endpoint.longest_wait == 0
            ask(endpoint)
            assert endpoint.longest_wait == 45 * SECOND
            ask(endpoint, wait=45 * SECOND)
            lines = [line_of(request) for request in server.requests]
            assert ["&wait=" in line for line in lines] == [False, True, True]
            assert "&wait=0 " in lines[1]
            assert "&wait=45 " in lines[2]
            endpoint._client.close()


def approve(
    reply: Reply, *more: Reply, event_id: str = ID
) -> tuple[ApprovalResult, bytes]:
    with scripted(reply, *more) as server:
        answered = endpoint_of(server).approve(event_id, timeout=SECOND)
        return answered, server.requests[-1]


class TestApprovals:
    def test_approval_names_one_event_in_the_current_version(self) -> None:
        answered, request = approve(plain(b""))
        assert answered == ApprovalResult(event_id=ID, consent=Consent.GIVEN)
        assert line_of(request) == (
            "POST /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1"
        )
        body = b'{"StartRequests":[{"EventId":"%b"}]}' % ID.encode()
        assert request.endswith(b"\r\n\r\n" + body)
        assert b"Metadata: true\r\n" in request

    def test_approval_keeps_the_original_case_of_the_event_id(self) -> None:
        event = {"EventId": ID.lower(), "EventStatus": "Scheduled", "Resources": []}
        body = json.dumps({"DocumentIncarnation": 1, "Events": [event]}).encode()
        with scripted(document(body=body), plain(b"")) as server:
            endpoint = endpoint_of(server)
            poll_result = ask(endpoint)
            assert poll_result.reading is not None
            (notice,) = poll_result.reading.notices
            assert notice.event_id == ID
            endpoint.approve(notice.event_id, timeout=SECOND)
            assert ID.lower().encode() in server.requests[1]
            endpoint._client.close()

    @pytest.mark.parametrize(
        ("status", "consent"),
        [
            *((status, "given") for status in (200, 202, 204)),
            *(
                (status, "wanted")
                for status in (302, 404, 408, 410, 425, 429, 500, 503)
            ),
            *((status, "refused") for status in (400, 401, 403, 405)),
        ],
    )
    def test_approval_is_refused_only_by_a_status_about_it(
        self, status: int, consent: str
    ) -> None:
        body = b"" if status == 204 else b'{"error":"so it is"}'
        reply = plain(body, status=f"{status} X", more="Retry-After: 7\r\n")
        answered, _ = approve(reply)
        assert answered.consent.value == consent
        if consent == "given":
            return
        assert answered.detail == f"{status}: so it is"
        assert answered.retry_after == 7 * SECOND

    @pytest.mark.parametrize("body", [b"", b"OK", b"\xff", b"[1]", b"{}", b"1 < 2"])
    def test_approval_is_given_whatever_the_body_contains(self, body: bytes) -> None:
        assert approve(plain(body))[0].consent is Consent.GIVEN

    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            (b"welcome", "Text/HTML; charset=utf-8"),
            (b"", "text/html"),
            (b"x", "application/xhtml+xml"),
            # Its name for itself does not matter.
            (b"<html>", "application/json"),
            (b"\xef\xbb\xbf\r\n <?xml?>", "text/plain"),
        ],
    )
    def test_approval_answered_with_html_stays_pending(
        self, body: bytes, kind: str
    ) -> None:
        reply = plain(body, more=f"Content-Type: {kind}\r\n")
        answered, _ = approve(reply)
        assert answered.consent is Consent.WANTED
        assert "HTML" in answered.detail

    def test_approval_is_repeated_with_an_offered_version(self) -> None:
        answered, request = approve(versions("2019-08-01"), plain(b""))
        assert answered.consent is Consent.GIVEN
        assert "api-version=2019-08-01" in line_of(request)

    def test_approval_stays_pending_after_an_internal_error(self) -> None:
        def broken(_: str) -> ApprovalResult:
            raise ValueError("a bug")

        results: queue.SimpleQueue[ApprovalResult] = queue.SimpleQueue()
        Sender(lambda: broken, results.put).ask(Send(event_id=ID, attempt=1))
        assert results.get(timeout=120).consent is Consent.WANTED


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"compute":{"name":"vm_0","tags":""}}', "vm_0"),
        (b'{"compute":{"name":" vm_0\\n"}}', "vm_0"),
        (b'{"compute":{"name":""}}', None),
        (b'{"compute":{"name":7}}', None),
        (b'{"compute":[]}', None),
        (b"[]", None),
        (b"", None),
        (b"<html>", None),
        (b"[" * 99_999, None),
    ],
)
def test_name_comes_from_the_instance_endpoint(body: bytes, name: str | None) -> None:
    with scripted(plain(body)) as server:
        endpoint = endpoint_of(server)
        assert endpoint.instance_name() == name
        assert "/metadata/instance?api-version=" in line_of(server.requests[0])
        endpoint._client.close()


def test_instance_endpoint_has_separate_versions() -> None:
    named = plain(b'{"compute":{"name":"vm_0"}}')
    with scripted(versions("2017-08-01", "2018-10-01"), named) as server:
        endpoint = endpoint_of(server)
        assert endpoint.instance_name() == "vm_0"
        assert "api-version=2018-10-01" in line_of(server.requests[1])
        assert endpoint.version == "2020-07-01"
        endpoint._client.close()


@pytest.mark.clause("8.2")
def test_addresses_are_tried_until_one_answers_and_that_one_is_kept() -> None:
    missing = plain(b"{}", status="404 Not Found")
    oops = plain(b"", status="500 Oops")
    with scripted(missing, missing) as one, scripted(document(), oops) as other:
        endpoint = endpoint_of(one, other)
        results = [ask(endpoint).result for _ in range(3)]
        assert [result.value for result in results] == ["http_4xx", "ok", "http_5xx"]
        assert endpoint.url == other.url
        endpoint._client.close()


@pytest.mark.clause("8.2")
def test_only_the_configured_endpoint_is_requested() -> None:
    missing = plain(b"", status="404 Not Found")
    with scripted(missing, missing, document()) as server:
        named = load_settings(environ={"FOREWARN_ENDPOINT": server.url}, flags={})
        endpoint = assembly.endpoint_of(named, CLOCK)
        results = [ask(endpoint).result.value for _ in range(3)]
        assert results == ["http_4xx", "http_4xx", "ok"]
        assert endpoint.url == server.url
        endpoint._client.close()


def test_endpoint_url_may_have_a_path() -> None:
    with scripted(document()) as server:
        find: Callable[[], list[str]] = lambda: [f"{server.url}/vm/web_0/"]  # noqa: E731
        endpoint = Endpoint(find, clock=CLOCK)
        ask(endpoint)
        assert line_of(server.requests[0]).startswith(
            "GET /vm/web_0/metadata/scheduledevents?"
        )
        endpoint._client.close()
