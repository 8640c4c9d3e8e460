"""Programs under test: clients that run in a VM, poll its endpoint, and approve."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from forewarn.testing.client import EVENTS_PATH, HttpClient

TARGET = f"{EVENTS_PATH}?api-version=2020-07-01"
PAUSE_SECONDS = 0.005
"""Time between two polls. Tests wait for the program, so it is short."""


class Program:
    """A client that approves each event that names its VM."""

    def __init__(self, url: str, vm: str = "web_0") -> None:
        """Send requests to `url`, as the VM."""
        self._client = HttpClient(url, timeout_seconds=5)
        self._vm = vm

    def events(self) -> list[dict[str, Any]]:
        """Poll once; return the events."""
        return self._client.ask("GET", TARGET).json["Events"]

    def approve(self, *event_ids: str) -> int:
        """Approve events; return the status of the answer."""
        requests = [{"EventId": event_id} for event_id in event_ids]
        body = json.dumps({"StartRequests": requests}).encode()
        return self._client.ask("POST", TARGET, body=body).status

    def look(self) -> list[str]:
        """Poll once, and approve each Scheduled event of this VM; return their IDs."""
        event_ids = [
            event["EventId"]
            for event in self.events()
            if event["EventStatus"] == "Scheduled" and self._vm in event["Resources"]
        ]
        if event_ids:
            self.approve(*event_ids)
        return event_ids

    @contextmanager
    def running(self, *, pause_seconds: float = PAUSE_SECONDS) -> Generator[None]:
        """Poll and approve repeatedly in a separate thread."""
        ends = threading.Event()

        def run() -> None:
            while not ends.wait(pause_seconds):
                try:
                    self.look()
                except (KeyError, OSError, ValueError):
                    # A program that keeps polling: the next response may be valid.
                    continue

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            ends.set()
            thread.join()
