"""A small service in a VM, which finishes its jobs before the VM stops.

It watches the Scheduled Events of its VM. Before the VM stops (Preempt, Terminate,
Redeploy, Reboot) it finishes its current jobs and then approves, so that the event can
start early. It ignores a Freeze of a few seconds.
"""

import json
import os
import queue
import threading
import urllib.request
from typing import Any, Self

PATH = "/metadata/scheduledevents?api-version=2020-07-01"
POLL_SECONDS = 1.0
PATIENCE_SECONDS = 10.0

# Requests to the metadata address never use a proxy.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Service:
    """A service that accepts jobs until its VM must stop."""

    def __init__(self, name: str, *, poll_seconds: float = POLL_SECONDS) -> None:
        """Start without jobs; `name` is the name of the VM."""
        self.name = name
        self.jobs: queue.Queue[str] = queue.Queue()
        self.done: list[str] = []
        self.is_leaving = False
        self._poll_seconds = poll_seconds
        self._approved: set[str] = set()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        """Start to watch."""
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop watching."""
        self._ends.set()
        self._thread.join()

    def look(self) -> None:
        """Poll once and handle the events."""
        for event in self._ask()["Events"]:
            if (
                self.name not in event["Resources"]
                or event["EventId"] in self._approved
            ):
                continue
            if event["EventType"] != "Freeze":
                self._leave()
            if event["EventStatus"] == "Scheduled":
                self._ask({"StartRequests": [{"EventId": event["EventId"]}]})
                self._approved.add(event["EventId"])

    def _leave(self) -> None:
        self.is_leaving = True
        while not self.jobs.empty():
            self.done.append(self.jobs.get())

    def _ask(self, body: object = None) -> Any:
        request = urllib.request.Request(
            os.environ.get("FOREWARN_ENDPOINT", "http://169.254.169.254") + PATH,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Metadata": "true"},
        )
        with _OPENER.open(request, timeout=PATIENCE_SECONDS) as answer:
            text = answer.read()
        # The response to an approval is empty; a document never is.
        return json.loads(text) if body is None else None

    def _run(self) -> None:
        while not self._ends.wait(self._poll_seconds):
            try:
                self.look()
            except (OSError, ValueError, KeyError):
                # Ignore any error, since the next poll may succeed.
                continue
