"""The routes for the page of a simulator: documents, lanes, and news as a stream."""

import contextlib
import http.client
import json
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from forewarn.sim import console_routes, live
from forewarn.sim.loop import LoopThread
from tests.support.simulators import Simulation, simulation


@pytest.fixture(scope="module")
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture(scope="module")
def running(loop: LoopThread) -> Iterator[Simulation]:
    with simulation(loop) as sim:
        yield sim


@pytest.fixture
def fresh(running: Simulation) -> Simulation:
    """Return a fresh simulator, whose VMs have sent no request."""
    running.sim("reset", {})
    return running


def of_vm(found: dict[str, Any], vm: str = "web_0") -> dict[str, Any]:
    [card] = [document for document in found["documents"] if document["vm"] == vm]
    return card


@contextlib.contextmanager
def watching(
    running: Simulation, last_id: str = ""
) -> Generator[Iterator[tuple[str, str, Any]]]:
    """Provide the messages of the stream: event, ID and data."""
    address = running.simulator.admin_address
    assert address is not None
    host, port = address
    connection = http.client.HTTPConnection(host, port, timeout=60)
    headers = {"Last-Event-ID": last_id} if last_id else {}
    connection.request("GET", "/v1/sim/watch", headers=headers)
    answer = connection.getresponse()
    assert answer.status == 200

    def messages() -> Iterator[tuple[str, str, Any]]:
        fields: dict[str, str] = {}
        for line in answer:
            text = line.decode().rstrip("\n")
            if text:
                key, _, value = text.partition(": ")
                fields[key] = value
            elif "data" in fields:
                yield fields["event"], fields["id"], json.loads(fields["data"])
                fields = {}
            else:
                yield "comment", fields["id"], fields[""]
                fields = {}

    try:
        yield messages()
    finally:
        connection.close()


def test_document_is_the_one_that_the_vm_gets_and_showing_it_enables_nothing(
    fresh: Simulation,
) -> None:
    before = of_vm(fresh.sim("documents"))
    assert (before["enabled"], before["body"], before["last"]) == (False, None, None)
    assert of_vm(fresh.sim("documents"))["enabled"] is False
    fresh.document()
    fresh.sim("events", {"type": "Preempt", "vms": ["web_0"], "notice": "2h"})
    got = fresh.document()
    card = of_vm(fresh.sim("documents"))
    assert json.loads(card["body"]) == got
    assert card["incarnation"] == got["DocumentIncarnation"]
    assert card["last"]["method"] == "GET"
    assert card["url"] == fresh.url()


def test_faults_and_withheld_approvals_are_on_the_card(fresh: Simulation) -> None:
    fresh.sim("faults", {"vms": ["web_0"], "faults": "500 x2"})
    fresh.sim("approvals", {"vms": ["web_0"], "do": "withhold"})
    documents = fresh.sim("documents?vm=web_0,web_1")
    assert [document["vm"] for document in documents["documents"]] == ["web_0", "web_1"]
    assert of_vm(documents)["faults"] == ["500 x2"]
    assert of_vm(documents)["withheld"] is True
    assert of_vm(documents, "web_1")["faults"] == []


def test_lane_has_events_and_requests_in_order(fresh: Simulation) -> None:
    fresh.document()
    fresh.sim("events", {"type": "Preempt", "vms": ["web_0"], "notice": "2h"})
    [event] = fresh.events()
    assert fresh.approve(event["EventId"]) == 200
    [lane] = fresh.sim("timeline?vm=web_0")["lanes"]
    assert lane["vm"] == "web_0"
    [told] = lane["events"]
    assert told["EventId"] == event["EventId"]
    assert told["approved"]
    methods = [request["method"] for request in lane["requests"]]
    assert methods == ["GET", "GET", "POST"]
    assert lane["requests"][-1]["approved"] == [event["EventId"]]
    numbers = [request["number"] for request in lane["requests"]]
    assert numbers == sorted(numbers)


def test_lane_has_the_last_events_however_many_other_vms_have(
    fresh: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_routes, "OPERATIONS_MAX", 2)
    fresh.document()
    for vm in ("web_0", "web_0", "web_1", "web_1", "web_0"):
        fresh.sim("events", {"type": "Preempt", "vms": [vm], "notice": "2h"})
    served = [
        event["EventId"] for event in fresh.events() if event["Resources"] == ["web_0"]
    ]
    assert len(served) == 3
    [lane] = fresh.sim("timeline?vm=web_0")["lanes"]
    own = [event["EventId"] for event in lane["events"] if event["vms"] == ["web_0"]]
    assert own == served[-2:]
    lanes = fresh.sim("timeline?vm=web_1,web_0,stranger")["lanes"]
    assert [lane["vm"] for lane in lanes] == ["web_0", "web_1"]
    # Each sees the events of the other, too.
    assert [len(lane["events"]) for lane in lanes] == [4, 4]


def test_lane_of_a_vm_that_has_no_event_has_those_that_it_was_told(
    fresh: Simulation,
) -> None:
    fresh.document()
    fresh.sim("events", {"type": "Reboot", "vms": ["web_0"], "notice": "1s"})
    fresh.sim("clock", {"do": "jump", "by": "15m"})
    [lane] = fresh.sim("timeline?vm=web_2")["lanes"]
    assert [(event["EventType"], event["vms"]) for event in lane["events"]] == [
        ("Reboot", ["web_0"])
    ]
    assert lane["events"][0]["removed"]


def test_stream_has_news_and_requests_and_goes_on_after_the_last_id(
    fresh: Simulation,
) -> None:
    fresh.document()
    with watching(fresh) as messages:
        assert next(messages)[0] == "ready"
        fresh.sim("events", {"type": "Preempt", "vms": ["web_0"], "notice": "2h"})
        name, first, told = next(messages)
        assert (name, told["what"]) == ("news", "event")
        [event] = fresh.events()
        first_two = [next(messages) for _ in range(2)]
        assert {message[0] for message in first_two} == {"news", "request"}
        # A comment shows that the stream works; its ID is a position too.
    with watching(fresh, first) as messages:
        assert next(messages)[0] == "ready"
        assert [next(messages) for _ in range(2)] == first_two
    assert fresh.approve(event["EventId"]) == 200
    with watching(fresh, "0123-7") as messages:
        assert [next(messages)[0] for _ in range(2)] == ["reset", "ready"]


def test_quiet_stream_has_comments(
    fresh: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "COMMENT_SECONDS", 0.01)
    with watching(fresh) as messages:
        ready, comment = next(messages), next(messages)
    assert (ready[0], comment[0]) == ("ready", "comment")
    assert comment[1] == ready[1]


def test_new_world_is_followed(fresh: Simulation) -> None:
    with watching(fresh) as messages:
        next(messages)
        fresh.sim("reset", {})
        assert next(messages)[2]["what"] == "reset"


def test_open_stream_delays_no_end(loop: LoopThread) -> None:
    with simulation(loop) as other, watching(other) as messages:
        next(messages)


@pytest.mark.parametrize("path", ["/v1/watch?topics=operations", "/v1/sim/watch"])
def test_streams_end_when_the_simulator_stops(
    loop: LoopThread, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise, the server cancels them after its grace time, with a traceback."""
    with contextlib.ExitStack() as stack:
        with simulation(loop) as simulated:
            host, port = simulated.simulator.admin_address or ("", 0)
            connection = http.client.HTTPConnection(host, port, timeout=60)
            stack.callback(connection.close)
            connection.request("GET", path)
            answer = stack.enter_context(connection.getresponse())
            assert answer.readline()
        # A stream that was cancelled is incomplete.
        assert b"event: error" not in answer.read()
    assert not [record for record in caplog.records if record.exc_info]
