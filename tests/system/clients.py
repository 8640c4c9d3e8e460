"""Two polling programs: a careful one and a naive one."""

import http.client
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

QUERY = "/metadata/scheduledevents?api-version=2020-07-01"

PATIENCE_SECONDS = 10.0
"""Maximum seconds that the careful one waits for a response on a busy machine."""

SILENT_SECONDS = 0.15
"""The same where a fault delays responses, or gives none."""

SILENT = ("delay", "slow", "timeout")
"""These faults."""

HANGS_SECONDS = 0.3
"""Seconds without reaction after which a program counts as hung."""


class UnusableError(Exception):
    """The careful one's result for any invalid response."""


@dataclass
class Careful:
    """Keeps polling, with a timeout, and checks every response."""

    host: str
    port: int
    fault: str = ""
    """The faults that it will see."""
    acted: list[str] = field(default_factory=list[str])
    troubles: int = 0

    def poll(self) -> None:
        try:
            events = self._events(self._ask(b"GET", b""))
        except (OSError, UnusableError):
            self.troubles += 1
            return
        for event_id in events:
            if event_id not in self.acted:
                self.acted.append(event_id)

    def approve(self, event_id: str) -> bool:
        body = json.dumps({"StartRequests": [{"EventId": event_id}]}).encode()
        try:
            status, _, _ = self._ask(b"POST", body)
        except (OSError, UnusableError):
            return False
        return status == 200

    def _ask(self, method: bytes, body: bytes) -> tuple[int, str, bytes]:
        is_silent = any(kind in self.fault for kind in SILENT)
        patience = SILENT_SECONDS if is_silent else PATIENCE_SECONDS
        until = time.monotonic() + patience
        request = (
            b"%b %b HTTP/1.1\r\nHost: 169.254.169.254\r\nMetadata: true\r\n"
            b"Connection: close\r\nContent-Length: %d\r\n\r\n%b"
        ) % (method, QUERY.encode(), len(body), body)
        received = b""
        with socket.create_connection((self.host, self.port), patience) as wire:
            wire.sendall(request)
            while True:
                wire.settimeout(max(until - time.monotonic(), 0.001))
                part = wire.recv(65_536)
                if not part:
                    break
                received += part
        head, _, rest = received.partition(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        if not line or int(headers.get("content-length", "0")) != len(rest):
            raise UnusableError(line)
        return int(line.split(" ")[1]), headers.get("content-type", ""), rest

    def _events(self, answer: tuple[int, str, bytes]) -> list[str]:
        status, content_type, body = answer
        if status != 200 or "json" not in content_type:
            raise UnusableError(status)
        try:
            document = json.loads(body)
            return [event["EventId"] for event in document["Events"]]
        except (ValueError, KeyError, TypeError) as error:
            raise UnusableError(body) from error


@dataclass
class Naive:
    """Expects every response to be valid, and the last one to be complete."""

    host: str
    port: int
    trusts_number: bool = False
    """It reads events only if the incarnation has increased."""
    acted: list[str] = field(default_factory=list[str])
    plans: int = 0
    error: BaseException | None = None
    hangs: bool = False
    _last: list[Any] = field(default_factory=list[Any])
    _number: int = 0

    def poll(self) -> None:
        """Poll once in a separate thread, so that a hanging poll blocks nothing."""
        if self.error is not None or self.hangs:
            return
        thread = threading.Thread(target=self._try, daemon=True)
        thread.start()
        thread.join(HANGS_SECONDS)
        self.hangs = thread.is_alive()

    def _try(self) -> None:
        try:
            self._poll()
        except urllib.error.HTTPError as error:
            error.close()
            self.error = error
        except (OSError, ValueError, LookupError, TypeError) as error:
            self.error = error
        except http.client.HTTPException as error:
            self.error = error

    def _poll(self) -> None:
        request = urllib.request.Request(
            f"http://{self.host}:{self.port}{QUERY}", headers={"Metadata": "true"}
        )
        with urllib.request.urlopen(request) as answer:
            if answer.headers.get_content_type() != "application/json":
                # Like aiohttp and others.
                raise ValueError(answer.headers["Content-Type"])
            document = json.load(answer)
        if self.trusts_number and document["DocumentIncarnation"] <= self._number:
            return
        self._number = document["DocumentIncarnation"]
        events = document["Events"]
        before = {event["EventId"] for event in self._last}
        self.plans += events != self._last
        self._last = events
        for event in events:
            time.strptime(event["NotBefore"], "%a, %d %b %Y %H:%M:%S GMT")
            if event["EventId"] not in before:
                self.acted.append(event["EventId"])
