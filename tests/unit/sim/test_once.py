"""A request to a simulation that is repeated with its key is carried out once."""

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from forewarn.admin import once
from forewarn.admin.orders import REPEATED_HEADER
from forewarn.sim.loop import LoopThread
from tests.support.simulators import Simulation, simulation


@pytest.fixture(scope="module")
def running() -> Iterator[Simulation]:
    loop = LoopThread()
    with simulation(loop) as simulated:
        yield simulated
    loop.close()


def send(
    running: Simulation, path: str, body: object, key: str
) -> tuple[int, Any, str | None]:
    """Return the status, the JSON, and whether it is marked as a repetition."""
    assert running.simulator.admin_address is not None
    connection = http.client.HTTPConnection(*running.simulator.admin_address)
    headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
    connection.request("POST", f"/v1/sim/{path}", json.dumps(body), headers)
    response = connection.getresponse()
    text = json.loads(response.read())
    connection.close()
    return response.status, text, response.headers.get(REPEATED_HEADER)


def jumped(running: Simulation, key: str) -> tuple[int, Any, str | None]:
    return send(running, "clock", {"do": "jump", "by": "15m"}, key)


def test_repeated_event_is_published_once(running: Simulation) -> None:
    event = {"vms": ["web_0"], "type": "Freeze"}
    running.document()
    status, first, mark = send(running, "events", event, "key-1")
    assert (status, mark) == (201, None)
    assert send(running, "events", event, "key-1") == (201, first, "true")
    assert len(running.events()) == 1
    status, second, mark = send(running, "events", {**event, "vms": ["web_1"]}, "key-2")
    assert (status, mark) == (201, None)
    assert second["request"] != first["request"]


def test_key_of_another_request_is_refused(running: Simulation) -> None:
    jumped(running, "key-3")
    status, body, _ = send(running, "clock", {"do": "step"}, "key-3")
    assert (status, body["kind"]) == (422, "key-reused")


def test_refused_request_is_decided_again(running: Simulation) -> None:
    withheld = {"do": "withhold", "vms": ["later"]}
    assert send(running, "approvals", withheld, "key-4")[0] == 404
    running.sim("vms", {"name": "later"})
    assert send(running, "approvals", withheld, "key-4")[0] == 200


def test_only_the_latest_keys_are_remembered(
    running: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(once, "KEYS_MAX", 1)
    jumped(running, "key-5")
    jumped(running, "key-6")
    assert jumped(running, "key-6")[2] == "true"
    assert jumped(running, "key-5")[2] is None
