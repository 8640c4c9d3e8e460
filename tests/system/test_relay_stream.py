"""The stream of a relay with a real service: changes, revocation, and a new process."""

import contextlib
import json
import queue
import signal
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from forewarn.admin.limits import KEEP_ALIVE_SECONDS
from forewarn.clock import SystemClock
from tests.support.processes import PATIENCE_SECONDS, Serving

pytestmark = [pytest.mark.system, pytest.mark.slow]

FLEET = """
[[scope]]
name = "web"
kind = "availability-set"
[[host]]
name = "h1"
[[host]]
name = "h2"
[[vm]]
name = "web_0"
host = "h1"
scope = "web"
address = "192.0.2.1"
[[vm]]
name = "web_1"
host = "h2"
scope = "web"
fault_domain = 1
address = "192.0.2.2"
"""

SECOND_OF_A_BUSY_MACHINE = KEEP_ALIVE_SECONDS / 2
"""Maximum seconds for a revocation, which takes a tenth of a second. A stream also looks
at its token before each line without news. The token is revoked just after a line, so a
stream that only looks there is too late."""


class Relay:
    """A relay's stream, read by a thread into a queue."""

    def __init__(self, url: str, token: str, after: str = "") -> None:
        connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
        connection.request(
            "GET",
            f"/v1/relay/stream?after={after}",
            headers={"Authorization": f"Bearer {token}"},
        )
        assert connection.sock is not None
        self._socket = connection.sock
        answer = connection.getresponse()
        self.status = answer.status
        self.lines: queue.Queue[Any] = queue.Queue()

        def read() -> None:
            # A stream that ends with its process may end within a line.
            with (
                contextlib.suppress(OSError, HTTPException, ValueError),
                contextlib.closing(answer),
                contextlib.closing(connection),
            ):
                for line in answer:
                    self.lines.put(json.loads(line))
            self.lines.put(None)

        self._thread = threading.Thread(target=read)
        self._thread.start()

    def close(self) -> None:
        """Leave the service."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE_SECONDS)

    def next(self) -> Any:
        """Return the next line; None: the stream has ended."""
        return self.lines.get(timeout=PATIENCE_SECONDS)

    def until(self, member: str) -> Any:
        """Return the next line with a member."""
        while member not in (line := self.next()):
            pass
        return line


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Serving]:
    serving = Serving(tmp_path, FLEET).wait_ready()
    yield serving
    serving.process.kill()
    serving.process.wait()


def token(service: Serving, host: str) -> Any:
    return service.admin("/v1/tokens", {"relay": host})


def ask(service: Serving, text: str, path: str, body: Any) -> Any:
    url = urlsplit(service.urls["operators"])
    connection = HTTPConnection(url.netloc, timeout=60)
    headers = {"Authorization": f"Bearer {text}", "Content-Type": "application/json"}
    connection.request("POST", path, json.dumps(body), headers)
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    document = json.loads(answer.read())
    connection.close()
    return document


def test_relays_of_two_hosts_carry_an_approval_until_one_is_revoked(
    service: Serving,
) -> None:
    url = service.urls["operators"]
    ours, theirs = token(service, "h1"), token(service, "h2")
    first, second = Relay(url, ours["token"]), Relay(url, theirs["token"])
    assert [guest["vm"] for guest in first.next()["guests"]] == ["web_0"]
    assert [guest["vm"] for guest in second.next()["guests"]] == ["web_1"]
    response = ask(service, ours["token"], "/v1/relay/enable", {"vm": "web_0"})
    assert response["enabled"] is True
    # Both VMs share a document, so both relays have it.
    for relay in (first, second):
        assert relay.until("views")["views"][0]["enabled"] is True
    order = service.admin("/v1/reboot", {"vms": ["web_0"]})
    (event,) = order["operations"][0]["events"]
    for relay in (first, second):
        (view,) = relay.until("views")["views"]
        assert [event_["id"] for event_ in view["events"]] == [event["EventId"]]
    body = {"approvals": [{"vm": "web_0", "event_ids": [event["EventId"]]}]}
    answer = ask(service, ours["token"], "/v1/relay/approve", body)
    assert answer["refusals"] == [None]
    (view,) = second.until("views")["views"]
    assert view["events"][0]["status"] == "Started"
    now = SystemClock().monotonic
    begun = now()
    service.admin("/v1/tokens/revoke", {"id": theirs["id"]})
    while second.next() is not None:
        pass
    assert now() - begun < SECOND_OF_A_BUSY_MACHINE
    refused = Relay(url, theirs["token"])
    assert refused.status == 401
    for relay in (first, second, refused):
        relay.close()


def test_a_relay_outlives_the_process_of_the_api_and_the_service(
    service: Serving, tmp_path: Path
) -> None:
    text = token(service, "h1")["token"]
    relay = Relay(service.urls["operators"], text)
    position = relay.next()["position"]
    ask(service, text, "/v1/relay/enable", {"vm": "web_0"})
    relay.until("views")
    service.process.send_signal(signal.SIGKILL)
    service.ended()
    while relay.next() is not None:
        pass
    relay.close()
    again = Serving(tmp_path, FLEET).wait_ready()
    try:
        # Another process cannot know what the relay has missed.
        back = Relay(again.urls["operators"], text, position)
        fresh = back.next()
        back.close()
        assert fresh["whole"] is True
        assert fresh["views"][0]["enabled"] is True
        assert int(fresh["position"].split(".")[0]) >= int(position.split(".")[0])
    finally:
        again.kill()
