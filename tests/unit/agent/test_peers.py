"""Answers of the agents of other VMs, and answers that are not from one."""

import json
import queue
import threading

import pytest

from forewarn.agent.core.model import AskPeers, PeerResponse
from forewarn.agent.outbound import Peers
from forewarn.clock import SystemClock
from forewarn.instants import SECOND
from tests.support.scripted import plain, scripted

pytestmark = pytest.mark.system

PATIENCE_SECONDS = 120


def said(
    body: bytes, caplog: pytest.LogCaptureFixture, *, status: str = "200 OK"
) -> PeerResponse | str:
    """Return what is made of an answer: what it says, or the complaint."""
    responses: queue.SimpleQueue[PeerResponse] = queue.SimpleQueue()
    with scripted(plain(body, status=status)) as server:
        peers = Peers(
            lambda _: server.url,
            token="t0ken",
            timeout=5 * SECOND,
            clock=SystemClock(),
            tell=responses.put,
        )
        peers.ask(AskPeers(event_id="A/B", names=("web_1",)))
        for thread in threading.enumerate():
            if thread.name == "peer-web_1":
                thread.join(PATIENCE_SECONDS)
        assert server.requests[0].startswith(b"GET /v1/events/A%2FB HTTP/1.1\r\n")
        assert b"Authorization: Bearer t0ken\r\n" in server.requests[0]
    return caplog.messages[0] if responses.empty() else responses.get()


@pytest.mark.parametrize("vm", ["web_1", "WEB_1", ""])
@pytest.mark.parametrize("prepared", [True, False])
def test_peer_reports_whether_it_is_prepared(
    vm: str, prepared: bool, caplog: pytest.LogCaptureFixture
) -> None:
    answer = said(json.dumps({"vm": vm, "prepared": prepared}).encode(), caplog)
    assert answer == PeerResponse(event_id="A/B", name="web_1", is_prepared=prepared)


def test_peer_that_has_not_seen_the_event_is_not_prepared(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answer = said(b"", caplog, status="404 Not Found")
    assert answer == PeerResponse(event_id="A/B", name="web_1", is_prepared=False)


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (b'{"vm":"web_0","prepared":true}', "200 OK", "is the agent of 'web_0'"),
        (b"[" * 4000, "200 OK", "its answer is not a JSON object"),
        (b"[]", "200 OK", "its answer is not a JSON object"),
        (b"", "200 OK", "its answer is not a JSON object"),
        (b"", "401 Unauthorized", "it answered with status 401"),
    ],
)
def test_invalid_answer_of_a_peer_counts_as_no_answer(
    body: bytes, status: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = said(body, caplog, status=status)
    assert isinstance(answer, str)
    assert told in answer
